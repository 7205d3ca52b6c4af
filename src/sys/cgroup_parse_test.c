// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

#define B(c) CGROUP_BIT(CGROUP_##c)

static void names_of_controllers_are_known_per_version(void **state)
{
	static const struct {
		const char *text;
		char sep;
		bool is_v2;
		unsigned want;
	} cases[] = {
		{ "cpuset cpu io memory hugetlb pids rdma misc\n", ' ', true, B(CPU) | B(IO) | B(MEMORY) | B(HUGETLB) | B(PIDS) },
		{ "cpuset cpu io memory hugetlb pids rdma misc\n", ' ', false, B(CPU) | B(MEMORY) | B(HUGETLB) | B(PIDS) },
		{ "rw,cpu,cpuacct", ',', false, B(CPU) | B(CPUACCT) },
		{ "rw,nsdelegate,memory_recursiveprot", ',', true, 0 },
		{ "blkio", ',', false, B(IO) },
		{ "blkio freezer devices cpuacct", ' ', true, 0 },
		{ "freezer,devices", ',', false, B(FREEZER) | B(DEVICES) },
		{ "memoryx,xmemory,MEMORY", ',', false, 0 },
		{ "", ' ', true, 0 },
		{ "\n", ' ', true, 0 },
		{ ",,memory,,", ',', false, B(MEMORY) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(cgroup_parse_names(str_of(cases[i].text), cases[i].sep, cases[i].is_v2), cases[i].want);
	assert_string_equal(cgroup_controller_name(CGROUP_IO, false), "blkio");
	assert_string_equal(cgroup_controller_name(CGROUP_IO, true), "io");
	assert_string_equal(cgroup_controller_name(CGROUP_FREEZER, true), "freezer");
}

static void only_mounts_of_use_are_found(void **state)
{
	struct str in = STR("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
			    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
			    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
			    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
			    "33 31 0:30 /docker/ab /cg/with\\040blank\\134 ro,nosuid - cgroup cgroup rw,memory\n"
			    "41 31 259:1048575 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw");
	struct cgroup_mount m;

	(void)state;
	assert_true(cgroup_next_mount(&in, &m));
	assert_string_equal(m.place, "/sys/fs/cgroup/cpu,cpuacct");
	assert_int_equal(m.controllers, B(CPU) | B(CPUACCT));
	assert_true(!m.is_v2 && !m.is_read_only && m.major == 0 && m.minor == 29);
	assert_true(cgroup_next_mount(&in, &m));
	assert_string_equal(m.place, "/cg/with blank\\");
	assert_string_equal(m.root, "/docker/ab");
	assert_true(!m.is_v2 && m.is_read_only && m.controllers == B(MEMORY));
	assert_true(cgroup_next_mount(&in, &m));
	assert_true(m.is_v2 && m.controllers == 0 && m.major == 259 && m.minor == 1048575);
	assert_false(cgroup_next_mount(&in, &m));
	assert_false(cgroup_next_mount(&in, &m));
}

static void malformed_mounts_are_passed_over(void **state)
{
	static const char *const cases[] = {
		"",
		"\n\n\n",
		"31 23 0:28 / /x rw - cgroup2",
		"31 23 0:28 / /x rw - cgroup2 cgroup2",
		"31 23 0:28 / /x rw cgroup2 cgroup2 rw",
		"31 23 0-28 / /x rw - cgroup2 cgroup2 rw",
		"31 23 x:28 / /x rw - cgroup2 cgroup2 rw",
		"31 23 0:x / /x rw - cgroup2 cgroup2 rw",
		"31 23 0:4294967296 / /x rw - cgroup2 cgroup2 rw",
		"31 23 0:28 x /x rw - cgroup2 cgroup2 rw",
		"31 23 0:28 / x rw - cgroup2 cgroup2 rw",
		"31 23 0:28 / /x rw - cgroup3 cgroup2 rw",
		"31 23 0:28",
	};
	struct cgroup_mount m;
	char line[600] = "31 23 0:28 / /";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str in = str_of(cases[i]);

		assert_false(cgroup_next_mount(&in, &m));
		assert_int_equal(in.n, 0);
	}
	memset(line + strlen(line), 'a', CGROUP_MOUNT_MAX); /* one more than fits, with its slash */
	memcpy(line + strlen(line), " rw - cgroup2 none rw", 22);
	assert_false(cgroup_next_mount(&(struct str){ line, strlen(line) }, &m));
	memmove(line + 14, line + 15, strlen(line + 14));
	assert_true(cgroup_next_mount(&(struct str){ line, strlen(line) }, &m));
	assert_int_equal(strlen(m.place), CGROUP_MOUNT_MAX);
}

static void broken_escapes_stay_as_they_are(void **state)
{
	static const struct {
		const char *line, *place; /* NULL: refused */
	} cases[] = {
		{ "1 2 0:1 / /a\\04 rw - cgroup2 x rw", "/a\\04" },
		{ "1 2 0:1 / /a\\ rw - cgroup2 x rw", "/a\\" },
		{ "1 2 0:1 / /a\\089 rw - cgroup2 x rw", "/a\\089" },
		{ "1 2 0:1 / /a\\012b rw - cgroup2 x rw", "/a\nb" },
		{ "1 2 0:1 / /a\\000b rw - cgroup2 x rw", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str in = str_of(cases[i].line);
		struct cgroup_mount m;

		assert_int_equal(cgroup_next_mount(&in, &m), cases[i].place != NULL);
		if (cases[i].place)
			assert_string_equal(m.place, cases[i].place);
	}
}

static void own_group_is_the_one_of_hierarchy_0(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "0::/\n", "/" },
		{ "9:name=systemd:/a\n4:memory:/b\n0::/system.slice/x.service\n", "/system.slice/x.service" },
		{ "0::/a b:c", "/a b:c" },
		{ "9:name=systemd:/a\n4:memory:/b\n", NULL },
		{ "10::/a\n", NULL },
		{ "0::\n", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str own = { 0 };

		assert_int_equal(cgroup_parse_own(str_of(cases[i].text), &own), cases[i].want != NULL);
		assert_true(!cases[i].want || str_is(own, cases[i].want));
	}
}

static void the_kernel_says_what_it_has_and_what_is_off(void **state)
{
	unsigned known = 0, enabled = 0;

	(void)state;
	cgroup_parse_kernel(STR("#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t0\t1\t0\n"
				"blkio\t7\t1\t1\nnet_cls\t0\t1\t1\npids\t1\n"),
			    &known, &enabled);
	assert_int_equal(known, B(CPU) | B(MEMORY) | B(IO));
	assert_int_equal(enabled, B(CPU) | B(IO));
	cgroup_parse_kernel(STR(""), &known, &enabled);
	assert_int_equal(known | enabled, 0);
}

static void keys_and_numbers(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_true(cgroup_parse_key(STR("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"), "oom_kill", &v) && v == 2);
	assert_true(cgroup_parse_key(STR("populated 1\nfrozen 0"), "frozen", &v) && v == 0);
	v = 7;
	assert_false(cgroup_parse_key(STR("oom_kills 2\n oom_kill 3\noom_kill"), "oom_kill", &v));
	assert_false(cgroup_parse_key(STR("oom_kill -2\n"), "oom_kill", &v));
	assert_false(cgroup_parse_key(STR("oom_kill 18446744073709551616\n"), "oom_kill", &v));
	assert_false(cgroup_parse_key(STR(""), "", &v));
	assert_int_equal(v, 7);
	assert_true(cgroup_parse_number(STR("18446744073709551615\n"), &v) && v == UINT64_MAX);
	assert_true(cgroup_parse_number(STR("9223372036854771712\n"), &v) && v == 9223372036854771712U);
	assert_true(cgroup_parse_number(STR("max\n"), &v) && v == UINT64_MAX);
	assert_false(cgroup_parse_number(STR("-1\n"), &v) || cgroup_parse_number(STR(""), &v));
	assert_false(cgroup_parse_number(STR("1 2\n"), &v));
}

static void the_pressure_is_that_of_some(void **state)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {
		{ "some avg10=55.52 avg60=50.72 avg300=28.13 total=12127906426\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		  12127906426 },
		{ "full avg10=0.00 total=5\nsome total=7", 7 },
		{ "some total=18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = { "", "\n\n", "some", "some avg10=1", "full total=3\n", "some total=", "some total=-1",
					   "some total=18446744073709551616", "sometotal=1", "some total =1" };
	uint64_t us = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(cgroup_parse_pressure(str_of(good[i].text), &us) && us == good[i].us);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(cgroup_parse_pressure(str_of(bad[i]), &us));
}

static void processes_without_a_number_here_are_passed_over(void **state)
{
	struct str in = STR("1\n0\n2147483647\n2147483648\nx\n\n-3\n42");
	pid_t pid;

	(void)state;
	assert_true(cgroup_next_pid(&in, &pid) && pid == 1);
	assert_true(cgroup_next_pid(&in, &pid) && pid == 2147483647);
	assert_true(cgroup_next_pid(&in, &pid) && pid == 42);
	assert_false(cgroup_next_pid(&in, &pid));
}

static void io_is_summed_over_devices(void **state)
{
	static const struct {
		const char *text;
		bool is_v2;
		uint64_t read, written;
	} cases[] = {
		{ "8:0 rbytes=10 wbytes=1 rios=5 wios=6 dbytes=7 dios=8\n253:0 rbytes=5 wbytes=2\n", true, 15, 3 },
		{ "8:0 \n8:16 rbytes=x wbytes=4 rbytes\n", true, 0, 4 },
		{ "8:0 Read 10\n8:0 Write 1\n8:0 Sync 11\n8:0 Total 11\n8:16 Read 5\nTotal 16\n", false, 15, 1 },
		{ "Total 0\n8:0 Read x\n8:0 Write\n", false, 0, 0 },
		{ "8:0 rbytes=18446744073709551615\n8:1 rbytes=2\n", true, UINT64_MAX, 0 },
		{ "", true, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t read = 1, written = 1;

		cgroup_parse_io(str_of(cases[i].text), cases[i].is_v2, &read, &written);
		assert_int_equal(read, cases[i].read);
		assert_int_equal(written, cases[i].written);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_controllers_are_known_per_version),
		cmocka_unit_test(only_mounts_of_use_are_found),
		cmocka_unit_test(malformed_mounts_are_passed_over),
		cmocka_unit_test(broken_escapes_stay_as_they_are),
		cmocka_unit_test(own_group_is_the_one_of_hierarchy_0),
		cmocka_unit_test(the_kernel_says_what_it_has_and_what_is_off),
		cmocka_unit_test(keys_and_numbers),
		cmocka_unit_test(the_pressure_is_that_of_some),
		cmocka_unit_test(processes_without_a_number_here_are_passed_over),
		cmocka_unit_test(io_is_summed_over_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
