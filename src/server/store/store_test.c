// SPDX-License-Identifier: Apache-2.0
#include "server/store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/log.h"
#include "net/loop.h"
#include "server/store/store_impl.h"
#include "server/store/test_disk.h"

#include "base/banned.h"

#define WALL INT64_C(1780000000000000)

struct rig {
	char dir[64], state[96], db[128];
	struct loop *loop;
	struct store *store;
	enum store_fault fault;
	struct err e;
	unsigned done, failed;
	struct err failure;
	unsigned sandboxes, events, keys, members, idle;
	char pools[256]; /* "name id sizes;" of each */
	struct sandbox_row row; /* the last one that was read; its strings are gone */
	char metadata[64], message[64];
};

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void rig_start(struct rig *r)
{
	*r = (struct rig){ 0 };
	log_set_fd(-1);
	(void)snprintf(r->dir, sizeof(r->dir), "/tmp/store-test.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	(void)snprintf(r->state, sizeof(r->state), "%s/a/state", r->dir);
	(void)snprintf(r->db, sizeof(r->db), "%s/db.sqlite", r->state);
	r->loop = loop_new(&r->e);
	assert_non_null(r->loop);
}

static void rig_open(struct rig *r)
{
	r->store = store_open(r->state, &r->fault, &r->e);
	if (!r->store)
		fail_msg("%s", r->e.msg);
	assert_int_equal(store_start(r->store, r->loop, &r->e), 0);
}

static void rig_close(struct rig *r)
{
	store_close(take_ptr(&r->store));
}

static void rig_stop(struct rig *r)
{
	rig_close(r);
	loop_free(r->loop);
	assert_int_equal(nftw(r->dir, unlink_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	log_set_fd(2);
}

static void on_done(const struct err *e, void *arg)
{
	struct rig *r = arg;

	r->done++;
	r->failed += e != NULL;
	if (e)
		r->failure = *e;
}

static void submit(struct rig *r, struct store_tx *tx)
{
	unsigned before = r->done;

	assert_int_equal(store_submit(r->store, tx, on_done, r, &r->e), 0);
	for (int i = 0; i < 5000 && r->done == before; i++)
		assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
	assert_int_equal(r->done, before + 1);
}

static struct store_tx *insert(const char *id)
{
	static const char *entrypoint[] = { "a", "b c" };
	static struct string_pair pair = { "k", "v" };
	struct sandbox_row row = {
		.id = id, .image = "host", .entrypoint = { entrypoint, 2 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.metadata = { &pair, 1 }, .created_us = WALL, .expires_us = WALL + 1, .deadline_ms = 7, .changed_us = WALL,
		.state = SANDBOX_PENDING, .reason = "R", .message = "M",
	};
	struct store_tx *tx = store_tx_new();

	store_tx_insert(tx, &row);
	return tx;
}

static int read_sandbox(const struct sandbox_row *row, void *arg, struct err *e)
{
	struct rig *r = arg;

	(void)e;
	r->sandboxes++;
	r->row = *row;
	(void)snprintf(r->metadata, sizeof(r->metadata), "%s", row->metadata.n > 0 ? row->metadata.items[0].value : "");
	return 0;
}

static int read_event(const struct store_event *ev, void *arg, struct err *e)
{
	struct rig *r = arg;

	(void)e;
	r->events++;
	(void)snprintf(r->message, sizeof(r->message), "%s", ev->message);
	return 0;
}

static int read_key(const struct store_key *k, void *arg, struct err *e)
{
	struct rig *r = arg;

	(void)e;
	assert_int_equal(k->body[0], 9);
	r->keys++;
	return 0;
}

static int read_member(const char *sandbox_id, const char *pool_id, bool is_idle, void *arg, struct err *e)
{
	struct rig *r = arg;

	(void)e;
	assert_string_equal(sandbox_id, "a");
	assert_string_equal(pool_id, "p-1");
	r->members++;
	r->idle += is_idle;
	return 0;
}

static int read_pool(const struct store_pool *p, void *arg, struct err *e)
{
	struct rig *r = arg;
	size_t n = strlen(r->pools);

	(void)e;
	assert_true(str_starts(p->template, STR("{\"image\"")));
	(void)snprintf(r->pools + n, sizeof(r->pools) - n, "%s %s %lld %lld %lld %lld;", p->name, p->id,
		       (long long)p->capacity.buffer_min, (long long)p->capacity.buffer_max,
		       (long long)p->capacity.pool_min, (long long)p->capacity.pool_max);
	return 0;
}

/* Closes, opens again and counts what is there. */
static void reread(struct rig *r)
{
	static const struct store_reader reader = { .sandbox = read_sandbox, .event = read_event, .key = read_key,
						     .member = read_member };

	rig_close(r);
	r->sandboxes = r->events = r->keys = r->members = r->idle = 0;
	r->pools[0] = '\0';
	r->store = store_open(r->state, &r->fault, &r->e);
	assert_non_null(r->store);
	assert_int_equal(store_load_pools(r->store, read_pool, r, &r->fault, &r->e), 0);
	assert_int_equal(store_load(r->store, &reader, r, &r->fault, &r->e), 0);
	assert_int_equal(store_start(r->store, r->loop, &r->e), 0);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void files_are_ours_alone(void **state)
{
	char wal[160], copy[160];
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	submit(&r, insert("a"));
	(void)snprintf(copy, sizeof(copy), "%s/copy.sqlite", r.state);
	assert_int_equal(mode_of(copy), 0600);
	(void)snprintf(wal, sizeof(wal), "%s-wal", r.db);
	assert_int_equal(mode_of(r.state), 0700);
	assert_int_equal(mode_of(r.db), 0600);
	assert_int_equal(mode_of(wal), 0600);
	rig_close(&r);
	assert_int_equal(chmod(r.state, 0755), 0);
	assert_int_equal(chmod(r.db, 0644), 0);
	rig_open(&r);
	assert_int_equal(mode_of(r.state), 0700);
	assert_int_equal(mode_of(r.db), 0600);
	rig_stop(&r);
}

static void what_is_committed_is_read_again(void **state)
{
	struct store_key key = { .key = STR("0123456789012345678901234567890123456789012345678901234567890123"),
				 .body = { 9 }, .sandbox_id = "a", .expires_us = WALL };
	struct string_pair pair = { "k", "w" };
	struct sandbox_row changed = { .id = "a", .state = SANDBOX_FAILED, .reason = "X", .message = "Y", .changed_us = WALL + 9 };
	struct store_tx *tx;
	char meta[STORE_META_MAX];
	struct rig r;
	size_t n;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	tx = insert("a");
	store_tx_intent(tx, "a", INTENT_CREATE);
	store_tx_event(tx, &(struct store_event){ "a", WALL, "lifecycle", "Created", "first" });
	store_tx_key(tx, &key);
	submit(&r, tx);
	reread(&r);
	assert_int_equal(r.sandboxes, 1);
	assert_int_equal(r.events, 1);
	assert_int_equal(r.keys, 1);
	assert_int_equal(r.row.intent, INTENT_CREATE);
	assert_int_equal(r.row.deadline_ms, 7);
	tx = store_tx_new();
	store_tx_intent(tx, "a", INTENT_NONE);
	store_tx_state(tx, &changed);
	store_tx_expiry(tx, "a", WALL + 5, 11);
	store_tx_metadata(tx, "a", &(struct string_map){ &pair, 1 });
	store_tx_forget_key(tx, key.key);
	store_tx_meta(tx, "m", STR("v\0w"));
	submit(&r, tx);
	reread(&r);
	assert_int_equal(r.row.intent, INTENT_NONE);
	assert_int_equal(r.row.state, SANDBOX_FAILED);
	assert_int_equal(r.row.expires_us, WALL + 5);
	assert_int_equal(r.row.deadline_ms, 11);
	assert_string_equal(r.metadata, "w");
	assert_int_equal(r.keys, 0);
	tx = store_tx_new();
	store_tx_delete(tx, "a");
	submit(&r, tx);
	reread(&r);
	assert_int_equal(r.sandboxes + r.events, 0); /* the events went with it */
	rig_close(&r);
	r.store = store_open(r.state, &r.fault, &r.e);
	assert_int_equal(store_meta_get(r.store, "m", meta, &n, &r.e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(store_meta_get(r.store, "none", meta, &n, &r.e), 0);
	assert_int_equal(n, 0);
	rig_stop(&r);
}

static void old_events_go(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	submit(&r, insert("a"));
	for (int i = 0; i < STORE_EVENTS_MAX + 30; i++) {
		struct store_tx *tx = store_tx_new();
		char text[16];

		(void)snprintf(text, sizeof(text), "%d", i);
		store_tx_event(tx, &(struct store_event){ "a", WALL, "lifecycle", "T", text });
		submit(&r, tx);
	}
	reread(&r);
	assert_int_equal(r.events, STORE_EVENTS_MAX);
	assert_string_equal(r.message, "229");
	rig_stop(&r);
}

static void a_transaction_is_whole_or_not_at_all(void **state)
{
	struct store_tx *tx;
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	tx = insert("a");
	store_tx_intent(tx, "nobody", INTENT_CREATE); /* a record that is not there: the foreign key says no */
	submit(&r, tx);
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.failure.code, ERR_UNAVAILABLE);
	submit(&r, insert("b"));
	assert_int_equal(r.failed, 1);
	reread(&r);
	assert_int_equal(r.sandboxes, 1);
	assert_int_equal(store_submit(r.store, NULL, on_done, &r, &r.e), -1);
	rig_stop(&r);
}

static void a_second_server_is_told(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	assert_null(store_open(r.state, &r.fault, &r.e));
	assert_int_equal(r.fault, STORE_LOCKED);
	rig_close(&r);
	rig_open(&r);
	rig_stop(&r);
}

static void spoil(const char *path, off_t at, const char *bytes, size_t n)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
	(void)close(fd);
}

static void damage_is_named(void **state)
{
	static const struct store_reader reader = { .sandbox = read_sandbox, .event = read_event, .key = read_key,
						     .member = read_member };
	static char noise[3000];
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	submit(&r, insert("a"));
	rig_close(&r);
	memset(noise, 0x5a, sizeof(noise));
	spoil(r.db, 4096, noise, sizeof(noise)); /* a page of a table */
	assert_null(store_open(r.state, &r.fault, &r.e));
	assert_int_equal(r.fault, STORE_DAMAGED);
	assert_int_equal(unlink(r.db), 0);
	spoil(r.db, 0, noise, sizeof(noise)); /* no database at all */
	assert_null(store_open(r.state, &r.fault, &r.e));
	assert_int_equal(r.fault, STORE_DAMAGED);
	assert_int_equal(unlink(r.db), 0);
	rig_open(&r);
	submit(&r, insert("../x")); /* a row that cannot be */
	rig_close(&r);
	r.store = store_open(r.state, &r.fault, &r.e);
	assert_non_null(r.store);
	assert_int_equal(store_load(r.store, &reader, &r, &r.fault, &r.e), -1);
	assert_int_equal(r.fault, STORE_DAMAGED);
	rig_stop(&r);
}

static void exec_sql(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(db);
}

static void foreign_and_newer_files_are_refused(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	rig_close(&r);
	exec_sql(r.db, "PRAGMA user_version = 99");
	assert_null(store_open(r.state, &r.fault, &r.e));
	assert_int_equal(r.fault, STORE_FAILED);
	assert_non_null(strstr(r.e.msg, "newer"));
	exec_sql(r.db, "PRAGMA application_id = 7");
	assert_null(store_open(r.state, &r.fault, &r.e));
	assert_int_equal(r.fault, STORE_DAMAGED);
	rig_stop(&r);
}

struct seen_images {
	size_t images, layers;
	char manifest[32];
	bool is_private;
};

static int see_image(const struct store_image *im, void *arg, struct err *e)
{
	struct seen_images *seen = arg;

	(void)e;
	assert_string_equal(im->name, "docker.io/library/a:b");
	assert_int_equal(im->digest.size, SHA512_SIZE);
	assert_int_equal(im->digest.bytes[63], 7);
	assert_int_equal(im->pulled_us, 9);
	(void)snprintf(seen->manifest, sizeof(seen->manifest), "%.*s", STR_ARG(im->manifest));
	seen->is_private = im->is_private;
	seen->images++;
	return 0;
}

static int see_layer(const unsigned char name[DIGEST_NAME_SIZE], void *arg, struct err *e)
{
	struct seen_images *seen = arg;

	(void)e;
	assert_int_equal(name[0], 3);
	seen->layers++;
	return 0;
}

static struct seen_images reread_images(struct rig *r)
{
	static const struct store_image_reader reader = { see_image, see_layer };
	struct seen_images seen = { 0 };

	rig_close(r);
	r->store = store_open(r->state, &r->fault, &r->e);
	assert_non_null(r->store);
	assert_int_equal(store_load_images(r->store, &reader, &seen, &r->fault, &r->e), 0);
	assert_int_equal(store_start(r->store, r->loop, &r->e), 0);
	return seen;
}

static void images_are_replaced_and_forgotten_by_name_and_platform(void **state)
{
	struct store_image im = { .name = "docker.io/library/a:b", .os = "linux", .arch = "amd64", .digest = { .size = SHA512_SIZE, .bytes = { [63] = 7 } },
				  .manifest = STR("{1}"), .config = STR("{}"), .is_private = true, .pulled_us = 9 };
	const unsigned char layer[SHA256_SIZE] = { 3 };
	struct seen_images seen;
	struct store_tx *tx;
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	tx = store_tx_new();
	store_tx_durable(tx);
	store_tx_image(tx, &im);
	im.manifest = STR("{2}");
	im.is_private = false;
	store_tx_image(tx, &im);
	store_tx_layer(tx, layer, true);
	store_tx_layer(tx, layer, true);
	submit(&r, tx);
	seen = reread_images(&r);
	assert_int_equal(seen.images, 1);
	assert_int_equal(seen.layers, 1);
	assert_string_equal(seen.manifest, "{2}");
	assert_false(seen.is_private);
	tx = store_tx_new();
	store_tx_forget_image(tx, im.name, "linux", "arm64");
	store_tx_layer(tx, layer, false);
	submit(&r, tx);
	seen = reread_images(&r);
	assert_int_equal(seen.images, 1);
	assert_int_equal(seen.layers, 0);
	tx = store_tx_new();
	store_tx_forget_image(tx, im.name, im.os, im.arch);
	submit(&r, tx);
	assert_int_equal(reread_images(&r).images, 0);
	rig_stop(&r);
}

#define SCHEMA_STEPS_MAX 32

static void an_upgrade_keeps_a_copy(void **state)
{
	size_t n = store_schema.n;
	const char *steps[SCHEMA_STEPS_MAX] = { 0 };
	struct connection c = { 0 };
	char copy[160];
	struct rig r;

	(void)state;
	assert_true(n + 2 <= ARRAY_LEN(steps));
	memcpy(steps, store_schema.steps, n * sizeof(steps[0]));
	steps[n] = "ALTER TABLE keys ADD COLUMN more TEXT";
	steps[n + 1] = "CREATE TABLE meta (x)"; /* there is one */
	rig_start(&r);
	rig_open(&r);
	submit(&r, insert("a"));
	rig_close(&r);
	c.path = r.db;
	assert_true(n + 2 <= ARRAY_LEN(steps));
	memcpy(steps, store_schema.steps, n * sizeof(steps[0]));
	steps[n] = "ALTER TABLE keys ADD COLUMN more TEXT";
	steps[n + 1] = "CREATE TABLE meta (x)";
	assert_int_equal(connection_open(&c, &r.e), 0);
	assert_int_equal(schema_prepare(&c, &(struct schema){ steps, n + 1 }, &r.fault, &r.e), 0);
	(void)snprintf(copy, sizeof(copy), "%s.v%zu", r.db, n);
	assert_int_equal(mode_of(copy), 0600);
	assert_int_equal(connection_exec(c.db, "SELECT more FROM keys", &r.e), 0);
	assert_int_equal(schema_prepare(&c, &(struct schema){ steps, n + 2 }, &r.fault, &r.e), -1);
	assert_int_equal(schema_prepare(&c, &(struct schema){ steps, n + 1 }, &r.fault, &r.e), 0); /* as it was */
	connection_close(&c);
	exec_sql(copy, "SELECT * FROM sandboxes");
	rig_stop(&r);
}

/* A file of the first version, with a row. */
static void make_old(struct rig *r)
{
	struct connection c = { .path = r->db };
	AUTO(store_tx_free) struct store_tx *tx = insert("a");

	rig_open(r);
	rig_close(r);
	assert_int_equal(unlink(r->db), 0);
	assert_int_equal(state_file_make(r->db, &r->e), 0);
	assert_int_equal(connection_open(&c, &r->e), 0);
	assert_int_equal(schema_prepare(&c, &(struct schema){ store_schema.steps, 1 }, &r->fault, &r->e), 0);
	assert_int_equal(connection_run(&c, tx, &r->e), 0);
	connection_close(&c);
}

static void a_file_of_the_first_version_is_brought_up_to_date(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r);
	make_old(&r);
	rig_open(&r);
	reread(&r);
	assert_int_equal(r.sandboxes, 1);
	assert_int_equal(r.members, 0);
	rig_stop(&r);
}

static struct store_pool some_pool(const char *id, const char *name)
{
	return (struct store_pool){ .id = id, .name = name, .template = STR("{\"image\":{\"uri\":\"host\"}}"),
				    .capacity = { 1, 2, 3, 4 }, .created_us = WALL };
}

static void pools_and_what_was_made_for_them_are_read_again(void **state)
{
	struct store_pool one = some_pool("p-1", "one"), two = some_pool("p-2", "two");
	struct sandbox_row row = { .id = "a", .image = "host", .limits = RUNTIME_LIMITS_DEFAULT, .created_us = WALL,
				   .changed_us = WALL, .state = SANDBOX_RUNNING, .reason = "R", .message = "M", .pool = "p-1",
				   .is_idle = true };
	static const char *entrypoint[] = { "x" };
	struct store_tx *tx = store_tx_new();
	struct rig r;

	(void)state;
	row.entrypoint = (struct string_list){ entrypoint, 1 };
	rig_start(&r);
	rig_open(&r);
	store_tx_pool(tx, &one);
	store_tx_pool(tx, &two);
	store_tx_insert(tx, &row);
	submit(&r, tx);
	tx = store_tx_new();
	store_tx_pool_capacity(tx, "p-1", &(struct pool_capacity){ 5, 6, 7, 8 });
	store_tx_pool_delete(tx, "p-2");
	submit(&r, tx);
	reread(&r);
	assert_string_equal(r.pools, "one p-1 5 6 7 8;");
	assert_int_equal(r.members, 1);
	assert_int_equal(r.idle, 1);
	tx = store_tx_new();
	row.renew_s = 600;
	row.expires_us = WALL + 60;
	store_tx_hand_out(tx, &row);
	submit(&r, tx);
	reread(&r);
	assert_int_equal(r.idle, 0);
	assert_int_equal(r.members, 1);
	assert_int_equal(r.row.renew_s, 600);
	assert_int_equal(r.row.expires_us, WALL + 60);
	tx = store_tx_new();
	store_tx_delete(tx, "a");
	submit(&r, tx);
	reread(&r);
	assert_int_equal(r.members, 0);
	rig_stop(&r);
}

static void a_name_is_given_once_and_a_failed_one_leaves_the_store_as_it_was(void **state)
{
	struct store_pool one = some_pool("p-1", "one"), again = some_pool("p-2", "one");
	struct store_tx *tx = store_tx_new();
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	store_tx_pool(tx, &one);
	submit(&r, tx);
	tx = store_tx_new();
	store_tx_pool(tx, &again);
	submit(&r, tx);
	assert_int_equal(r.failed, 1);
	submit(&r, insert("a"));
	assert_int_equal(r.failed, 1);
	reread(&r);
	assert_string_equal(r.pools, "one p-1 1 2 3 4;");
	assert_int_equal(r.sandboxes, 1);
	rig_stop(&r);
}

static void pools_that_cannot_be_are_damage(void **state)
{
	static const char *const changes[] = {
		"UPDATE pools SET name = 'One'",         "UPDATE pools SET id = '../x'",
		"UPDATE pools SET template = '{'",       "UPDATE pools SET buffer_min = 3",
		"UPDATE pools SET pool_max = -1",        "UPDATE pools SET pool_max = 65537",
		"UPDATE pools SET created_us = 0",
	};
	struct store_pool one = some_pool("p-1", "one");
	char copy[128];
	struct rig r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct store_tx *tx = store_tx_new();

		rig_start(&r);
		rig_open(&r);
		store_tx_pool(tx, &one);
		submit(&r, tx);
		rig_close(&r);
		exec_sql(r.db, changes[i]);
		(void)snprintf(copy, sizeof(copy), "%s/copy.sqlite", r.state);
		assert_int_equal(unlink(copy), 0); /* or it would be mended from there */
		r.store = store_open(r.state, &r.fault, &r.e);
		assert_non_null(r.store);
		assert_int_equal(store_load_pools(r.store, read_pool, &r, &r.fault, &r.e), -1);
		assert_int_equal(r.fault, STORE_DAMAGED);
		rig_stop(&r);
	}
}

static void pool_names_are_dns_labels(void **state)
{
	static const struct {
		const char *name;
		bool is_valid;
	} rows[] = {
		{ "a", true },  { "0", true },   { "a-b", true }, { "a--b", true }, { "", false },   { "-a", false },
		{ "a-", false }, { "A", false }, { "a.b", false }, { "a_b", false }, { "a b", false }, { "\xc3\xa4", false },
	};
	char longest[STORE_POOL_NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(pool_name_valid(str_of(rows[i].name)), rows[i].is_valid);
	memset(longest, 'a', sizeof(longest));
	assert_true(pool_name_valid((struct str){ longest, STORE_POOL_NAME_MAX }));
	assert_false(pool_name_valid((struct str){ longest, STORE_POOL_NAME_MAX + 1 }));
}

static void a_full_disk_fails_writes_and_nothing_else(void **state)
{
	static const struct {
		int failure;
		enum err_code want;
	} rows[] = {
		{ SQLITE_FULL, ERR_LIMIT },
		{ SQLITE_IOERR_WRITE, ERR_UNAVAILABLE },
		{ SQLITE_BUSY, ERR_UNAVAILABLE },
	};
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char bad[8], good[8];

		(void)snprintf(bad, sizeof(bad), "bad%zu", i);
		(void)snprintf(good, sizeof(good), "good%zu", i);
		atomic_store(&disk_failure, rows[i].failure);
		submit(&r, insert(bad));
		atomic_store(&disk_failure, 0);
		assert_int_equal(r.failed, i + 1);
		assert_int_equal(r.failure.code, rows[i].want);
		submit(&r, insert(good)); /* it mends itself */
		assert_int_equal(r.failed, i + 1);
	}
	reread(&r);
	assert_int_equal(r.sandboxes, ARRAY_LEN(rows));
	rig_stop(&r);
}

static void the_queue_has_a_ceiling_and_is_written_at_the_end(void **state)
{
	unsigned submitted = 0;
	struct rig r;

	(void)state;
	rig_start(&r);
	rig_open(&r);
	atomic_store(&disk_stalls, true);
	for (; submitted < STORE_QUEUE_MAX + 10; submitted++) {
		struct store_tx *tx = store_tx_new();
		char name[16];

		(void)snprintf(name, sizeof(name), "n%u", submitted % 10);
		store_tx_meta(tx, name, STR("x"));
		if (store_submit(r.store, tx, on_done, &r, &r.e) < 0)
			break;
	}
	assert_in_range(submitted, STORE_QUEUE_MAX, STORE_QUEUE_MAX + 1); /* one may be with the writer */
	assert_int_equal(r.e.code, ERR_UNAVAILABLE);
	atomic_store(&disk_stalls, false);
	rig_close(&r); /* without calling back */
	assert_int_equal(r.done, 0);
	rig_open(&r);
	rig_stop(&r);
}

/* Writes as fast as it can and says so each time, until it is killed. */
static void writer(struct rig *r, int fd)
{
	rig_open(r);
	for (unsigned i = 0;; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "s%u", i);
		submit(r, insert(id));
		if (write(fd, &i, sizeof(i)) != sizeof(i))
			_exit(1);
	}
}

static void what_was_acknowledged_survives_a_kill(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r);
	for (int round = 0; round < 3; round++) {
		unsigned last = 0, status;
		int pipes[2];
		pid_t pid;

		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0)
			writer(&r, pipes[1]);
		(void)close(pipes[1]);
		while (last < 40u * (unsigned)(round + 1))
			assert_int_equal(read(pipes[0], &last, sizeof(last)), sizeof(last));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, (int *)&status, 0), pid);
		while (read(pipes[0], &last, sizeof(last)) == sizeof(last))
			;
		(void)close(pipes[0]);
		reread(&r);
		assert_in_range(r.sandboxes, last + 1, last + 2); /* one more may have been committed but not said */
		rig_close(&r);
		exec_sql(r.db, "DELETE FROM sandboxes");
	}
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_ours_alone),
		cmocka_unit_test(what_is_committed_is_read_again),
		cmocka_unit_test(old_events_go),
		cmocka_unit_test(a_transaction_is_whole_or_not_at_all),
		cmocka_unit_test(a_second_server_is_told),
		cmocka_unit_test(damage_is_named),
		cmocka_unit_test(foreign_and_newer_files_are_refused),
		cmocka_unit_test(an_upgrade_keeps_a_copy),
		cmocka_unit_test(images_are_replaced_and_forgotten_by_name_and_platform),
		cmocka_unit_test(a_file_of_the_first_version_is_brought_up_to_date),
		cmocka_unit_test(pools_and_what_was_made_for_them_are_read_again),
		cmocka_unit_test(a_name_is_given_once_and_a_failed_one_leaves_the_store_as_it_was),
		cmocka_unit_test(pools_that_cannot_be_are_damage),
		cmocka_unit_test(pool_names_are_dns_labels),
		cmocka_unit_test(a_full_disk_fails_writes_and_nothing_else),
		cmocka_unit_test(the_queue_has_a_ceiling_and_is_written_at_the_end),
		cmocka_unit_test(what_was_acknowledged_survives_a_kill),
	};

	disk_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
