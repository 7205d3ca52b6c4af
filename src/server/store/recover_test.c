// SPDX-License-Identifier: Apache-2.0
/* A new database from what is left of an old one, and from what runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

#define NOW INT64_C(1780000000000000)

static char dir[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/recover-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	log_set_fd(-1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *in_dir(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put_file(const char *name, const char *text)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void add_row(struct store_tx *tx, const char *id, enum sandbox_state state, enum sandbox_intent intent)
{
	static const char *entrypoint[] = { "x" };
	struct sandbox_row row = {
		.id = id, .image = "host", .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.created_us = NOW, .changed_us = NOW, .expires_us = NOW + 5, .state = state, .reason = "R", .message = "M",
	};
	struct store_event ev = { id, NOW, "lifecycle", "Created", "it was" };

	store_tx_insert(tx, &row);
	store_tx_event(tx, &ev);
	if (intent != INTENT_NONE)
		store_tx_intent(tx, id, intent);
}

/* A database as a killed server leaves it; with NULL for TX an empty one. */
static void make_database(struct store_tx *tx)
{
	enum store_fault fault;
	struct err e = { 0 };
	struct store *s = store_open(dir, &fault, &e);
	struct connection c = { .path = strdup(in_dir("db.sqlite")) };

	assert_non_null(s);
	store_close(s);
	assert_int_equal(connection_open(&c, &e), 0);
	if (tx)
		assert_int_equal(connection_run(&c, tx, &e), 0);
	connection_close(&c);
	free(c.path);
	store_tx_free(tx);
}

static struct store_recovered recover(const struct runtime_box *boxes, size_t n)
{
	struct store_recover_spec spec = { .dir = dir, .boxes = boxes, .n_boxes = n, .image = "host", .boot_id = "boot-2",
					   .now_us = NOW + 1 };
	struct store_recovered did;
	enum store_fault fault;
	struct err e = { 0 };

	if (store_recover(&spec, &did, &fault, &e) < 0)
		fail_msg("%s", e.msg);
	return did;
}

/* What the new one has: "id state intent expiry;" for each, then events and keys. */
static char all[1024];

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	size_t n = strlen(all);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(all + n, sizeof(all) - n, fmt, ap);
	va_end(ap);
}

static int on_sandbox(const struct sandbox_row *row, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("%s %s %s %lld;", row->id, sandbox_state_name(row->state), sandbox_intent_name(row->intent),
	    row->expires_us ? (long long)(row->expires_us - NOW) : 0);
	return 0;
}

static int on_volume(const struct volume_row *row, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("%s=%s %s %llu;", row->name, row->id, volume_state_name(row->state), (unsigned long long)row->size_bytes);
	return 0;
}

static int on_event(const struct store_event *ev, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("%s:%s@%lld;", ev->sandbox_id, ev->type, (long long)(ev->at_us - NOW));
	return 0;
}

static int on_key(const struct store_key *k, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("key %s %lld", k->sandbox_id, (long long)k->expires_us);
	return 0;
}

static int on_member(const char *sandbox_id, const char *pool_id, bool is_idle, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say(";%s in %s%s", sandbox_id, pool_id, is_idle ? " idle" : "");
	return 0;
}

static int on_pool(const struct store_pool *p, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say(";pool %s %lld", p->name, (long long)p->capacity.pool_max);
	return 0;
}

static const char *load(char boot[STORE_META_MAX])
{
	static const struct store_reader reader = { .volume = on_volume, .sandbox = on_sandbox, .event = on_event, .key = on_key,
						     .member = on_member };
	enum store_fault fault;
	struct err e = { 0 };
	struct store *s = store_open(dir, &fault, &e);
	size_t n;

	if (!s)
		fail_msg("%s", e.msg);
	all[0] = '\0';
	assert_int_equal(store_load(s, &reader, NULL, &fault, &e), 0);
	assert_int_equal(store_load_pools(s, on_pool, NULL, &fault, &e), 0);
	assert_int_equal(store_meta_get(s, "boot_id", boot, &n, &e), 0);
	boot[n] = '\0';
	store_close(s);
	return all;
}

static void everything_that_can_be_read_is_kept(void **state)
{
	const struct runtime_box boxes[] = {
		{ .id = "run", .state = RUNTIME_RUNNING }, { .id = "made", .state = RUNTIME_RUNNING },
		{ .id = "new", .state = RUNTIME_PAUSED }, { .id = "half", .state = RUNTIME_STARTING },
	};
	struct store_tx *tx = store_tx_new();
	struct store_key key = { .key = STR("0123456789012345678901234567890123456789012345678901234567890123"),
				 .sandbox_id = "run", .expires_us = 77 };
	struct store_pool pool = { .id = "p", .name = "warm", .template = STR("{}"), .capacity = { 0, 1, 0, 9 }, .created_us = NOW };
	struct store_recovered did;
	char boot[STORE_META_MAX];

	(void)state;
	add_row(tx, "run", SANDBOX_RUNNING, INTENT_NONE);
	add_row(tx, "made", SANDBOX_PENDING, INTENT_CREATE); /* the end of its create was lost: it runs */
	add_row(tx, "never", SANDBOX_PENDING, INTENT_CREATE);
	add_row(tx, "going", SANDBOX_STOPPING, INTENT_REMOVE);
	store_tx_key(tx, &key);
	store_tx_pool(tx, &pool);
	store_tx_member(tx, "run", "p", true);
	store_tx_meta(tx, "boot_id", STR("boot-1"));
	make_database(tx);
	did = recover(boxes, ARRAY_LEN(boxes));
	assert_int_equal(did.read, 4);
	assert_int_equal(did.rebuilt, 1);
	assert_false(did.is_partial);
	assert_string_equal(did.aside, "damaged-1.sqlite");
	assert_string_equal(load(boot), "run Running  5;made Running  5;never Pending create 5;going Stopping remove 5;"
					"new Paused  0;run:Created@0;made:Created@0;never:Created@0;going:Created@0;"
					"new:Adopted@1;key run 77;run in p idle;pool warm 9");
	assert_string_equal(boot, "boot-1");
	assert_int_equal(access(in_dir("damaged-1.sqlite"), F_OK), 0);
	assert_int_equal(access(in_dir("salvage.sqlite"), F_OK), -1);
	assert_int_equal(access(in_dir("recovering"), F_OK), -1);
}

static void what_is_no_database_leaves_what_runs(void **state)
{
	const struct runtime_box boxes[] = { { .id = "run", .state = RUNTIME_RUNNING } };
	struct store_recovered did;
	char boot[STORE_META_MAX];

	(void)state;
	put_file("db.sqlite", "this is not a database, and it is long enough to be seen as one that is none at all..........");
	put_file("db.sqlite-wal", "nor is this its log");
	did = recover(boxes, 1);
	assert_int_equal(did.read, 0);
	assert_true(did.is_partial);
	assert_string_equal(load(boot), "run Running  0;run:Adopted@1;");
	assert_string_equal(boot, "boot-2");
	assert_int_equal(access(in_dir("damaged-1.sqlite-wal"), F_OK), 0);
	did = recover(boxes, 1); /* of a sound one: nothing changes */
	assert_string_equal(did.aside, "damaged-2.sqlite");
	assert_string_equal(load(boot), "run Running  0;run:Adopted@1;");
}

static void volumes_are_kept_unless_they_were_to_go(void **state)
{
	static const char *const names[] = { "making", "ready", "doomed", "removing" };
	struct store_tx *tx = store_tx_new();
	struct connection c = { .path = NULL };
	char boot[STORE_META_MAX];
	struct err e = { 0 };

	(void)state;
	for (unsigned i = 0; i < VOLUME_STATES; i++)
		store_tx_volume(tx, &(struct volume_row){ .name = i == VOLUME_REMOVING ? "ready" : names[i], .id = names[i], .size_bytes = i,
							  .created_us = NOW, .state = (enum volume_state)i });
	make_database(tx);
	assert_string_equal(load(boot), "making=making making 0;ready=ready ready 1;doomed=doomed doomed 2;ready=removing removing 3;");
	c.path = strdup(in_dir("db.sqlite"));
	assert_int_equal(connection_open(&c, &e), 0);
	assert_int_equal(connection_exec(c.db, "UPDATE volumes SET name = '../x' WHERE id = 'doomed'", &e), 0);
	connection_close(&c);
	free(c.path);
	assert_int_equal(unlink(in_dir("copy.sqlite")), 0); /* which has them whole */
	assert_int_equal(recover(NULL, 0).bad, 1);
	assert_string_equal(load(boot), "making=making ready 0;ready=ready ready 1;ready=removing removing 3;");
}

struct syncing {
	bool is_full, was_full; /* now, and at the last commit */
};

static int note_statement(unsigned kind, void *arg, void *statement, void *text)
{
	struct syncing *y = arg;
	const char *sql = text;

	(void)kind, (void)statement;
	if (strncmp(sql, "PRAGMA synchronous", strlen("PRAGMA synchronous")) == 0)
		y->is_full = strstr(sql, "FULL") != NULL;
	if (strcmp(sql, "COMMIT") == 0)
		y->was_full = y->is_full;
	return 0;
}

/* S1: what outlives sandboxes survives a loss of power. */
static void durable_transactions_are_flushed_and_others_are_not(void **state)
{
	struct connection c = { .path = NULL };
	struct syncing y = { 0 };
	struct err e = { 0 };

	(void)state;
	make_database(NULL);
	c.path = strdup(in_dir("db.sqlite"));
	assert_int_equal(connection_open(&c, &e), 0);
	assert_int_equal(sqlite3_trace_v2(c.db, SQLITE_TRACE_STMT, note_statement, &y), SQLITE_OK);
	for (int i = 0; i < 4; i++) {
		struct store_tx *tx = store_tx_new();

		store_tx_meta(tx, "x", STR("y"));
		if (i % 2 == 0)
			store_tx_durable(tx);
		assert_int_equal(connection_run(&c, tx, &e), 0);
		store_tx_free(tx);
		assert_int_equal(y.was_full, i % 2 == 0);
	}
	connection_close(&c);
	free(c.path);
}

/* S8: what the copy has whole is not salvaged; it is complete. */
static void durable_tables_come_from_a_sound_copy(void **state)
{
	struct store_pool pool = { .id = "p", .name = "warm", .template = STR("{}"), .capacity = { 0, 1, 0, 9 }, .created_us = NOW };
	struct volume_row volume = { .name = "data", .id = "v", .size_bytes = 7, .created_us = NOW, .state = VOLUME_READY };
	static char noise[4096];
	struct store_tx *tx = store_tx_new();
	struct store_recovered did;
	char boot[STORE_META_MAX];
	int fd;

	(void)state;
	store_tx_pool(tx, &pool);
	store_tx_volume(tx, &volume);
	make_database(tx);
	assert_string_equal(load(boot), "data=v ready 7;;pool warm 9"); /* the copy is made anew */
	fd = open(in_dir("db.sqlite"), O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
	(void)close(fd);
	for (int i = 0; i < 2; i++) {
		did = recover(NULL, 0);
		assert_int_equal(did.from_copy, i == 0 ? DURABLE_TABLES : 0);
		assert_string_equal(load(boot), "data=v ready 7;;pool warm 9");
		assert_false(did.is_secret_new);
		assert_int_equal(unlink(in_dir("copy.sqlite")), 0);
	}
}

static void an_older_copy_is_not_believed(void **state)
{
	struct volume_row volume = { .name = "data", .id = "v", .size_bytes = 7, .created_us = NOW, .state = VOLUME_READY };
	struct store_tx *tx = store_tx_new();
	char boot[STORE_META_MAX];

	(void)state;
	store_tx_volume(tx, &volume);
	make_database(tx); /* without the copy */
	assert_int_equal(recover(NULL, 0).from_copy, 0);
	assert_string_equal(load(boot), "data=v ready 7;");
}

static void a_lost_secret_is_made_anew_by_a_recovery_only(void **state)
{
	static const char *const lost[] = { "secret", "copy.sqlite", "db.sqlite" };
	struct store_tx *tx = store_tx_new();
	enum store_fault fault;
	struct err e = { 0 };
	char boot[STORE_META_MAX];

	(void)state;
	store_tx_meta(tx, "boot_id", STR("boot-1"));
	make_database(tx);
	for (size_t i = 0; i < ARRAY_LEN(lost); i++)
		put_file(lost[i], "x");
	assert_true(recover(NULL, 0).is_secret_new);
	assert_string_equal(load(boot), "");
	put_file("secret", "x");
	assert_int_equal(unlink(in_dir("db.sqlite")), 0);
	assert_int_equal(unlink(in_dir("copy.sqlite")), 0);
	assert_null(store_open(dir, &fault, &e));
	assert_int_equal(fault, STORE_DAMAGED);
	assert_non_null(strstr(e.msg, "backup"));
}

static void rows_that_make_no_sense_are_left_behind(void **state)
{
	struct store_tx *tx = store_tx_new();
	struct connection c = { .path = NULL };
	struct store_recovered did;
	char boot[STORE_META_MAX];
	struct err e = { 0 };

	(void)state;
	add_row(tx, "good", SANDBOX_TERMINATED, INTENT_NONE);
	add_row(tx, "bad", SANDBOX_RUNNING, INTENT_NONE);
	make_database(tx);
	c.path = strdup(in_dir("db.sqlite"));
	assert_int_equal(connection_open(&c, &e), 0);
	assert_int_equal(connection_exec(c.db, "UPDATE sandboxes SET state = 'Dreaming' WHERE id = 'bad'", &e), 0);
	connection_close(&c);
	free(c.path);
	did = recover(NULL, 0);
	assert_int_equal(did.read, 1);
	assert_true(did.bad > 0);
	assert_string_equal(load(boot), "good Terminated  5;good:Created@0;");
}

static void one_that_was_cut_off_is_not_opened(void **state)
{
	enum store_fault fault;
	struct err e = { 0 };

	(void)state;
	make_database(NULL);
	put_file("recovering", "damaged-1.sqlite");
	assert_null(store_open(dir, &fault, &e));
	assert_int_equal(fault, STORE_DAMAGED);
	(void)recover(NULL, 0);
	put_file("recovering", "../../etc/passwd"); /* no name of ours: a new one is chosen */
	assert_string_equal(recover(NULL, 0).aside, "damaged-2.sqlite");
}

static void the_secret_survives_the_database(void **state)
{
	unsigned char first[STORE_SECRET_SIZE], again[STORE_SECRET_SIZE];
	enum store_fault fault;
	struct err e = { 0 };
	struct stat st;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct store *s = store_open(dir, &fault, &e);

		assert_int_equal(store_secret(s, i == 0 ? first : again, &e), 0);
		store_close(s);
		if (i > 0)
			assert_memory_equal(first, again, sizeof(first));
		assert_int_equal(stat(in_dir("secret"), &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(unlink(in_dir(i == 0 ? "secret" : "db.sqlite")), 0);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(everything_that_can_be_read_is_kept), TEST(what_is_no_database_leaves_what_runs),
		TEST(rows_that_make_no_sense_are_left_behind), TEST(one_that_was_cut_off_is_not_opened),
		TEST(the_secret_survives_the_database), TEST(volumes_are_kept_unless_they_were_to_go),
		TEST(durable_transactions_are_flushed_and_others_are_not), TEST(durable_tables_come_from_a_sound_copy),
		TEST(an_older_copy_is_not_believed), TEST(a_lost_secret_is_made_anew_by_a_recovery_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
