// SPDX-License-Identifier: Apache-2.0
/* Every damage to the database or to its copy: what outlives sandboxes (S1) is still there, or the start says that it is not (S8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "net/loop.h"
#include "server/store/store_impl.h"
#include "server/store/test_disk.h"

#include "base/banned.h"

#define WALL INT64_C(1780000000000000)

static char dir[64];
static struct loop *loop;
static struct store *store;
static enum store_fault fault;
static struct err error;
static unsigned n_done, n_failed;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	(void)state;
	log_set_fd(-1);
	n_done = n_failed = 0;
	(void)snprintf(dir, sizeof(dir), "/tmp/copy-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	loop = loop_new(&error);
	return loop ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	store_close(take_ptr(&store));
	loop_free(loop);
	log_set_fd(2);
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void open_store(void)
{
	store = store_open(dir, &fault, &error);
	if (!store)
		fail_msg("%s", error.msg);
	assert_int_equal(store_start(store, loop, &error), 0);
}

static void close_store(void)
{
	store_close(take_ptr(&store));
}

static void on_done(const struct err *e, void *arg)
{
	(void)arg;
	n_done++;
	n_failed += e != NULL;
	if (e)
		error = *e;
}

static void submit(struct store_tx *tx)
{
	unsigned before = n_done;

	assert_int_equal(store_submit(store, tx, on_done, NULL, &error), 0);
	for (int i = 0; i < 5000 && n_done == before; i++)
		assert_int_equal(loop_turn(loop, 1, &error), 0);
	assert_int_equal(n_done, before + 1);
}

/* ---- what there is ---- */

/* One of everything, with N in its name. */
static void add_all(struct store_tx *tx, unsigned n)
{
	static char id[32], name[32];
	const unsigned char digest[DIGEST_NAME_SIZE] = { (unsigned char)n };
	struct snapshot_row snapshot = { .id = id, .sandbox_id = "s", .image = "host", .reference = "0123456789abcdef0123456789abcdef", .state = SNAPSHOT_READY,
					 .reason = "R", .message = "M", .created_us = WALL, .changed_us = WALL };
	struct store_image image = { .name = name, .os = "linux", .arch = "amd64", .digest = { .size = SHA256_SIZE },
				     .manifest = STR("{}"), .config = STR("{}"), .pulled_us = WALL };
	struct store_pool pool = { .id = id, .name = name, .template = STR("{}"), .capacity = { 0, 1, 0, n }, .created_us = WALL };
	struct volume_row volume = { .name = name, .id = id, .size_bytes = n, .created_us = WALL, .state = VOLUME_READY };

	(void)snprintf(id, sizeof(id), "id-%u", n);
	(void)snprintf(name, sizeof(name), "name-%u", n);
	store_tx_snapshot(tx, &snapshot);
	store_tx_image(tx, &image);
	store_tx_layer(tx, digest, true);
	store_tx_pool(tx, &pool);
	store_tx_volume(tx, &volume);
}

static char all[8192];

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	size_t n = strlen(all);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(all + n, sizeof(all) - n, fmt, ap);
	va_end(ap);
}

static int on_volume(const struct volume_row *row, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("volume %s %s %llu %s;", row->id, row->name, (unsigned long long)row->size_bytes, volume_state_name(row->state));
	return 0;
}

static int on_snapshot(const struct snapshot_row *row, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("snapshot %s %s %s;", row->id, snapshot_state_name(row->state), row->reference);
	return 0;
}

static int on_image(const struct store_image *im, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("image %s %s;", im->name, im->arch);
	return 0;
}

static int on_layer(const unsigned char name[DIGEST_NAME_SIZE], void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("layer %u;", name[0]);
	return 0;
}

static int on_pool(const struct store_pool *p, void *arg, struct err *e)
{
	(void)arg, (void)e;
	say("pool %s %s %lld;", p->id, p->name, (long long)p->capacity.pool_max);
	return 0;
}

static int on_sandbox(const struct sandbox_row *row, void *arg, struct err *e)
{
	(void)row, (void)arg, (void)e;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The order of rows is nobody's business. */
static void sort_all(void)
{
	static char text[sizeof(all)];
	char *rows[256], *rest = text;
	size_t n = 0;

	memcpy(text, all, sizeof(text));
	while (n < ARRAY_LEN(rows) && (rows[n] = strsep(&rest, ";")))
		n++;
	qsort(rows, n, sizeof(rows[0]), compare);
	all[0] = '\0';
	for (size_t i = 0; i < n; i++)
		if (rows[i][0])
			say("%s;", rows[i]);
}

/* All durable tables as text, or NULL: the store cannot be read. */
static const char *load(void)
{
	static const struct store_reader reader = { .volume = on_volume, .sandbox = on_sandbox };
	static const struct store_image_reader images = { on_image, on_layer };
	const char *r = all;

	all[0] = '\0';
	store = store_open(dir, &fault, &error);
	if (!store)
		return NULL;
	if (store_load(store, &reader, NULL, &fault, &error) < 0 || store_load_snapshots(store, on_snapshot, NULL, &fault, &error) < 0 ||
	    store_load_images(store, &images, NULL, &fault, &error) < 0 || store_load_pools(store, on_pool, NULL, &fault, &error) < 0)
		r = NULL;
	close_store();
	sort_all();
	return r;
}

/* ---- files ---- */

static const char *const files[] = { "db.sqlite", "db.sqlite-wal", "copy.sqlite", "copy.sqlite-wal", "secret" };

static const char *path_of(const char *set, const char *name)
{
	static char paths[2][160];
	static unsigned next;
	char *path = paths[next++ % 2];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s%s%s", dir, set, *set ? "/" : "", name);
	return path;
}

static void copy_file(const char *from, const char *to)
{
	static char bytes[1 << 20];
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	ssize_t n;

	(void)unlink(to);
	if (in < 0)
		return;
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	n = read(in, bytes, sizeof(bytes));
	assert_in_range(n, 0, (ssize_t)sizeof(bytes) - 1);
	assert_int_equal(write(out, bytes, (size_t)n), n);
	(void)close(in);
	(void)close(out);
}

/* Of a store that is open: the files as a kill would leave them. */
static void save(const char *set)
{
	assert_int_equal(mkdir(path_of(set, ""), 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		copy_file(path_of("", files[i]), path_of(set, files[i]));
}

static void put_back(const char *set, const char *start)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (strncmp(files[i], start, strlen(start)) == 0)
			copy_file(path_of(set, files[i]), path_of("", files[i]));
	(void)unlink(path_of("", "db.sqlite-shm"));
	(void)unlink(path_of("", "copy.sqlite-shm"));
}

static off_t size_of(const char *name)
{
	struct stat st;

	return stat(path_of("", name), &st) == 0 ? st.st_size : 0;
}

static void flip(const char *name, off_t at)
{
	int fd = open(path_of("", name), O_RDWR | O_CLOEXEC);
	unsigned char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	(void)close(fd);
}

/* ---- damages ---- */

static char before[sizeof(all)], after[sizeof(all)]; /* of the sets "old" and "new" */

static void make_sets(void)
{
	struct store_tx *tx = store_tx_new();

	open_store();
	for (unsigned n = 1; n <= 3; n++)
		add_all(tx, n);
	store_tx_meta(tx, "boot_id", STR("boot"));
	submit(tx);
	save("old");
	for (unsigned n = 4; n <= 6; n++) {
		tx = store_tx_new();
		add_all(tx, n);
		submit(tx);
	}
	tx = store_tx_new();
	store_tx_pool_delete(tx, "id-1");
	store_tx_snapshot_delete(tx, "id-2");
	store_tx_pool_capacity(tx, "id-3", &(struct pool_capacity){ 0, 2, 0, 77 });
	store_tx_forget_volume(tx, "id-2");
	submit(tx);
	save("new");
	close_store();
	assert_int_equal(n_failed, 0);
	put_back("old", "");
	(void)snprintf(before, sizeof(before), "%s", load());
	put_back("new", "");
	(void)snprintf(after, sizeof(after), "%s", load());
	assert_string_not_equal(before, after);
	put_back("new", "");
}

static void truncate_to(const char *name, off_t size)
{
	assert_int_equal(truncate(path_of("", name), size), 0);
}

static void lose_log(void) { assert_int_equal(unlink(path_of("", "db.sqlite-wal")), 0); }
static void halve_log(void) { truncate_to("db.sqlite-wal", size_of("db.sqlite-wal") / 2); }
static void empty_log(void) { truncate_to("db.sqlite-wal", 0); }
static void put_old_database(void) { put_back("old", "db.sqlite"); }
static void empty_database(void) { truncate_to("db.sqlite", 0), lose_log(); }
static void lose_database(void) { assert_int_equal(unlink(path_of("", "db.sqlite")), 0), (void)unlink(path_of("", "db.sqlite-wal")); }
static void lose_copy_log(void) { assert_int_equal(unlink(path_of("", "copy.sqlite-wal")), 0); }
static void halve_copy_log(void) { truncate_to("copy.sqlite-wal", size_of("copy.sqlite-wal") / 2); }
static void lose_copy(void) { assert_int_equal(unlink(path_of("", "copy.sqlite")), 0), lose_copy_log(); }
static void empty_copy(void) { truncate_to("copy.sqlite", 0), lose_copy_log(); }
static void halve_copy(void) { truncate_to("copy.sqlite", size_of("copy.sqlite") / 2), lose_copy_log(); }
static void flip_copy(void) { flip("copy.sqlite", 3), lose_copy_log(); }
static void put_old_copy(void) { put_back("old", "copy.sqlite"); }
static void none(void) {}

static const struct {
	void (*spoil)(void);
	bool is_behind;
} damages[] = {
	{ none, false },            { lose_log, true },       { halve_log, true },     { empty_log, true },
	{ put_old_database, true }, { empty_database, true }, { lose_database, true }, { lose_copy_log, false },
	{ halve_copy_log, false },  { lose_copy, false },     { empty_copy, false },   { halve_copy, false },
	{ flip_copy, false },       { put_old_copy, false },
};

static bool was_behind(void)
{
	uint64_t n;

	store = store_open(dir, &fault, &error);
	assert_non_null(store);
	n = store_was_behind(store);
	close_store();
	return n > 0;
}

static void nothing_durable_is_lost_with_either_file(void **state)
{
	(void)state;
	make_sets();
	for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
		put_back("new", "");
		damages[i].spoil();
		assert_int_equal(was_behind(), damages[i].is_behind);
		assert_string_equal(load(), after);
		assert_false(was_behind());
		lose_database(); /* the copy is whole again, too */
		assert_string_equal(load(), after);
	}
}

static void lose_log_if_any(void)
{
	(void)unlink(path_of("", "db.sqlite-wal"));
}

static void both_damaged_leave_the_newer_of_what_is_left(void **state)
{
	(void)state;
	make_sets();
	put_old_database();
	halve_copy_log();
	assert_non_null(load());
	assert_true(strlen(all) >= strlen(before));
	put_back("new", "");
	put_old_database();
	put_old_copy();
	assert_string_equal(load(), before);
	put_back("new", "");
	lose_log_if_any();
	put_old_copy();
	assert_string_equal(load(), before);
}

/* The sets again, but with everything in the files themselves. */
static void checkpoint_all(void)
{
	for (int i = 0; i < 4; i++)
		(void)unlink(path_of("new", files[i]));
	assert_non_null(load()); /* closing the store writes the logs back */
	for (int i = 0; i < 4; i++)
		copy_file(path_of("", files[i]), path_of("new", files[i]));
}

static void flip_all(const char *name, off_t step, unsigned *ret_refused)
{
	put_back("new", "");
	for (off_t at = 0, end = size_of(name); at < end; at += step) {
		put_back("new", "");
		flip(name, at);
		if (load()) {
			if (strcmp(all, after) != 0)
				fail_msg("%s, byte %lld: %s", name, (long long)at, all);
			continue;
		}
		assert_int_equal(fault, STORE_DAMAGED);
		++*ret_refused;
	}
}

static void a_flipped_bit_changes_nothing_that_is_read(void **state)
{
	unsigned n = 0, of_copy = 0;

	(void)state;
	make_sets();
	flip_all("db.sqlite-wal", 4999, &n);
	flip_all("copy.sqlite-wal", 9973, &n);
	assert_int_equal(n, 0);
	put_back("new", "");
	checkpoint_all();
	flip_all("db.sqlite", 1499, &n);
	flip_all("copy.sqlite", 3989, &of_copy);
	assert_int_equal(of_copy, 0); /* the copy may break: the start goes on */
}

/* ---- rows that were changed by another hand ---- */

static void change(const char *name, const char *sql)
{
	struct connection c = { .path = strdup(path_of("", name)) };

	assert_int_equal(connection_open(&c, &error), 0);
	assert_int_equal(connection_exec(c.db, sql, &error), 0);
	connection_close(&c);
	free(c.path);
}

static void a_row_that_is_not_what_was_written_comes_back(void **state)
{
	static const char *const changes[] = {
		"DELETE FROM volumes WHERE id = 'id-4'",
		"UPDATE pools SET name = 'name-x' WHERE id = 'id-4'",
		"UPDATE snapshots SET spec = replace(spec, 'a', 'b')",
		"UPDATE images SET config = x'00', arch = 'x'",
		"UPDATE images SET manifest = CAST(manifest || ' ' AS BLOB)",
		"INSERT INTO image_layers VALUES (x'00')",
		"UPDATE meta SET value = x'00' WHERE name = 'durable'",
		"UPDATE meta SET value = CAST(substr(value, 1, 20) || x'01' || substr(value, 22) AS BLOB) WHERE name = 'durable'",
		"DELETE FROM meta WHERE name = 'durable'",
	};

	(void)state;
	make_sets();
	for (size_t i = 0; i < ARRAY_LEN(changes) * 2; i++) {
		put_back("new", "");
		change(i % 2 == 0 ? "db.sqlite" : "copy.sqlite", changes[i / 2]);
		assert_string_equal(load(), after);
		lose_database();
		assert_string_equal(load(), after);
	}
}

static void rows_of_a_version_without_a_copy_are_taken_as_they_are(void **state)
{
	(void)state;
	make_sets();
	/* An old copy and a file that an earlier version has written since: the file is right. */
	put_old_copy();
	change("db.sqlite", "DELETE FROM meta WHERE name = 'durable'; INSERT INTO meta VALUES ('durable_unmade', x'01')");
	assert_string_equal(load(), after);
	lose_log_if_any();
	assert_string_equal(load(), after);
	lose_database();
	assert_string_equal(load(), after);
}

static void it_is_said_that_layers_are_left_alone_whichever_file_is_lost(void **state)
{
	char value[STORE_META_MAX];
	struct store_tx *tx = store_tx_new();
	size_t n = 0;

	(void)state;
	open_store();
	store_tx_meta(tx, STORE_KEEP_LAYERS, STR("1"));
	submit(tx);
	close_store();
	assert_int_equal(unlink(path_of("", "db.sqlite")), 0);
	open_store();
	assert_int_equal(store_meta_get(store, STORE_KEEP_LAYERS, value, &n, &error), 0);
	assert_int_equal(n, 1);
	assert_int_equal(store_meta_get(store, "boot_id", value, &n, &error), 0);
	assert_int_equal(n, 0); /* the database is new: sandboxes are not known to be of this boot */
}

/* ---- a disk that fails ---- */

static void set_failure(const char *victim, int failure)
{
	atomic_store(&disk_victim, victim);
	atomic_store(&disk_failure, failure);
}

static void one_that_fails_in_either_file_is_in_neither(void **state)
{
	static const struct {
		const char *victim;
		int failure;
		enum err_code want;
	} rows[] = {
		{ "copy.sqlite-wal", SQLITE_FULL, ERR_LIMIT },        { "copy.sqlite-wal", SQLITE_IOERR_WRITE, ERR_UNAVAILABLE },
		{ "db.sqlite-wal", SQLITE_FULL, ERR_LIMIT },          { "db.sqlite-wal", SQLITE_IOERR_WRITE, ERR_UNAVAILABLE },
		{ NULL, SQLITE_FULL, ERR_LIMIT },                     { NULL, SQLITE_IOERR_WRITE, ERR_UNAVAILABLE },
	};
	char text[sizeof(all)];
	struct store_tx *tx;

	(void)state;
	make_sets();
	for (unsigned i = 0; i < ARRAY_LEN(rows) * 2; i++) {
		(void)snprintf(text, sizeof(text), "%s", load());
		open_store();
		tx = store_tx_new();
		add_all(tx, 100 + i);
		set_failure(rows[i / 2].victim, rows[i / 2].failure);
		n_failed = 0;
		submit(tx);
		set_failure(NULL, 0);
		if (n_failed != 1)
			fail_msg("row %u: it did not fail", i);
		assert_int_equal(error.code, rows[i / 2].want);
		if (i % 2 == 1) { /* it works again, and the failed one is not among it */
			tx = store_tx_new();
			store_tx_pool_delete(tx, "id-3");
			store_tx_volume(tx, &(struct volume_row){ .name = "x", .id = "x", .created_us = WALL, .state = VOLUME_READY });
			store_tx_forget_volume(tx, "x");
			submit(tx);
			assert_int_equal(n_failed, 1);
		}
		close_store();
		assert_non_null(load());
		if (i % 2 == 0)
			assert_string_equal(all, text);
		assert_null(strstr(all, "id-10"));
		assert_null(strstr(all, "id-11"));
	}
}

/* The commit of the copy worked, that of the database did not, and there is no room to undo it. */
static void an_undo_that_fails_is_done_by_the_next_transaction(void **state)
{
	struct store_tx *tx;

	(void)state;
	make_sets();
	open_store();
	tx = store_tx_new();
	add_all(tx, 100);
	/* The file that takes the copy's place is not a file. */
	assert_int_equal(mkdir(path_of("", "copy.sqlite.new"), 0700), 0);
	set_failure("db.sqlite-wal", SQLITE_FULL);
	submit(tx);
	set_failure(NULL, 0);
	assert_int_equal(n_failed, 1);
	tx = store_tx_new();
	add_all(tx, 200);
	submit(tx);
	assert_int_equal(n_failed, 2); /* nothing is added to a copy that is ahead */
	assert_true(error.code == ERR_UNAVAILABLE || error.code == ERR_LIMIT);
	assert_int_equal(rmdir(path_of("", "copy.sqlite.new")), 0);
	tx = store_tx_new();
	add_all(tx, 300);
	submit(tx);
	assert_int_equal(n_failed, 2);
	close_store();
	assert_false(was_behind());
	assert_non_null(load());
	assert_null(strstr(all, "id-100"));
	assert_null(strstr(all, "id-200"));
	assert_non_null(strstr(all, "id-300"));
}

static void a_copy_that_breaks_while_the_server_runs_is_made_anew(void **state)
{
	static char noise[4096];
	struct store_tx *tx;
	int fd;

	(void)state;
	make_sets();
	open_store();
	set_failure("copy.sqlite-wal", SQLITE_IOERR_WRITE); /* the connection is closed then */
	tx = store_tx_new();
	add_all(tx, 100);
	submit(tx);
	set_failure(NULL, 0);
	assert_int_equal(n_failed, 1);
	fd = open(path_of("", "copy.sqlite"), O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
	(void)close(fd);
	(void)unlink(path_of("", "copy.sqlite-wal"));
	tx = store_tx_new();
	add_all(tx, 200);
	submit(tx);
	assert_int_equal(n_failed, 1);
	close_store();
	lose_log_if_any();
	assert_int_equal(unlink(path_of("", "db.sqlite")), 0);
	assert_non_null(load());
	assert_non_null(strstr(all, "id-200"));
}

static void what_is_not_durable_does_not_touch_the_copy(void **state)
{
	struct store_key key = { .key = STR("0123456789012345678901234567890123456789012345678901234567890123"), .sandbox_id = "a",
				 .expires_us = WALL };
	struct store_tx *tx = store_tx_new();

	(void)state;
	open_store();
	set_failure("copy.sqlite", SQLITE_IOERR_WRITE);
	store_tx_key(tx, &key);
	submit(tx);
	set_failure(NULL, 0);
	assert_int_equal(n_failed, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_durable_is_lost_with_either_file), TEST(both_damaged_leave_the_newer_of_what_is_left),
		TEST(a_flipped_bit_changes_nothing_that_is_read), TEST(a_row_that_is_not_what_was_written_comes_back),
		TEST(rows_of_a_version_without_a_copy_are_taken_as_they_are),
		TEST(it_is_said_that_layers_are_left_alone_whichever_file_is_lost), TEST(one_that_fails_in_either_file_is_in_neither),
		TEST(an_undo_that_fails_is_done_by_the_next_transaction), TEST(a_copy_that_breaks_while_the_server_runs_is_made_anew),
		TEST(what_is_not_durable_does_not_touch_the_copy),
	};

	disk_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
