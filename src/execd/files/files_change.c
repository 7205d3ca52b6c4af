// SPDX-License-Identifier: Apache-2.0
/* DELETE /files, POST /files/permissions, POST /files/mv, POST and DELETE /directories. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/io/body.h"
#include "execd/task.h"

#include "base/banned.h"

/* ---- bodies ---- */

/* Binds one object of a body; names in any case. -1: has answered. */
static int bind_object(struct task *t, struct json *v, const struct field *fields, void *out, struct str where)
{
	struct decode d = { .arena = &t->arena, .strict = true };
	struct err why = { 0 };

	body_fold_names(v, fields);
	if (decode(&d, v, fields, out, &why) == 0)
		return 0;
	return task_fail(t, why.code == ERR_INVALID ? 400 : 500, why.code == ERR_INVALID ? CODE_INVALID_BODY : CODE_RUNTIME,
			 "invalid request body: '%.*s': %s", STR_ARG(where), why.msg);
}

/* The body as an object or an array. */
static struct json *body_of(struct task *t, enum json_type type, struct err *e)
{
	const struct json *v = task_body(t, e);

	if (v && v->type != type) {
		(void)task_fail(t, 400, CODE_INVALID_BODY, "invalid request body: must be an %s", json_type_name(type));
		return NULL;
	}
	return (struct json *)(uintptr_t)v; /* ours, in the arena */
}

static const struct field attr_fields[] = {
	FIELD(struct attr, mode, FIELD_INT, "mode", .min = 0, .max = MODE_DIGITS_MAX, .check = check_mode),
	FIELD(struct attr, owner, FIELD_STRING, "owner", .min = 0, .max = USERS_NAME_MAX),
	FIELD(struct attr, group, FIELD_STRING, "group", .min = 0, .max = USERS_NAME_MAX),
	{ 0 },
};

typedef int change_fn(struct task *t, struct str sent, const struct attr *a);

/* {"/path": {"mode","owner","group"}, ...}: all of it is read before anything is done. */
static int for_each_attr(struct task *t, change_fn *fn, struct err *e)
{
	struct json *body = body_of(t, JSON_OBJECT, e);
	struct attr *attrs;
	size_t i = 0;

	if (!body)
		return -1;
	attrs = arena_array(&t->arena, body->kids.n + 1, sizeof(*attrs));
	if (!attrs)
		return err_no_memory(e);
	for (struct json *v = body->kids.first; v; v = v->next, i++)
		if (v->type != JSON_NULL && bind_object(t, v, attr_fields, &attrs[i], v->key) < 0)
			return -1;
	i = 0;
	for (struct json *v = body->kids.first; v; v = v->next)
		if (fn(t, v->key, &attrs[i++]) < 0)
			return -1;
	return task_empty(t);
}

typedef int path_fn(struct task *t, struct str sent);

static int for_each_path(struct task *t, path_fn *fn)
{
	for (const struct query_pair *p = query_get(&t->query, "path"); p; p = query_next(&t->query, "path", p))
		if (fn(t, p->value) < 0)
			return -1;
	return task_empty(t);
}

/* ---- DELETE /files ---- */

static bool leads_to_directory(int root, const struct place *at)
{
	struct err ignored = { 0 };
	AUTO_FD fd = root_open(root, at->path, O_PATH | O_DIRECTORY, 0, &ignored);

	return fd >= 0;
}

static int delete_one(struct task *t, struct str sent)
{
	AUTO(seat_of_done) struct seat_of seat = SEAT_OF_INIT;
	struct err why = { 0 };
	struct place at;

	if (task_place(t, sent, PLACE_CLEAN, &at) < 0)
		return -1;
	if (leads_to_directory(t->root, &at))
		return task_fail(t, 500, CODE_RUNTIME, "'%.*s' is a directory", STR_ARG(sent));
	if (place_seat(t->root, &at, false, &seat, &why) == 0 && unlinkat(seat.dir, seat.name, 0) < 0)
		(void)err_sys(&why, errno, "remove the file");
	return why.code && why.sys != ENOENT ? task_fail_runtime(t, sent, &why) : 0;
}

static int delete_files(struct task *t, struct err *e)
{
	(void)e;
	return for_each_path(t, delete_one);
}

/* ---- POST /files/permissions ---- */

static int change_one(struct task *t, struct str sent, const struct attr *a)
{
	AUTO_FD fd = -1;
	struct err why = { 0 };
	struct attr_ids ids;
	struct place at;

	if (task_place(t, sent, PLACE_CLEAN, &at) < 0)
		return -1;
	fd = root_open(t->root, at.path, O_PATH, 0, &why);
	if (fd < 0 || attr_look_up(t, a, &ids, &why) < 0 || attr_apply(fd, &ids, &why) < 0)
		return task_fail_runtime(t, sent, &why);
	return 0;
}

static int change_permissions(struct task *t, struct err *e)
{
	return for_each_attr(t, change_one, e);
}

/* ---- POST /files/mv ---- */

struct move {
	const char *src, *dest;
};

static const struct field move_fields[] = {
	FIELD(struct move, src, FIELD_STRING, "src", .required = true, .min = 1, .max = PATH_BYTES_MAX),
	FIELD(struct move, dest, FIELD_STRING, "dest", .required = true, .min = 1, .max = PATH_BYTES_MAX),
	{ 0 },
};

static int rename_new(const struct seat_of *from, const struct seat_of *to)
{
	struct stat st;

	if (syscall(SYS_renameat2, from->dir, from->name, to->dir, to->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* A file system that cannot promise it (or a directory that would go into itself, which fails again). */
	if (fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return -1;
	}
	return renameat(from->dir, from->name, to->dir, to->name);
}

/* To another file system: a copy beside the destination, its name when it is whole, then the source goes. */
static int move_by_copy(struct task *t, const struct seat_of *from, const struct seat_of *to, struct err *e)
{
	struct seat_of temp = { .dir = to->dir };
	struct stat st;

	if (fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_sys(e, EEXIST, "move");
	if (draft_temp_name(temp.name, e) < 0 ||
	    files_copy(t, from->dir, from->name, to->dir, temp.name, e) < 0)
		return -1;
	if (rename_new(&temp, to) < 0) {
		struct err ignored = { 0 };

		(void)err_sys(e, errno, "move");
		(void)files_remove(t, to->dir, temp.name, &ignored);
		return -1;
	}
	return files_remove(t, from->dir, from->name, e) < 0 ? err_wrap(e, "copied, but the source remains") : 0;
}

static int check_source(struct task *t, struct str sent, const struct place *at)
{
	struct err why = { 0 };
	AUTO_FD fd = root_open(t->root, at->path, O_PATH, 0, &why);

	return fd < 0 ? task_fail_path(t, sent, &why) : 0;
}

static int move_one(struct task *t, const struct move *m)
{
	AUTO(seat_of_done) struct seat_of from = SEAT_OF_INIT;
	AUTO(seat_of_done) struct seat_of to = SEAT_OF_INIT;
	struct str src = str_of(m->src), dest = str_of(m->dest);
	struct err why = { 0 };
	struct place at;

	if (task_place(t, src, PLACE_CLEAN, &at) < 0 || check_source(t, src, &at) < 0)
		return -1;
	if (place_seat(t->root, &at, false, &from, &why) < 0)
		return task_fail_runtime(t, src, &why);
	if (task_place(t, dest, PLACE_CLEAN, &at) < 0)
		return -1;
	if (place_seat(t->root, &at, true, &to, &why) < 0)
		return task_fail_runtime(t, dest, &why);
	if (rename_new(&from, &to) == 0 || (errno == EXDEV && move_by_copy(t, &from, &to, &why) == 0))
		return 0;
	if (!why.code)
		(void)err_sys(&why, errno, "move");
	return task_fail_runtime(t, why.sys == EEXIST ? dest : src, &why);
}

static int move_files(struct task *t, struct err *e)
{
	struct json *body = body_of(t, JSON_ARRAY, e);
	struct move *moves;
	size_t n;

	if (!body)
		return -1;
	n = body->kids.n;
	moves = arena_array(&t->arena, n + 1, sizeof(*moves));
	if (!moves)
		return err_no_memory(e);
	n = 0;
	for (struct json *v = body->kids.first; v; v = v->next)
		if (bind_object(t, v, move_fields, &moves[n++], STR("an entry")) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		if (move_one(t, &moves[i]) < 0)
			return -1;
	return task_empty(t);
}

/* ---- POST and DELETE /directories ---- */

static int make_one(struct task *t, struct str sent, const struct attr *a)
{
	AUTO(seat_of_done) struct seat_of seat = SEAT_OF_INIT;
	AUTO_FD fd = -1;
	struct err why = { 0 };
	struct attr_ids ids;
	struct place at;

	if (task_place(t, sent, PLACE_CLEAN, &at) < 0)
		return -1;
	if (leads_to_directory(t->root, &at))
		return 0;
	if (attr_look_up(t, a, &ids, &why) < 0 || place_seat(t->root, &at, true, &seat, &why) < 0)
		return task_fail_runtime(t, sent, &why);
	if (mkdirat(seat.dir, seat.name, 0777) < 0) {
		if (errno == EEXIST && leads_to_directory(t->root, &at)) /* somebody was faster */
			return 0;
		(void)err_sys(&why, errno, "make the directory");
		return task_fail_runtime(t, sent, &why);
	}
	fd = openat(seat.dir, seat.name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		(void)err_sys(&why, errno, "open the directory");
	return fd < 0 || attr_apply(fd, &ids, &why) < 0 ? task_fail_runtime(t, sent, &why) : 0;
}

static int make_directories(struct task *t, struct err *e)
{
	return for_each_attr(t, make_one, e);
}

static int remove_directory(struct task *t, struct str sent)
{
	AUTO(seat_of_done) struct seat_of seat = SEAT_OF_INIT;
	struct err why = { 0 };
	struct place at;

	if (task_place(t, sent, 0, &at) < 0)
		return -1;
	if (place_seat(t->root, &at, false, &seat, &why) < 0)
		return why.sys == ENOENT ? 0 : task_fail_path(t, sent, &why);
	return files_remove(t, seat.dir, seat.name, &why) < 0 ? task_fail_runtime(t, sent, &why) : 0;
}

static int remove_directories(struct task *t, struct err *e)
{
	(void)e;
	return for_each_path(t, remove_directory);
}

/* ---- routes ---- */

#define CHANGE(name, fn_, json) \
	int name(struct request *rq, struct reply *rp, struct err *e) \
	{ \
		static const struct work_spec spec = { .fn = fn_, .class = WORK_CHANGE, .has_json = json }; \
\
		return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e); \
	}

CHANGE(files_delete, delete_files, false)
CHANGE(files_permissions_post, change_permissions, true)
CHANGE(files_mv_post, move_files, true)
CHANGE(directories_post, make_directories, true)
CHANGE(directories_delete, remove_directories, false)
