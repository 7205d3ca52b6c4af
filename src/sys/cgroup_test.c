// SPDX-License-Identifier: Apache-2.0
/* Groups, limits, control and statistics in trees of ordinary files: which files are written, with what. What the
 * kernel makes of it is the subject of cgroup_root_test.c. */
#include "sys/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "sys/cgroup_control.h"
#include "sys/cgroup_devices.h"
#include "sys/cgroup_limits.h"
#include "sys/cgroup_stats.h"
#include "sys/cgroup_tree_test.h"

#include "base/banned.h"

#define V2_TOP "sys/fs/cgroup/osb/"
#define V2_ALL "cpu io memory hugetlb pids\n"

/* A v2 host with a top and a box b1, whose directory holds no files yet. */
static void start_v2(struct tree *t, struct cgroup *ret_box)
{
	struct err e = { 0 };

	tree_v2(t, "0::/\n");
	tree_v2_group(t, "osb/", V2_ALL, V2_ALL);
	tree_v2_group(t, "osb/b1/", V2_ALL, V2_ALL);
	tree_must_find(t, (struct cgroup_find){ 0 });
	if (cgroup_open_top(&t->l, "osb", NULL, &t->top, &e) < 0 || cgroup_make(&t->top, "b1", ret_box, &e) < 0)
		fail_msg("%s", e.msg);
}

static void start_v1(struct tree *t, struct cgroup *ret_box)
{
	struct err e = { 0 };

	tree_v1(t);
	tree_must_find(t, (struct cgroup_find){ .base = "x" });
	tree_put(t, "sys/fs/cgroup/memory/x/osb/memory.use_hierarchy", "0\n");
	if (cgroup_open_top(&t->l, "osb", NULL, &t->top, &e) < 0 || cgroup_make(&t->top, "b1", ret_box, &e) < 0)
		fail_msg("%s", e.msg);
	tree_check(t, "sys/fs/cgroup/memory/x/osb/memory.use_hierarchy", "1");
}

struct file {
	const char *path, *before, *after; /* after NULL: not looked at */
};

static void put_files(struct tree *t, const struct file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tree_put(t, files[i].path, files[i].before);
}

static void check_files(struct tree *t, const struct file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (files[i].after)
			tree_check(t, files[i].path, files[i].after);
}

static const struct cgroup_limits all_limits = {
	.memory_bytes = 536870912, .cpu_milli = 1500, .cpu_weight = 50, .io_weight = 200, .pids = 4096,
	.socket_bytes = 16777216, .no_swap = true, .no_hugetlb = true, .oom_whole = true,
};

/* ---- names and removal --------------------------------------------------------------------------------- */

static void names_are_checked(void **state)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "cgroup.procs", "a b", "\xc3\xa4", "a\n" };
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, g = CGROUP_INIT;
	char name[CGROUP_NAME_MAX + 2] = "";
	struct err e = { 0 };

	(void)state;
	start_v2(&t, &box);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(cgroup_make(&box, bad[i], &g, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_int_equal(cgroup_open_top(&t.l, bad[i], NULL, &g, &e), -1);
	}
	memset(name, 'a', CGROUP_NAME_MAX + 1);
	assert_int_equal(cgroup_make(&box, name, &g, &e), -1);
	name[CGROUP_NAME_MAX] = '\0';
	assert_int_equal(cgroup_make(&box, name, &g, &e), 0);
	assert_int_equal(cgroup_remove(&box, "../osb", 0, &e), -1);
	assert_int_equal(cgroup_remove(&box, "", 0, &e), -1);
	assert_int_equal(cgroup_open_top(&t.l, "osb", "", &g, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

static void paths_have_a_ceiling(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, g = CGROUP_INIT;
	char name[CGROUP_NAME_MAX + 1] = "";
	struct err e = { 0 };

	(void)state;
	start_v2(&t, &box);
	memset(name, 'a', CGROUP_NAME_MAX);
	memset(box.path, 'b', CGROUP_PATH_MAX);
	assert_int_equal(cgroup_make(&box, name, &g, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void removal_goes_down_and_stops_at_a_depth(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	start_v1(&t, &box);
	tree_mkdir(&t, "sys/fs/cgroup/pids/x/osb/b1/a/b/c");
	tree_mkdir(&t, "sys/fs/cgroup/pids/x/osb/b1/d");
	assert_int_equal(cgroup_remove(&t.top, "b1", 0, &e), 0);
	assert_int_equal(cgroup_remove(&t.top, "b1", 0, &e), 0);
	tree_mkdir(&t, "sys/fs/cgroup/pids/x/osb/b1/1/2/3/4/5/6/7/8/9");
	tree_mkdir(&t, "sys/fs/cgroup/blkio/x/osb/b1");
	assert_int_equal(cgroup_remove(&t.top, "b1", 0, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(faccessat(t.dir, "sys/fs/cgroup/blkio/x/osb/b1", F_OK, 0), -1); /* the others are gone */
	tree_put(&t, "sys/fs/cgroup/blkio/x/osb/b2", "no group");
	assert_int_equal(cgroup_remove(&t.top, "b2", 0, &e), -1);
}

static void lists_are_sorted_without_doubles_and_files(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20), small = ARENA_INIT(64);
	struct cgroup_names names;
	struct err e = { 0 };
	char path[128];

	(void)state;
	start_v1(&t, &box);
	for (int i = 0; i < 150; i++) {
		(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s/x/osb/c%03d", i % 2 ? "pids" : "blkio", i);
		tree_mkdir(&t, path);
	}
	assert_int_equal(cgroup_list(&t.top, &a, &names, &e), 0);
	assert_int_equal(names.n, 151);
	assert_string_equal(names.names[0], "b1");
	assert_string_equal(names.names[150], "c149");
	assert_int_equal(cgroup_list(&t.top, &small, &names, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_int_equal(cgroup_list(&box, &a, &names, &e), 0);
	assert_int_equal(names.n, 0);
}

static void a_shared_controller_has_no_group_below_the_top(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, again = CGROUP_INIT, leaf = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	start_v1(&t, &box);
	cgroup_layout_share(&t.l, CGROUP_BIT(CGROUP_IO) | CGROUP_BIT(CGROUP_CPU)); /* of which the latter serves another, too */
	assert_int_equal(cgroup_make(&t.top, "b2", &again, &e), 0);
	assert_true(cgroup_has(&again, CGROUP_CPU) && cgroup_has(&again, CGROUP_MEMORY) && !cgroup_has(&again, CGROUP_IO));
	assert_int_equal(faccessat(t.dir, "sys/fs/cgroup/blkio/x/osb/b2", F_OK, 0), -1);
	cgroup_done(&again);
	assert_int_equal(cgroup_open(&t.top, "b2", &again, &e), 0);
	assert_int_equal(cgroup_make_leaf(&again, "init", CGROUP_BIT(CGROUP_MEMORY), &leaf, &e), 0); /* none on v1 */
	assert_false(cgroup_has(&leaf, CGROUP_MEMORY));
	assert_int_equal(faccessat(t.dir, "sys/fs/cgroup/memory/x/osb/b2/init", F_OK, 0), -1);
}

static void a_shared_controller_is_not_handed_on_below_the_top(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, again = CGROUP_INIT, leaf = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	start_v2(&t, &box);
	tree_v2_group(&t, "osb/", "cpu io memory hugetlb pids\n", "");
	cgroup_layout_share(&t.l, CGROUP_BIT(CGROUP_IO) | CGROUP_BIT(CGROUP_HUGETLB) | CGROUP_BIT(CGROUP_PIDS) | CGROUP_BIT(CGROUP_MEMORY));
	assert_int_equal(cgroup_make(&t.top, "b2", &again, &e), 0);
	tree_check(&t, "sys/fs/cgroup/osb/cgroup.subtree_control", "+cpu");
	tree_v2_group(&t, "osb/b2/", "cpu\n", "cpu\n");
	assert_int_equal(cgroup_make_leaf(&again, "init", CGROUP_BIT(CGROUP_CPU), &leaf, &e), 0);
	assert_int_equal(faccessat(t.dir, "sys/fs/cgroup/osb/b2/init", F_OK, 0), 0);
}

static void entering_writes_to_every_hierarchy(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	AUTO(cgroup_entry_done) struct cgroup_entry entry = { 0 };
	struct err e = { 0 };

	(void)state;
	start_v1(&t, &box);
	assert_int_equal(cgroup_entry_open(&box, &entry, &e), -1); /* no such files yet */
	for (size_t i = 0; i < t.l.n; i++) {
		char path[256];

		(void)snprintf(path, sizeof(path), "%s/x/osb/b1/cgroup.procs", t.l.at[i].place + 1);
		tree_put(&t, path, "");
		(void)snprintf(path, sizeof(path), "%s/x/osb/b1/tasks", t.l.at[i].place + 1);
		tree_put(&t, path, "711");
	}
	assert_int_equal(cgroup_entry_open(&box, &entry, &e), 0);
	assert_int_equal(entry.n, 7);
	assert_int_equal(cgroup_enter(entry.fds, entry.n, &e), 0);
	tree_check(&t, "sys/fs/cgroup/memory/x/osb/b1/tasks", "011"); /* not truncated: files of a kernel are not */
	assert_int_equal(cgroup_enter(&(int){ -1 }, 1, &e), -1);
	assert_int_equal(cgroup_clone_dir(&box), -1);
}

/* ---- limits -------------------------------------------------------------------------------------------- */

static void limits_of_v2_are_written(void **state)
{
	static const struct file files[] = {
		{ V2_TOP "b1/memory.max", "max\n", "536870912" },
		{ V2_TOP "b1/memory.swap.max", "max\n", "0" },
		{ V2_TOP "b1/memory.oom.group", "0\n", "1" },
		{ V2_TOP "b1/cpu.max", "max 100000\n", "150000 100000" },
		{ V2_TOP "b1/cpu.weight", "100\n", "50" },
		{ V2_TOP "b1/pids.max", "max\n", "4096" },
		{ V2_TOP "b1/io.weight", "default 100\n", "default 200" },
		{ V2_TOP "b1/hugetlb.2MB.max", "max\n", "0" },
		{ V2_TOP "b1/hugetlb.2MB.rsvd.max", "max\n", "0" },
		{ V2_TOP "b1/hugetlb.2MB.current", "0\n", "0\n" },
	};
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct cgroup_limits off = { .memory_bytes = CGROUP_UNLIMITED, .pids = CGROUP_UNLIMITED, .cpu_milli = CGROUP_UNLIMITED };
	struct err e = { 0 };
	unsigned lacking = 1;

	(void)state;
	start_v2(&t, &box);
	put_files(&t, files, ARRAY_LEN(files));
	assert_int_equal(cgroup_limit(&box, &all_limits, &lacking, &e), 0);
	assert_int_equal(lacking, 0);
	check_files(&t, files, ARRAY_LEN(files));
	assert_int_equal(cgroup_limit(&box, &off, &lacking, &e), 0);
	tree_check(&t, V2_TOP "b1/memory.max", "max");
	tree_check(&t, V2_TOP "b1/pids.max", "max");
	tree_check(&t, V2_TOP "b1/cpu.max", "max 100000");
	off = (struct cgroup_limits){ .cpu_milli = 3 };
	assert_int_equal(cgroup_limit(&box, &off, &lacking, &e), 0);
	tree_check(&t, V2_TOP "b1/cpu.max", "3000 1000000");
	tree_check(&t, V2_TOP "b1/cpu.weight", "50"); /* what is not asked for stays */
}

static void limits_of_v1_are_written(void **state)
{
	static const struct file files[] = {
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.limit_in_bytes", "9223372036854771712\n", "536870912" },
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.memsw.limit_in_bytes", "9223372036854771712\n", "536870912" },
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.swappiness", "60\n", "60\n" },
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.kmem.tcp.limit_in_bytes", "9223372036854771712\n", "16777216" },
		{ "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpu.cfs_period_us", "50000\n", "100000" },
		{ "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpu.cfs_quota_us", "-1\n", "150000" },
		{ "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpu.shares", "1024\n", "512" },
		{ "sys/fs/cgroup/pids/x/osb/b1/pids.max", "max\n", "4096" },
		{ "sys/fs/cgroup/blkio/x/osb/b1/blkio.bfq.weight", "100\n", "200" },
		{ "sys/fs/cgroup/hugetlb/x/osb/b1/hugetlb.1GB.limit_in_bytes", "9223372036854771712\n", "0" },
		{ "sys/fs/cgroup/hugetlb/x/osb/b1/hugetlb.1GB.usage_in_bytes", "0\n", "0\n" },
	};
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct cgroup_limits off = { .memory_bytes = CGROUP_UNLIMITED, .cpu_milli = CGROUP_UNLIMITED, .cpu_weight = 0 };
	struct err e = { 0 };
	unsigned lacking = 0;

	(void)state;
	start_v1(&t, &box);
	put_files(&t, files, ARRAY_LEN(files));
	assert_int_equal(cgroup_limit(&box, &all_limits, &lacking, &e), 0);
	assert_int_equal(lacking, CGROUP_LIMIT_OOM_WHOLE);
	check_files(&t, files, ARRAY_LEN(files));
	assert_int_equal(cgroup_limit(&box, &off, &lacking, &e), 0);
	tree_check(&t, files[0].path, "-1");
	tree_check(&t, files[5].path, "-1");
}

static void what_cannot_be_enforced_is_reported(void **state)
{
	AUTO(tree_done) struct tree t, u;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, other = CGROUP_INIT;
	struct err e = { 0 };
	unsigned lacking = 0;

	(void)state;
	start_v2(&t, &box);
	assert_int_equal(cgroup_limit(&box, &all_limits, &lacking, &e), 0);
	assert_int_equal(lacking, 255); /* sockets are counted as memory there */
	for (unsigned bit = 1; bit <= 256; bit <<= 1)
		assert_string_not_equal(cgroup_limit_name(bit), "unknown");
	assert_string_equal(cgroup_limit_name(512), "unknown");
	tree_put(&t, V2_TOP "b1/io.bfq.weight", "");
	assert_int_equal(cgroup_limit(&box, &(struct cgroup_limits){ .io_weight = 5000 }, &lacking, &e), 0);
	assert_int_equal(lacking, 0);
	tree_check(&t, V2_TOP "b1/io.bfq.weight", "1000");
	t.l.where[CGROUP_MEMORY] = -1;
	assert_int_equal(cgroup_limit(&box, &(struct cgroup_limits){ .no_swap = true }, &lacking, &e), 0);
	assert_int_equal(lacking, CGROUP_LIMIT_SWAP);

	start_v1(&u, &other);
	assert_int_equal(cgroup_limit(&other, &all_limits, &lacking, &e), 0);
	assert_int_equal(lacking, 511);
	tree_put(&u, "sys/fs/cgroup/blkio/x/osb/b1/blkio.weight", "500\n");
	tree_put(&u, "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpu.shares", "1024\n");
	assert_int_equal(cgroup_limit(&other, &(struct cgroup_limits){ .io_weight = 1, .cpu_weight = 1 }, &lacking, &e), 0);
	tree_check(&u, "sys/fs/cgroup/blkio/x/osb/b1/blkio.weight", "10");
	tree_check(&u, "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpu.shares", "10");
}

static void nonsense_is_refused(void **state)
{
	static const struct cgroup_limits bad[] = {
		{ .cpu_milli = CGROUP_CPU_MILLI_MAX + 1 }, { .cpu_weight = 10001 }, { .io_weight = 10001 },
	};
	static const struct cgroup_device bad_devices[] = {
		{ 'a', 1, 1, 1 }, { 'c', 1, 1, 0 }, { 'c', 1, 1, 8 }, { 'c', 1U << 20, 1, 1 }, { 'b', 1, 1U << 31, 1 },
	};
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct cgroup_device many[CGROUP_DEVICES_MAX + 1] = { 0 };
	struct err e = { 0 };
	unsigned lacking;

	(void)state;
	start_v1(&t, &box);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(cgroup_limit(&box, &bad[i], &lacking, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad_devices); i++) {
		assert_int_equal(cgroup_limit_devices(&box, &bad_devices[i], 1, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
	assert_int_equal(cgroup_limit_devices(&box, many, ARRAY_LEN(many), &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	tree_mkdir(&t, "sys/fs/cgroup/pids/x/osb/b1/pids.max"); /* anything but a file is a plain error */
	assert_int_equal(cgroup_limit(&box, &(struct cgroup_limits){ .pids = 1 }, &lacking, &e), -1);
	assert_non_null(strstr(e.msg, "limit pids of group 'osb/b1'"));
	tree_put(&t, "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpu.cfs_period_us", "word\n");
	assert_int_equal(cgroup_limit(&box, &(struct cgroup_limits){ .cpu_milli = 1 }, &lacking, &e), -1);
	assert_int_equal(e.code, ERR_IO);
}

/* ---- devices ------------------------------------------------------------------------------------------- */

static const struct cgroup_device devices[] = {
	{ 'c', 1, 3, CGROUP_DEVICE_READ | CGROUP_DEVICE_WRITE | CGROUP_DEVICE_MAKE },
	{ 'c', 136, CGROUP_DEVICE_ANY, CGROUP_DEVICE_READ | CGROUP_DEVICE_WRITE },
	{ 'b', CGROUP_DEVICE_ANY, CGROUP_DEVICE_ANY, CGROUP_DEVICE_MAKE },
};

static void a_device_list_is_written_only_when_it_differs(void **state)
{
	static const char at[] = "sys/fs/cgroup/devices/x/osb/b1/";
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct err e = { 0 };
	char path[128];

	(void)state;
	start_v1(&t, &box);
	assert_int_equal(cgroup_limit_devices(&box, devices, 3, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	(void)snprintf(path, sizeof(path), "%sdevices.allow", at);
	tree_put(&t, path, "");
	(void)snprintf(path, sizeof(path), "%sdevices.deny", at);
	tree_put(&t, path, "");
	(void)snprintf(path, sizeof(path), "%sdevices.list", at);
	tree_put(&t, path, "b *:* m\nc 1:3 rwm\nc 136:* rw\n");
	assert_int_equal(cgroup_limit_devices(&box, devices, 3, &e), 0);
	tree_check(&t, "sys/fs/cgroup/devices/x/osb/b1/devices.deny", "");
	tree_put(&t, path, "a *:* rwm\n");
	assert_int_equal(cgroup_limit_devices(&box, devices, 3, &e), 0);
	tree_check(&t, "sys/fs/cgroup/devices/x/osb/b1/devices.deny", "a");
	tree_check(&t, "sys/fs/cgroup/devices/x/osb/b1/devices.allow", "b *:* m");
	t.l.where[CGROUP_DEVICES] = -1;
	assert_int_equal(cgroup_limit_devices(&box, devices, 3, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
}

/* Enough of the machine for the programs that we write. */
static int run_program(const struct bpf_insn *code, size_t n, const struct bpf_cgroup_dev_ctx *ctx)
{
	uint64_t r[11] = { 0 };

	for (size_t pc = 0; pc < n; pc++) {
		const struct bpf_insn *i = &code[pc];
		uint32_t word;

		switch (i->code) {
		case BPF_LDX | BPF_W | BPF_MEM:
			memcpy(&word, (const char *)ctx + i->off, sizeof(word));
			r[i->dst_reg] = word;
			break;
		case BPF_ALU64 | BPF_MOV | BPF_X: r[i->dst_reg] = r[i->src_reg]; break;
		case BPF_ALU64 | BPF_MOV | BPF_K: r[i->dst_reg] = (uint64_t)(int64_t)i->imm; break;
		case BPF_ALU64 | BPF_AND | BPF_K: r[i->dst_reg] &= (uint64_t)(int64_t)i->imm; break;
		case BPF_ALU | BPF_RSH | BPF_K: r[i->dst_reg] = (uint32_t)r[i->dst_reg] >> i->imm; break;
		case BPF_JMP | BPF_JNE | BPF_K: pc += r[i->dst_reg] != (uint64_t)(int64_t)i->imm ? (size_t)i->off : 0; break;
		case BPF_JMP | BPF_EXIT: return (int)r[0];
		default: return -1;
		}
	}
	return -2; /* ran off the end */
}

static void the_program_allows_what_the_list_says(void **state)
{
	static const struct {
		unsigned type, access, major, minor;
		int want;
	} cases[] = {
		{ BPF_DEVCG_DEV_CHAR, 6, 1, 3, 1 },   { BPF_DEVCG_DEV_CHAR, 7, 1, 3, 1 },   { BPF_DEVCG_DEV_CHAR, 2, 1, 4, 0 },
		{ BPF_DEVCG_DEV_BLOCK, 2, 1, 3, 0 },  { BPF_DEVCG_DEV_CHAR, 4, 136, 9, 1 }, { BPF_DEVCG_DEV_CHAR, 1, 136, 9, 0 },
		{ BPF_DEVCG_DEV_CHAR, 3, 136, 9, 0 }, { BPF_DEVCG_DEV_BLOCK, 1, 8, 0, 1 },  { BPF_DEVCG_DEV_BLOCK, 3, 8, 0, 0 },
		{ BPF_DEVCG_DEV_CHAR, 8, 1, 3, 0 },   { BPF_DEVCG_DEV_CHAR, 2, 10, 229, 0 },
	};
	struct bpf_insn code[CG_PROGRAM_MAX];
	struct cgroup_device many[CGROUP_DEVICES_MAX];
	size_t n = cg_devices_program(devices, ARRAY_LEN(devices), code);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bpf_cgroup_dev_ctx ctx = { cases[i].access << 16 | cases[i].type, cases[i].major, cases[i].minor };

		assert_int_equal(run_program(code, n, &ctx), cases[i].want);
	}
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = (struct cgroup_device){ 'c', (uint32_t)i, (uint32_t)i, 2 };
	n = cg_devices_program(many, ARRAY_LEN(many), code);
	assert_true(n <= CG_PROGRAM_MAX);
	assert_int_equal(run_program(code, n, &(struct bpf_cgroup_dev_ctx){ 2 << 16 | BPF_DEVCG_DEV_CHAR, 63, 63 }), 1);
	assert_int_equal(run_program(code, n, &(struct bpf_cgroup_dev_ctx){ 2 << 16 | BPF_DEVCG_DEV_CHAR, 63, 62 }), 0);
	n = cg_devices_program(NULL, 0, code);
	assert_int_equal(run_program(code, n, &(struct bpf_cgroup_dev_ctx){ 2 << 16 | BPF_DEVCG_DEV_CHAR, 1, 3 }), 0);
}

/* ---- control ------------------------------------------------------------------------------------------- */

static void v2_is_frozen_when_it_says_so(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	start_v2(&t, &box);
	tree_put(&t, V2_TOP "b1/cgroup.events", "populated 1\nfrozen 1\n");
	assert_int_equal(cgroup_freeze(&box, 0, &e), 0);
	tree_check(&t, V2_TOP "b1/cgroup.freeze", "1");
	assert_int_equal(cgroup_thaw(&box, 20, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	tree_check(&t, V2_TOP "b1/cgroup.freeze", "0");
	tree_put(&t, V2_TOP "b1/cgroup.events", "populated 1\nfrozen 0\n");
	assert_int_equal(cgroup_thaw(&box, 0, &e), 0);
	assert_int_equal(cgroup_freeze(&box, 20, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	tree_check(&t, V2_TOP "b1/cgroup.freeze", "0"); /* thawed again */
	assert_int_equal(cgroup_kill(&box, 20, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	tree_check(&t, V2_TOP "b1/cgroup.kill", "1");
	tree_put(&t, V2_TOP "b1/cgroup.events", "populated 0\n");
	assert_int_equal(cgroup_kill(&box, 0, &e), 0);
	assert_int_equal(cgroup_freeze(&box, 0, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE); /* no 'frozen' there */
}

static void v1_is_frozen_when_it_says_so(void **state)
{
	static const char at[] = "sys/fs/cgroup/freezer/x/osb/b1/freezer.state";
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	start_v1(&t, &box);
	assert_int_equal(cgroup_freeze(&box, 0, &e), 0); /* gone */
	tree_put(&t, at, "THAWED\n");
	assert_int_equal(cgroup_freeze(&box, 0, &e), 0);
	tree_check(&t, at, "FROZEN");
	assert_int_equal(cgroup_thaw(&box, 0, &e), 0);
	tree_check(&t, at, "THAWED");
	tree_put(&t, "sys/fs/cgroup/freezer/x/osb/b1/user/cgroup.procs", "2147483646\n");
	assert_int_equal(cgroup_kill(&box, 5, &e), -1); /* there is no such process, but the list stays */
	assert_int_equal(e.code, ERR_TIMEOUT);
	tree_check(&t, at, "THAWED");
	tree_put(&t, "sys/fs/cgroup/freezer/x/osb/b1/user/cgroup.procs", "");
	tree_mkdir(&t, "sys/fs/cgroup/freezer/x/osb/b1/1/2/3/4/5/6/7/8/9");
	assert_int_equal(cgroup_kill(&box, 5, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void a_host_that_cannot_freeze_can_still_count(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	start_v2(&t, &box);
	t.l.where[CGROUP_FREEZER] = -1;
	t.l.has_freeze = t.l.has_kill = false;
	assert_int_equal(cgroup_freeze(&box, 0, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	tree_put(&t, V2_TOP "b1/cgroup.events", "populated 1\n");
	assert_int_equal(cgroup_kill(&box, 5, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	t.l.at[0].is_v2 = false;
	assert_int_equal(cgroup_kill(&box, 0, &e), -1);
	assert_int_equal(cgroup_thaw(&box, 0, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
}

/* ---- statistics ---------------------------------------------------------------------------------------- */

#define STAT_ALL 127

static void statistics_of_v2(void **state)
{
	static const struct file files[] = {
		{ V2_TOP "b1/memory.current", "4096\n", NULL },
		{ V2_TOP "b1/memory.peak", "8192\n", NULL },
		{ V2_TOP "b1/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n", NULL },
		{ V2_TOP "b1/pids.current", "3\n", NULL },
		{ V2_TOP "b1/pids.peak", "5\n", NULL },
		{ V2_TOP "b1/io.stat", "8:0 rbytes=10 wbytes=20\n", NULL },
	};
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct cgroup_stats s;
	struct err e = { 0 };

	(void)state;
	start_v2(&t, &box);
	assert_int_equal(cgroup_stats_read(&box, &s, &e), 0);
	assert_int_equal(s.has, CGROUP_STAT_CPU);
	put_files(&t, files, ARRAY_LEN(files));
	assert_int_equal(cgroup_stats_read(&box, &s, &e), 0);
	assert_int_equal(s.has, STAT_ALL);
	assert_true(s.cpu_usage_us == 12 && s.memory_bytes == 4096 && s.memory_peak_bytes == 8192 && s.oom_kills == 1);
	assert_true(s.pids == 3 && s.pids_peak == 5 && s.io_read_bytes == 10 && s.io_written_bytes == 20);
	tree_put(&t, V2_TOP "b1/memory.current", "\n");
	assert_int_equal(cgroup_stats_read(&box, &s, &e), -1);
	assert_non_null(strstr(e.msg, "statistics of group 'osb/b1'"));
}

static void statistics_of_v1(void **state)
{
	static const struct file files[] = {
		{ "sys/fs/cgroup/cpu,cpuacct/x/osb/b1/cpuacct.usage", "12999\n", NULL },
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.usage_in_bytes", "4096\n", NULL },
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.max_usage_in_bytes", "8192\n", NULL },
		{ "sys/fs/cgroup/memory/x/osb/b1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", NULL },
		{ "sys/fs/cgroup/memory/x/osb/b1/user/memory.oom_control", "under_oom 0\noom_kill 2\n", NULL },
		{ "sys/fs/cgroup/pids/x/osb/b1/pids.current", "3\n", NULL },
		{ "sys/fs/cgroup/pids/x/osb/b1/pids.peak", "5\n", NULL },
		{ "sys/fs/cgroup/blkio/x/osb/b1/blkio.throttle.io_service_bytes", "8:0 Read 10\n8:0 Write 20\nTotal 30\n", NULL },
	};
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct cgroup_stats s;
	struct err e = { 0 };

	(void)state;
	start_v1(&t, &box);
	assert_int_equal(cgroup_stats_read(&box, &s, &e), 0);
	assert_int_equal(s.has, 0);
	put_files(&t, files, ARRAY_LEN(files));
	assert_int_equal(cgroup_stats_read(&box, &s, &e), 0);
	assert_int_equal(s.has, STAT_ALL);
	assert_true(s.cpu_usage_us == 12 && s.memory_bytes == 4096 && s.memory_peak_bytes == 8192 && s.oom_kills == 3);
	assert_true(s.pids == 3 && s.pids_peak == 5 && s.io_read_bytes == 10 && s.io_written_bytes == 20);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		t.l.where[c] = -1;
	assert_int_equal(cgroup_stats_read(&box, &s, &e), 0);
	assert_int_equal(s.has, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(paths_have_a_ceiling),
		cmocka_unit_test(removal_goes_down_and_stops_at_a_depth),
		cmocka_unit_test(lists_are_sorted_without_doubles_and_files),
		cmocka_unit_test(a_shared_controller_has_no_group_below_the_top),
		cmocka_unit_test(a_shared_controller_is_not_handed_on_below_the_top),
		cmocka_unit_test(entering_writes_to_every_hierarchy),
		cmocka_unit_test(limits_of_v2_are_written),
		cmocka_unit_test(limits_of_v1_are_written),
		cmocka_unit_test(what_cannot_be_enforced_is_reported),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(a_device_list_is_written_only_when_it_differs),
		cmocka_unit_test(the_program_allows_what_the_list_says),
		cmocka_unit_test(v2_is_frozen_when_it_says_so),
		cmocka_unit_test(v1_is_frozen_when_it_says_so),
		cmocka_unit_test(a_host_that_cannot_freeze_can_still_count),
		cmocka_unit_test(statistics_of_v2),
		cmocka_unit_test(statistics_of_v1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
