// SPDX-License-Identifier: Apache-2.0
/* A database that is damaged: what can still be read of it goes into a new one, together with what really runs.
 *
 *     recovering             names what was moved aside; while it is there, nobody opens the database
 *     damaged-N.sqlite*      the old one, untouched
 *     salvage.sqlite*        a copy to read from: reading may repair and change it
 *     rebuilt.sqlite         becomes db.sqlite
 *     copy.sqlite            is read where it is newer than the old one, and made anew by the next start
 *
 * Killed anywhere, it is done again from its beginning, from the same damaged file. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/store/recover_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define ASIDE_MAX 1000
#define COPY_BYTES ((size_t)1 << 20)

static const char *const tails[] = { "", "-wal", "-shm" };

static void recovery_done(struct recovery *r)
{
	connection_close(&r->from);
	connection_close(&r->to);
	connection_close(&r->copy);
	free(r->from.path);
	free(r->to.path);
	free(r->copy.path);
	secret_wipe(&r->secret, sizeof(r->secret));
	closep(&r->dir);
	map_done(&r->boxes);
	arena_done(&r->arena);
}
DEFINE_AUTO_DONE(struct recovery, recovery_done)

/* ---- files ---- */

static void remove_all(int dir, const char *name)
{
	char path[NAME_SIZE + 8];

	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", name, tails[i]);
		(void)unlinkat(dir, path, 0); /* what cannot go is in the way later, and told then */
	}
}

static bool is_there(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_aside(struct str name)
{
	uint64_t n;

	return str_starts(name, STR("damaged-")) && str_ends(name, STR(".sqlite")) && name.n > 15 &&
	       str_to_u64(str_first(str_skip(name, 8), name.n - 15), 1, ASIDE_MAX, &n);
}

/* The name that an earlier try has begun with, or a new one, noted before anything is moved. */
static int choose_aside(struct recovery *r, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(NAME_SIZE);

	if (fd_read_file(r->dir, STORE_RECOVERING, NAME_SIZE - 1, &b, &(struct err){ 0 }) == 0 && is_aside(buf_str(&b))) {
		(void)snprintf(r->aside, sizeof(r->aside), "%s", buf_z(&b));
		return 0;
	}
	for (unsigned i = 1; i <= ASIDE_MAX; i++) {
		(void)snprintf(r->aside, sizeof(r->aside), "damaged-%u.sqlite", i);
		if (!is_there(r->dir, r->aside))
			return file_replace(r->dir, STORE_RECOVERING, str_of(r->aside), 0600, e);
	}
	return err_set(e, ERR_LIMIT, "there are %d damaged databases: move some away", ASIDE_MAX);
}

static int move(int dir, const char *from, const char *to, struct err *e)
{
	if (syscall(SYS_renameat2, dir, from, dir, to, RENAME_NOREPLACE) == 0 || errno == ENOENT)
		return 0;
	return err_sys(e, errno, "move '%s' to '%s'", from, to);
}

/* The log first: a database without it might look sound. If the database itself was moved already, what stands in its
 * place is a try of ours. */
static int move_aside(struct recovery *r, struct err *e)
{
	char log[NAME_SIZE + 8];

	(void)snprintf(log, sizeof(log), "%s-wal", r->aside);
	if (is_there(r->dir, r->aside)) {
		remove_all(r->dir, "db.sqlite");
		return 0;
	}
	if (move(r->dir, "db.sqlite-wal", log, e) < 0)
		return -1;
	(void)unlinkat(r->dir, "db.sqlite-shm", 0); /* an index of the log, made anew when needed */
	return move(r->dir, "db.sqlite", r->aside, e);
}

static int copy_file(int dir, const char *from, const char *to, struct err *e)
{
	AUTO_FD in = openat(dir, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD out = -1;
	ssize_t n = 1;

	if (in < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "open '%s'", from);
	out = openat(dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	while (out >= 0 && n > 0)
		n = copy_file_range(in, NULL, out, NULL, COPY_BYTES, 0);
	return out < 0 || n < 0 ? err_sys(e, errno, "copy '%s'", from) : 0;
}

static int copy_aside(struct recovery *r, struct err *e)
{
	char log[NAME_SIZE + 8];

	remove_all(r->dir, "salvage.sqlite");
	(void)snprintf(log, sizeof(log), "%s-wal", r->aside);
	if (copy_file(r->dir, r->aside, "salvage.sqlite", e) < 0)
		return -1;
	return copy_file(r->dir, log, "salvage.sqlite-wal", e);
}

/* ---- what runs without a record ---- */

static int rebuild_one(struct recovery *r, const struct runtime_box *b, struct err *e)
{
	static const char *entrypoint[] = { "unknown" };
	struct sandbox_row row = {
		.id = b->id, .image = r->spec->image, .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.created_us = r->spec->now_us, .changed_us = r->spec->now_us,
		.state = b->state == RUNTIME_PAUSED ? SANDBOX_PAUSED : SANDBOX_RUNNING, .reason = "CONTAINER_RECOVERED",
		.message = "The record of this sandbox was lost and made anew.",
	};
	struct store_event ev = { b->id, r->spec->now_us, "runtime", "Adopted", row.message };
	struct store_tx *tx;
	int n;

	if (b->state == RUNTIME_STARTING)
		return 0; /* nobody was ever told of it */
	tx = store_tx_new();
	store_tx_insert(tx, &row);
	store_tx_event(tx, &ev);
	n = recovery_put(r, tx, e);
	r->report->rebuilt += n > 0;
	return n < 0 ? -1 : 0;
}

/* A boot of its own, unless the old one could be read: else nobody's remaining life would be known to be wrong. */
static int add_boot(struct recovery *r, struct err *e)
{
	char value[STORE_META_MAX];
	struct store_tx *tx;
	size_t n = 0;

	if (connection_meta(&r->to, "boot_id", value, &n, e) < 0)
		return -1;
	if (n > 0)
		return 0;
	tx = store_tx_new();
	store_tx_meta(tx, "boot_id", str_of(r->spec->boot_id));
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
}

/* Layers without a record may be those of records that are lost. */
static int keep_layers(struct recovery *r, struct err *e)
{
	struct store_tx *tx = store_tx_new();

	store_tx_meta(tx, STORE_KEEP_LAYERS, STR("1"));
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
}

/* Where there is no good one any more, going on with a new one is what was asked for. */
static int add_secret(struct recovery *r, struct err *e)
{
	if (!r->secret.is_known && secret_make(&r->secret, e) < 0)
		return -1;
	r->report->is_secret_new = r->secret.is_new;
	return secret_mend(&r->secret, &r->to, NULL, e);
}

/* The next start takes the new database for newer than the copy, and makes that anew. */
static int raise_stamp(struct recovery *r, struct err *e)
{
	enum stamp_state state;
	struct stamp stamp;

	if (stamp_read(&r->to, &state, &stamp, e) < 0)
		return -1;
	stamp.seq = MAX(stamp.seq, r->seq) + 1;
	return stamp_write(&r->to, &stamp, e);
}

static int rebuild(struct recovery *r, struct err *e)
{
	if ((r->report->is_partial || r->report->bad > 0) && keep_layers(r, e) < 0)
		return -1;
	for (size_t i = 0; i < r->spec->n_boxes; i++)
		if (rebuild_one(r, &r->spec->boxes[i], e) < 0)
			return -1;
	return add_boot(r, e) < 0 || add_secret(r, e) < 0 ? -1 : raise_stamp(r, e);
}

/* ---- all of it ---- */

static int begin(struct recovery *r, struct err *e)
{
	const struct store_recover_spec *sp = r->spec;

	r->dir = open(sp->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir < 0)
		return err_sys(e, errno, "open '%s'", sp->dir);
	if (asprintf(&r->from.path, "%s/salvage.sqlite", sp->dir) < 0 || asprintf(&r->to.path, "%s/rebuilt.sqlite", sp->dir) < 0 ||
	    asprintf(&r->copy.path, "%s/" COPY_NAME, sp->dir) < 0)
		return err_no_memory(e);
	for (size_t i = 0; i < sp->n_boxes; i++)
		if (!map_put(&r->boxes, str_of(sp->boxes[i].id), (void *)(uintptr_t)&sp->boxes[i]))
			return err_no_memory(e);
	return 0;
}

static int open_new(struct recovery *r, enum store_fault *ret_fault, struct err *e)
{
	struct err why = { 0 };

	remove_all(r->dir, "rebuilt.sqlite");
	if (state_file_make(r->to.path, e) < 0 || connection_open(&r->to, e) < 0)
		return -1;
	if (schema_prepare(&r->to, &store_schema, ret_fault, e) < 0)
		return -1;
	if (copy_open(&r->copy, &why) < 0)
		log_warn("the copy of the database is not used", LOG_ERR(&why));
	return 0;
}

/* Closing the only connection writes everything into the file itself. */
static int finish(struct recovery *r, struct err *e)
{
	if (connection_exec(r->to.db, "PRAGMA wal_checkpoint(TRUNCATE)", e) < 0)
		return -1;
	connection_close(&r->to);
	connection_close(&r->from);
	if (is_there(r->dir, "rebuilt.sqlite-wal"))
		return err_set(e, ERR_IO, "the new database could not be closed");
	if (fsync(r->dir) < 0 || renameat(r->dir, "rebuilt.sqlite", r->dir, "db.sqlite") < 0 || fsync(r->dir) < 0)
		return err_sys(e, errno, "put the new database in place");
	remove_all(r->dir, "salvage.sqlite");
	if (unlinkat(r->dir, STORE_RECOVERING, 0) < 0)
		return err_sys(e, errno, "remove '" STORE_RECOVERING "'");
	return 0;
}

int store_recover(const struct store_recover_spec *spec, struct store_recovered *ret, enum store_fault *ret_fault, struct err *e)
{
	AUTO(recovery_done) struct recovery r = { .spec = spec, .dir = -1, .arena = ARENA_INIT(8 * ROW_SPEC_MAX), .report = ret };
	AUTO_FD lock = state_dir_lock(spec->dir, ret_fault, e);

	*ret = (struct store_recovered){ 0 };
	if (lock < 0 || begin(&r, e) < 0 || choose_aside(&r, e) < 0 || move_aside(&r, e) < 0 || copy_aside(&r, e) < 0)
		return -1;
	if (open_new(&r, ret_fault, e) < 0 || salvage(&r, e) < 0 || rebuild(&r, e) < 0 || finish(&r, e) < 0)
		return err_wrap(e, "rebuild the database in '%s'", spec->dir);
	if (is_there(r.dir, r.aside))
		(void)snprintf(ret->aside, sizeof(ret->aside), "%s", r.aside);
	return 0;
}
