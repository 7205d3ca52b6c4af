// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */

#include "base/buf.h"
#include "base/err.h"
#include "execd/users.h"

#include "base/banned.h"

static const struct users_files files = {
	STR("root:x:0:0:root:/root:/bin/bash\n"
	    "# comment:x:1:1:::\n"
	    "short:x:5:5\n"
	    "long:x:5:5:::::\n"
	    ":x:6:6:::\n"
	    "big:x:65536:1:::\n"
	    "app:x:1000:1000:App:/home/app:/bin/sh\n"
	    "app:x:1001:1001:second of the name:/:/bin/sh\n"
	    "twin:x:1000:50:second of the id:/:/bin/sh\n"
	    "4242:x:7:7:a name of digits:/:/bin/sh\n"
	    "last:x:9:9:::"),
	STR("root:x:0:\n"
	    "app:x:1000:app\n"
	    "wheel:x:10:root,app\n"
	    "again:x:10:app\n"
	    "near:x:11:apps,ap,,xapp\n"
	    "huge:x:65536:app\n"
	    "staff:x:50:other,app"),
};

static void users_are_found_by_the_first_good_line(void **state)
{
	struct user u = { 0 };

	(void)state;
	assert_true(passwd_by_name(files.passwd, STR("app"), &u));
	assert_true(u.uid == 1000 && u.gid == 1000);
	assert_true(passwd_by_uid(files.passwd, 1000, &u) && str_eq(u.name, STR("app")));
	assert_true(passwd_by_uid(files.passwd, 9, &u) && str_eq(u.name, STR("last")));
	assert_false(passwd_by_uid(files.passwd, 5, &u));
	assert_false(passwd_by_uid(files.passwd, 6, &u));
	assert_false(passwd_by_name(files.passwd, STR("big"), &u));
	assert_false(passwd_by_name(files.passwd, STR("# comment"), &u));
	assert_false(passwd_by_name(files.passwd, STR(""), &u));
	assert_false(passwd_by_name(STR(""), STR("app"), &u));
}

static void a_uid_alone_has_the_groups_of_its_user(void **state)
{
	struct identity id;

	(void)state;
	identity_of_uid(&files, 1000, &id);
	assert_true(id.uid == 1000 && id.gid == 1000 && id.n_groups == 2);
	assert_true(id.groups[0] == 10 && id.groups[1] == 50);
	identity_of_uid(&files, 54321, &id);
	assert_true(id.uid == 54321 && id.gid == 54321 && id.n_groups == 0);
	identity_of_uid(&(struct users_files){ 0 }, 5, &id);
	assert_true(id.uid == 5 && id.gid == 5);
	identity_of_ids(5, 6, &id);
	assert_true(id.uid == 5 && id.gid == 6 && id.n_groups == 0);
}

static void texts_name_users_and_groups(void **state)
{
	static const struct {
		const char *text;
		int uid, gid; /* -1: refused */
		size_t n_groups;
	} cases[] = {
		{ "app", 1000, 1000, 2 },     { "1000", 1000, 1000, 2 },   { "app:staff", 1000, 50, 0 },
		{ "app:", 1000, 1000, 2 },    { "7:8", 7, 8, 0 },          { "4242", 4242, 4242, 0 },
		{ "nobody", -1, 0, 0 },       { "app:none", -1, 0, 0 },    { "65536", -1, 0, 0 },
		{ "1:65536", -1, 0, 0 },      { "", -1, 0, 0 },            { ":staff", -1, 0, 0 },
		{ "-1", -1, 0, 0 },           { "99999999999999999999", -1, 0, 0 },
		{ "0", 0, 0, 1 },             { "app:staff:x", -1, 0, 0 }, { "+5", -1, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct identity id = { 0 };
		struct err e = { 0 };
		int r = identity_of_text(&files, str_of(cases[i].text), &id, &e);

		assert_int_equal(r, cases[i].uid < 0 ? -1 : 0);
		if (r < 0) {
			assert_int_equal(e.code, ERR_INVALID);
			continue;
		}
		assert_int_equal(id.uid, cases[i].uid);
		assert_int_equal(id.gid, cases[i].gid);
		assert_int_equal(id.n_groups, cases[i].n_groups);
	}
}

static void groups_beyond_the_ceiling_are_left_out(void **state)
{
	AUTO(buf_done) struct buf group = BUF_INIT(1 << 16);
	gid_t out[USERS_GROUPS_MAX];

	(void)state;
	for (int i = 0; i < USERS_GROUPS_MAX + 10; i++)
		buf_addf(&group, "g%d:x:%d:me\n", i, i);
	assert_int_equal(groups_of(buf_str(&group), STR("me"), 0, out), USERS_GROUPS_MAX);
	assert_true(out[0] == 1 && out[USERS_GROUPS_MAX - 1] == USERS_GROUPS_MAX);
}

static void the_files_of_this_system_are_read(void **state)
{
	struct identity id;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(users_by_text(STR("root"), &id, &e), 0);
	assert_true(id.uid == 0 && id.gid == 0);
	assert_int_equal(users_by_uid(0, &id, &e), 0);
	assert_true(id.uid == 0 && id.gid == 0);
}

static void one_is_found_by_its_name_or_its_number(void **state)
{
	const struct users_files f = { STR("web:x:33:34::/:/bin/sh\n7:x:9:9::/:\n"), STR("web:x:35:\nlog:x:4:web\n5:x:8:\n") };
	static const struct {
		const char *name;
		int uid, gid, n_groups;
	} users[] = { { "web", 33, 34, 1 }, { "33", 33, 34, 1 }, { "7", 7, 7, 0 }, { "65536", -1, 0, 0 }, { "", -1, 0, 0 },
		      { "log", -1, 0, 0 }, { "-1", -1, 0, 0 }, { "web:web", -1, 0, 0 } };
	static const struct {
		const char *name;
		int gid;
	} groups[] = { { "web", 35 }, { "log", 4 }, { "5", 5 }, { "65536", -1 }, { "", -1 }, { "root", -1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(users); i++) {
		struct identity id = { 0 };
		struct err e = { 0 };
		int r = identity_of_name(&f, str_of(users[i].name), &id, &e);

		assert_int_equal(r, users[i].uid < 0 ? -1 : 0);
		assert_true(r < 0 ? e.code == ERR_INVALID : id.uid == (uid_t)users[i].uid && id.gid == (gid_t)users[i].gid);
		assert_int_equal(id.n_groups, users[i].n_groups);
	}
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		struct err e = { 0 };
		gid_t gid = 0;
		int r = gid_of_name(&f, str_of(groups[i].name), &gid, &e);

		assert_int_equal(r, groups[i].gid < 0 ? -1 : 0);
		assert_true(r < 0 ? e.code == ERR_INVALID : gid == (gid_t)groups[i].gid);
	}
}

static void entries_come_one_after_the_other(void **state)
{
	struct str passwd = STR("a:x:1:2::/:/bin/sh\nbroken\n\nb:x:70000:1::/:/bin/sh\nc:x:3:4::/:");
	struct str group = STR("g:x:5:a,b\n:x:6:\nh:x:y:\ni:x:7:"), name;
	struct user u;
	gid_t gid;

	(void)state;
	assert_true(passwd_next(&passwd, &u) && str_is(u.name, "a") && u.uid == 1 && u.gid == 2);
	assert_true(passwd_next(&passwd, &u) && str_is(u.name, "c") && u.uid == 3 && u.gid == 4);
	assert_false(passwd_next(&passwd, &u));
	assert_true(group_next(&group, &name, &gid) && str_is(name, "g") && gid == 5);
	assert_true(group_next(&group, &name, &gid) && str_is(name, "i") && gid == 7);
	assert_false(group_next(&group, &name, &gid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_are_found_by_the_first_good_line),
		cmocka_unit_test(a_uid_alone_has_the_groups_of_its_user),
		cmocka_unit_test(texts_name_users_and_groups),
		cmocka_unit_test(groups_beyond_the_ceiling_are_left_out),
		cmocka_unit_test(the_files_of_this_system_are_read),
		cmocka_unit_test(one_is_found_by_its_name_or_its_number),
		cmocka_unit_test(entries_come_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
