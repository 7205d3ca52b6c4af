// SPDX-License-Identifier: Apache-2.0
/* What is known about a file: GET /files/info, and the same object for the others. */
#include <fcntl.h>
#include <stdio.h>

#include "base/err.h"
#include "base/guest.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/files/files_walk.h"
#include "execd/task.h"

#include "base/banned.h"

/* By number, because a listing asks for the names of each of its files. */
struct names {
	struct str users[GUEST_ID_MAX + 1];
	struct str groups[GUEST_ID_MAX + 1];
};

struct names *names_new(struct task *t, struct err *e)
{
	struct err ignored = { 0 };
	const struct users_text *text = task_users(t, &ignored);
	struct names *n = calloc(1, sizeof(*n)); /* pages that no name is in are never touched */
	struct str rest, name;
	struct user u;
	gid_t gid;

	if (!n)
		(void)err_no_memory(e);
	if (!n || !text) /* without the files, numbers are the names */
		return n;
	rest = text->files.passwd;
	while (passwd_next(&rest, &u))
		if (n->users[u.uid].n == 0) /* the first counts */
			n->users[u.uid] = u.name;
	rest = text->files.group;
	while (group_next(&rest, &name, &gid))
		if (n->groups[gid].n == 0)
			n->groups[gid] = name;
	return n;
}

void names_free(struct names *n)
{
	free(n);
}

static void write_name(struct json_out *o, const struct str *names, uint32_t id)
{
	char number[16];

	if (id <= GUEST_ID_MAX && names[id].n > 0) {
		json_str(o, names[id]);
		return;
	}
	(void)snprintf(number, sizeof(number), "%u", id);
	json_cstr(o, number);
}

static void write_time(struct json_out *o, struct timespec at)
{
	char text[RFC3339_SIZE];

	json_str(o, (struct str){ text, rfc3339_format_ns(at, text) });
}

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "other";
}

static void write_uri(struct json_out *o, struct str path)
{
	AUTO(buf_done) struct buf uri = BUF_INIT(4 * WALK_PATH_MAX);

	place_write_uri(&uri, path);
	json_key(o, "uri"), json_str(o, buf_str(&uri));
}

void info_write(struct json_out *o, struct str path, const struct stat *st, const struct names *names)
{
	json_open(o, '{');
	json_key(o, "path"), json_str(o, path);
	if (!utf8_valid(path))
		write_uri(o, path);
	json_key(o, "type"), json_cstr(o, type_of(st->st_mode));
	json_key(o, "size"), json_int(o, st->st_size);
	json_key(o, "modified_at"), write_time(o, st->st_mtim);
	json_key(o, "created_at"), write_time(o, st->st_ctim); /* the time of change: what clients compare */
	json_key(o, "owner"), write_name(o, names->users, st->st_uid);
	json_key(o, "group"), write_name(o, names->groups, st->st_gid);
	json_key(o, "mode"), json_int(o, mode_to_digits(st->st_mode));
	json_close(o, '}');
}

/* ---- the route ---- */

static bool was_asked_before(const struct query *q, const struct query_pair *p)
{
	for (const struct query_pair *at = query_get(q, "path"); at && at != p; at = query_next(q, "path", at))
		if (str_eq(at->value, p->value))
			return true;
	return false;
}

static int add_info(struct task *t, struct json_out *o, struct str sent, const struct names *names)
{
	AUTO(buf_done) struct buf uri = BUF_INIT(4 * WALK_PATH_MAX);
	AUTO_FD fd = -1;
	struct err why = { 0 };
	struct place at;
	struct stat st = { 0 };

	if (task_place(t, sent, PLACE_CLEAN, &at) < 0)
		return -1;
	fd = root_open(t->root, at.path, O_PATH | O_NOFOLLOW, 0, &why);
	if (fd >= 0 && fstat(fd, &st) < 0)
		(void)err_sys(&why, errno, "look at the file");
	if (why.code)
		return task_fail_path(t, sent, &why);
	if (utf8_valid(sent)) {
		json_key_str(o, sent);
	} else { /* two that differ in such bytes would be the same as text */
		place_write_uri(&uri, str_of(at.path));
		json_key_str(o, buf_str(&uri));
	}
	info_write(o, str_of(at.path), &st, names);
	return 0;
}

static int info(struct task *t, struct err *e)
{
	AUTO(names_free) struct names *names = names_new(t, e);
	struct json_out o = task_json(t);

	if (!names)
		return -1;
	json_open(&o, '{');
	for (const struct query_pair *p = query_get(&t->query, "path"); p; p = query_next(&t->query, "path", p))
		if (!was_asked_before(&t->query, p) && add_info(t, &o, p->value, names) < 0)
			return -1;
	json_close(&o, '}');
	return task_end(t, e);
}

int files_info_get(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct work_spec spec = { .fn = info, .class = WORK_READ };

	return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e);
}
