// SPDX-License-Identifier: Apache-2.0
/* POST /files/upload, in the worker: parts are read as they arrive, each file goes straight to where it will be. Names are
 * given when the body is complete, so that an upload that fails on the way leaves no file behind; of an upload of more than
 * OPEN_MAX files those before are given theirs when the next ones need the descriptors. A file whose metadata is still to
 * come waits in the directory for temporary files. */
#include <fcntl.h>

#include "base/clock.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/files/upload_plan.h"
#include "execd/io/body.h"
#include "execd/task.h"
#include "net/http/multipart.h"
#include "sys/fd.h"

#include "base/banned.h"

#define OPEN_MAX ((size_t)128) /* files, with two descriptors each */
#define METADATA_MAX ((size_t)64 * 1024)
#define UPLOAD_PIECE ((size_t)256 * 1024)

struct metadata {
	const char *path;
	struct attr attr;
};

static const struct field metadata_fields[] = {
	FIELD(struct metadata, path, FIELD_STRING, "path", .required = true, .min = 1, .max = PATH_BYTES_MAX),
	FIELD(struct metadata, attr.mode, FIELD_INT, "mode", .min = 0, .max = MODE_DIGITS_MAX, .check = check_mode),
	FIELD(struct metadata, attr.owner, FIELD_STRING, "owner", .min = 0, .max = USERS_NAME_MAX),
	FIELD(struct metadata, attr.group, FIELD_STRING, "group", .min = 0, .max = USERS_NAME_MAX),
	{ 0 },
};

/* One pair of parts. */
struct item {
	const char *sent; /* the path; NULL: its metadata is still to come */
	struct attr_ids ids;
	struct draft draft;
	char *name;       /* that the draft is to get, in its directory; NULL: not known yet */
	bool has_content; /* complete */
};

struct upload {
	struct task *t;
	struct upload_plan plan;
	struct item *items; /* UPLOAD_FILES_MAX; pages that are not needed are never touched */
	size_t kept;        /* items before this have their names */
	size_t open;        /* drafts */
	enum upload_part part; /* the one at hand */
	size_t pair;
	struct buf metadata; /* of the part at hand */
};

static void upload_done(struct upload *u)
{
	for (size_t i = u->kept; u->items && i < u->plan.files; i++)
		if (u->items[i].draft.dir >= 0)
			draft_done(&u->items[i].draft);
	free(u->items);
	buf_done(&u->metadata);
}
DEFINE_AUTO_DONE(struct upload, upload_done)

static int refuse(struct upload *u, const struct item *item, const struct err *why)
{
	struct str sent = str_of(item->sent ? item->sent : "file");

	if (why->code == ERR_INVALID && !why->sys)
		return task_fail(u->t, 400, CODE_INVALID_METADATA, "'%.*s': %s", STR_ARG(sent), why->msg);
	return task_fail_runtime(u->t, sent, why);
}

/* ---- giving names ---- */

static int dress(struct upload *u, struct item *item)
{
	struct err why = { 0 };

	if (draft_dress(&item->draft, item->name, &item->ids, 0777 & ~u->t->umask, &why) == 0 &&
	    fsync(item->draft.fd) < 0)
		(void)err_sys(&why, errno, "write");
	return why.code ? refuse(u, item, &why) : 0;
}

/* Complete pairs from the first on: all that can fail for one of them comes before the first gets its name. */
static int keep_complete(struct upload *u)
{
	size_t end = u->kept;

	while (end < u->plan.files && u->items[end].name && u->items[end].has_content)
		end++;
	for (size_t i = u->kept; i < end && end - u->kept > 1; i++) /* begins for all before one waits */
		(void)sync_file_range(u->items[i].draft.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	for (size_t i = u->kept; i < end; i++)
		if (dress(u, &u->items[i]) < 0)
			return -1;
	for (size_t i = u->kept; i < end; i++) {
		struct item *item = &u->items[i];
		struct err why = { 0 };

		if (draft_keep(&item->draft, item->name, &why) < 0)
			return refuse(u, item, &why);
	}
	for (; u->kept < end; u->kept++, u->open--) {
		struct item *item = &u->items[u->kept];

		(void)fsync(item->draft.dir); /* the files are there by now, whatever it says */
		draft_done(&item->draft);
	}
	return 0;
}

/* ---- files ---- */

static int check_free_for_file(const struct seat_of *seat, struct err *e)
{
	struct stat st;

	if (fstatat(seat->dir, seat->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at the file");
	if (S_ISREG(st.st_mode))
		return 0;
	return err_set(e, ERR_INVALID, S_ISDIR(st.st_mode) ? "is a directory" : "not a regular file");
}

/* Opens the draft beside where it will be. */
static int open_in_place(struct upload *u, struct item *item, struct draft *d, struct err *e)
{
	AUTO(seat_of_done) struct seat_of seat = SEAT_OF_INIT;
	struct str sent = str_of(item->sent);
	struct place at;

	if (sent.p[sent.n - 1] == '/')
		return err_set(e, ERR_INVALID, "is a directory");
	if (place_find(&u->t->config->env, u->t->root, sent, 0, &at, e) < 0 ||
	    place_seat_behind(u->t->root, &at, true, &seat, e) < 0 || check_free_for_file(&seat, e) < 0)
		return -1;
	item->name = arena_dup(&u->t->arena, str_of(seat.name));
	return item->name ? draft_open(d, seat.dir, e) : err_no_memory(e);
}

static int open_aside(struct upload *u, struct draft *d, struct err *e)
{
	const char *name = env_get(&u->t->config->env, STR("TMPDIR"));
	struct err ignored = { 0 }; /* then the root will do */
	AUTO_FD dir = -1;

	dir = root_open(u->t->root, name && *name == '/' ? name : "/tmp", O_PATH | O_DIRECTORY, 0, &ignored);
	return draft_open(d, dir >= 0 ? dir : u->t->root, e);
}

static int begin_file(struct upload *u)
{
	struct item *item = &u->items[u->pair];
	struct err why = { 0 };

	item->draft = DRAFT_INIT;
	if (u->open == OPEN_MAX && keep_complete(u) < 0)
		return -1;
	if (u->open == OPEN_MAX)
		return task_fail(u->t, 400, CODE_INVALID_FILE, "more than %zu files wait for their metadata", OPEN_MAX);
	u->open++;
	if (item->sent ? open_in_place(u, item, &item->draft, &why) < 0 : open_aside(u, &item->draft, &why) < 0)
		return refuse(u, item, &why);
	return 0;
}

/* ---- metadata ---- */

static int read_metadata(struct upload *u, struct metadata *ret)
{
	struct task *t = u->t;
	struct decode d = { .arena = &t->arena, .strict = true };
	struct err why = { 0 };
	struct str text = { arena_dup(&t->arena, buf_str(&u->metadata)), u->metadata.n };
	struct json *v = text.p ? json_parse(&t->arena, text, NULL, NULL, &why) : NULL;

	if (v) {
		body_fold_names(v, metadata_fields);
		if (decode(&d, v, metadata_fields, ret, &why) == 0)
			return 0;
	}
	return task_fail(t, 400, CODE_INVALID_METADATA, "metadata %zu: %s", u->pair + 1, why.msg);
}

/* Its file came first and waits elsewhere. */
static int bring_in(struct upload *u, struct item *item)
{
	AUTO(draft_done) struct draft here = DRAFT_INIT;
	struct err why = { 0 };
	struct draft aside;

	if (open_in_place(u, item, &here, &why) < 0 || copy_content(u->t, item->draft.fd, here.fd, &why) < 0)
		return refuse(u, item, &why);
	aside = item->draft;
	item->draft = here;
	here = aside;
	return 0;
}

static int end_metadata(struct upload *u)
{
	struct item *item = &u->items[u->pair];
	struct metadata m = { 0 };
	struct err why = { 0 };

	if (read_metadata(u, &m) < 0)
		return -1;
	item->sent = m.path;
	if (place_check(str_of(m.path), &why) < 0 || attr_look_up(u->t, &m.attr, &item->ids, &why) < 0)
		return refuse(u, item, &why);
	return u->pair < u->plan.files ? bring_in(u, item) : 0;
}

/* ---- parts ---- */

/* An answer has been given: the parser only needs to stop. */
static int stop(struct err *e)
{
	return err_set(e, ERR_INTERNAL, "refused");
}

static int on_begin(void *arg, const struct multipart_part *part, struct err *e)
{
	struct upload *u = arg;

	u->part = upload_plan_next(&u->plan, part->name, &u->pair);
	buf_clear(&u->metadata);
	if (u->part == UPLOAD_TOO_MANY)
		(void)task_fail(u->t, 400, CODE_INVALID_FILE, "more than %d files", UPLOAD_FILES_MAX);
	else if (u->part != UPLOAD_FILE || begin_file(u) == 0)
		return 0;
	return stop(e);
}

static int on_data(void *arg, struct str data, struct err *e)
{
	struct upload *u = arg;
	struct item *item = &u->items[u->pair];
	struct err why = { 0 };

	if (u->part == UPLOAD_METADATA && !buf_add_str(&u->metadata, data)) {
		(void)task_fail(u->t, 400, CODE_INVALID_METADATA, "metadata %zu: longer than %zu bytes", u->pair + 1,
				METADATA_MAX);
		return stop(e);
	}
	if (u->part == UPLOAD_FILE && fd_write_all(item->draft.fd, data.p, data.n, &why) < 0) {
		(void)refuse(u, item, &why);
		return stop(e);
	}
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	struct upload *u = arg;

	if (u->part == UPLOAD_FILE)
		u->items[u->pair].has_content = true;
	return u->part == UPLOAD_METADATA && end_metadata(u) < 0 ? stop(e) : 0;
}

/* ---- the body ---- */

static int read_parts(struct multipart *m, struct err *e)
{
	AUTO(free) char *piece = malloc(UPLOAD_PIECE);
	ssize_t n;

	if (!piece)
		return err_no_memory(e);
	while ((n = read(WORK_IN_FD, piece, UPLOAD_PIECE)) > 0)
		if (multipart_feed(m, (struct str){ piece, (size_t)n }, e) < 0)
			return -1;
	if (n < 0)
		return err_sys(e, errno, "read the body");
	if (!event_take(WORK_GO_FD))
		return err_set(e, ERR_IO, "the body was cut");
	return multipart_finish(m, e);
}

static int upload(struct task *t, struct err *e)
{
	static const struct multipart_ops ops = { on_begin, on_data, on_end };
	AUTO(upload_done) struct upload u = { .t = t, .metadata = BUF_INIT(METADATA_MAX) };
	AUTO(multipart_free) struct multipart *m = NULL;
	struct err why = { 0 };
	const char *code, *text;

	u.items = calloc(UPLOAD_FILES_MAX, sizeof(*u.items));
	if (!u.items)
		return err_no_memory(e);
	m = multipart_new(request_header(t->rq, "Content-Type"), &ops, &u, &why);
	if (!m || read_parts(m, &why) < 0)
		return task_fail(t, 400, CODE_INVALID_FILE, "invalid multipart body: %s", why.msg);
	code = upload_plan_fault(&u.plan, &text);
	if (code)
		return task_fail(t, 400, code, "%s", text);
	t->deadline_ms = clock_mono_ms() + WORK_CHANGE_MS;
	return keep_complete(&u) < 0 ? -1 : task_empty(t);
}

int files_upload_post(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct work_spec spec = { .fn = upload, .class = WORK_UPLOAD };

	return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e);
}
