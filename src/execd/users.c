// SPDX-License-Identifier: Apache-2.0
#include "execd/users.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/guest.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define PASSWD_FIELDS 7
#define GROUP_FIELDS 4

/* ---- lines ---- */

/* Splits the next line that has exactly N fields (colons separate them) and a name. False at the end. */
static bool next_entry(struct str *text, struct str *fields, size_t n)
{
	while (text->n > 0) {
		struct str line, rest;
		size_t got = 0;

		(void)str_cut(*text, '\n', &line, text);
		rest = line;
		for (bool more = true; more && got <= n; got++) {
			struct str field;

			more = str_cut(rest, ':', &field, &rest);
			if (got < n)
				fields[got] = field;
		}
		if (got == n && fields[0].n > 0 && fields[0].n <= USERS_NAME_MAX && fields[0].p[0] != '#')
			return true;
	}
	return false;
}

static bool parse_id(struct str s, uint32_t *ret)
{
	uint64_t v;

	if (!str_to_u64(s, 0, GUEST_ID_MAX, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

bool passwd_next(struct str *passwd, struct user *ret)
{
	struct str f[PASSWD_FIELDS];

	while (next_entry(passwd, f, PASSWD_FIELDS)) {
		ret->name = f[0];
		ret->home = f[5];
		if (parse_id(f[2], &ret->uid) && parse_id(f[3], &ret->gid))
			return true;
	}
	return false;
}

bool passwd_by_uid(struct str passwd, uid_t uid, struct user *ret)
{
	struct user u;

	while (passwd_next(&passwd, &u)) {
		if (u.uid == uid) {
			*ret = u;
			return true;
		}
	}
	return false;
}

bool passwd_by_name(struct str passwd, struct str name, struct user *ret)
{
	struct user u;

	while (passwd_next(&passwd, &u)) {
		if (str_eq(u.name, name)) {
			*ret = u;
			return true;
		}
	}
	return false;
}

bool group_next(struct str *group, struct str *ret_name, gid_t *ret)
{
	struct str f[GROUP_FIELDS];

	while (next_entry(group, f, GROUP_FIELDS)) {
		*ret_name = f[0];
		if (parse_id(f[2], ret))
			return true;
	}
	return false;
}

bool group_by_name(struct str group, struct str name, gid_t *ret)
{
	struct str f[GROUP_FIELDS];

	while (next_entry(&group, f, GROUP_FIELDS))
		if (str_eq(f[0], name) && parse_id(f[2], ret))
			return true;
	return false;
}

static bool is_member(struct str members, struct str name)
{
	struct str one;

	while (members.n > 0) {
		(void)str_cut(members, ',', &one, &members);
		if (str_eq(one, name))
			return true;
	}
	return false;
}

static bool has_group(const gid_t *list, size_t n, gid_t gid)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == gid)
			return true;
	return false;
}

size_t groups_of(struct str group, struct str name, gid_t primary, gid_t out[USERS_GROUPS_MAX])
{
	struct str f[GROUP_FIELDS];
	size_t n = 0;
	gid_t gid;

	while (n < USERS_GROUPS_MAX && next_entry(&group, f, GROUP_FIELDS))
		if (is_member(f[3], name) && parse_id(f[2], &gid) && gid != primary && !has_group(out, n, gid))
			out[n++] = gid;
	return n;
}

/* ---- identities ---- */

void identity_of_ids(uid_t uid, gid_t gid, struct identity *ret)
{
	*ret = (struct identity){ .uid = uid, .gid = gid };
}

static void identity_of_user(const struct users_files *f, const struct user *u, struct identity *ret)
{
	identity_of_ids(u->uid, u->gid, ret);
	ret->n_groups = groups_of(f->group, u->name, u->gid, ret->groups);
}

void identity_of_uid(const struct users_files *f, uid_t uid, struct identity *ret)
{
	struct user u;

	if (passwd_by_uid(f->passwd, uid, &u))
		identity_of_user(f, &u, ret);
	else
		identity_of_ids(uid, uid, ret);
}

static bool is_number(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n > 0;
}

int identity_of_name(const struct users_files *f, struct str name, struct identity *ret, struct err *e)
{
	struct user u;
	uint32_t uid;

	if (is_number(name)) {
		if (!parse_id(name, &uid))
			return err_set(e, ERR_INVALID, "user '%s' is above %d", SHOWN(name), GUEST_ID_MAX);
		identity_of_uid(f, uid, ret);
		return 0;
	}
	if (!passwd_by_name(f->passwd, name, &u))
		return err_set(e, ERR_INVALID, "user '%s' is unknown", SHOWN(name));
	identity_of_user(f, &u, ret);
	return 0;
}

int gid_of_name(const struct users_files *f, struct str name, gid_t *ret, struct err *e)
{
	if (is_number(name)) {
		if (!parse_id(name, ret))
			return err_set(e, ERR_INVALID, "group '%s' is above %d", SHOWN(name), GUEST_ID_MAX);
		return 0;
	}
	if (!group_by_name(f->group, name, ret))
		return err_set(e, ERR_INVALID, "group '%s' is unknown", SHOWN(name));
	return 0;
}

int identity_of_text(const struct users_files *f, struct str text, struct identity *ret, struct err *e)
{
	struct str name, group;
	struct identity id = { 0 };
	gid_t gid = 0;

	(void)str_cut(text, ':', &name, &group);
	if (identity_of_name(f, name, &id, e) < 0)
		return -1;
	if (group.n > 0) {
		if (gid_of_name(f, group, &gid, e) < 0)
			return -1;
		identity_of_ids(id.uid, gid, &id);
	}
	*ret = id;
	return 0;
}

/* ---- the files ---- */

/* As any program would see it. 1: there is none, which is as good as an empty one. */
static int open_users_file(const char *path, int *ret, struct err *e)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err why = { 0 };
	AUTO_FD fd = root < 0 ? -1 : root_open(root, path, O_RDONLY, 0, &why);
	struct stat st;

	if (root < 0)
		return err_sys(e, errno, "open '/'");
	if (fd < 0 && why.sys == ENOENT)
		return 1;
	if (fd < 0) {
		*e = why;
		return -1;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is no regular file", path);
	if (st.st_size > USERS_FILE_MAX)
		return err_set(e, ERR_INVALID, "'%s' is larger than %d bytes", path, USERS_FILE_MAX);
	*ret = take_fd(&fd);
	return 0;
}

static int read_users_file(const char *path, struct buf *b, struct err *e)
{
	AUTO_FD fd = -1;
	int r = open_users_file(path, &fd, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	return fd_read_all(fd, USERS_FILE_MAX, b, e) < 0 ? err_wrap(e, "read '%s'", path) : 0;
}

/* ---- some lines of the files ---- */

/* True: enough. */
typedef bool line_fn(struct str line, void *arg);

/* Feeds the lines that are complete; the last one of a file is, too. True: enough. */
static bool feed_lines(struct buf *piece, bool is_end, bool *is_skipping, line_fn *fn, void *arg)
{
	struct str rest = buf_str(piece), line, after;
	bool is_enough = false;

	while (!is_enough && rest.n > 0 && (str_cut(rest, '\n', &line, &after) || is_end)) {
		is_enough = !*is_skipping && fn(line, arg);
		*is_skipping = false;
		rest = after;
	}
	buf_consume(piece, piece->n - rest.n);
	if (piece->n >= USERS_LINE_MAX) { /* it is told by none of its ends */
		*is_skipping = true;
		buf_clear(piece);
	}
	return is_enough;
}

static int for_each_line(const char *path, line_fn *fn, void *arg, struct err *e)
{
	AUTO(buf_done) struct buf piece = BUF_INIT(2 * USERS_LINE_MAX);
	AUTO_FD fd = -1;
	bool is_skipping = false;
	ssize_t n = 1;
	int r = open_users_file(path, &fd, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	for (size_t total = 0; n > 0; total += (size_t)n) {
		char *room = buf_reserve(&piece, USERS_PIECE);

		if (!room)
			return err_no_memory(e);
		n = read(fd, room, USERS_PIECE);
		if (n < 0)
			return err_sys(e, errno, "read '%s'", path);
		if (total + (size_t)n > USERS_FILE_MAX) /* it grows while it is read */
			return err_set(e, ERR_INVALID, "'%s' is larger than %d bytes", path, USERS_FILE_MAX);
		buf_commit(&piece, (size_t)n);
		if (feed_lines(&piece, n == 0, &is_skipping, fn, arg))
			return 0;
	}
	return 0;
}

void users_text_done(struct users_text *t)
{
	buf_done(&t->passwd_bytes);
	buf_done(&t->group_bytes);
}

int users_read(struct users_text *ret, struct err *e)
{
	*ret = (struct users_text){ .passwd_bytes = BUF_INIT(USERS_FILE_MAX), .group_bytes = BUF_INIT(USERS_FILE_MAX) };
	if (read_users_file("/etc/passwd", &ret->passwd_bytes, e) < 0 ||
	    read_users_file("/etc/group", &ret->group_bytes, e) < 0) {
		users_text_done(ret);
		return -1;
	}
	ret->files = (struct users_files){ buf_str(&ret->passwd_bytes), buf_str(&ret->group_bytes) };
	return 0;
}

struct wanted {
	struct str user, group; /* names or numbers */
	struct users_text *out;
	struct str name;        /* of the user, once that is known */
	bool has_group;
	size_t n;               /* groups that list the user */
};

static bool is_called(struct str name, struct str id, struct str wanted)
{
	uint32_t a, b;

	return is_number(wanted) ? parse_id(id, &a) && parse_id(wanted, &b) && a == b : str_eq(name, wanted);
}

static bool keep_user(struct str line, void *arg)
{
	struct wanted *w = arg;
	struct str rest = line, f[PASSWD_FIELDS];
	uint32_t ignored;

	if (!next_entry(&rest, f, PASSWD_FIELDS) || !parse_id(f[2], &ignored) || !parse_id(f[3], &ignored) ||
	    !is_called(f[0], f[2], w->user))
		return false;
	buf_add_str(&w->out->passwd_bytes, line);
	buf_add_char(&w->out->passwd_bytes, '\n');
	return true;
}

/* Of the members the one that counts is kept: others may be many. */
static bool keep_group(struct str line, void *arg)
{
	struct wanted *w = arg;
	struct str f[GROUP_FIELDS];
	bool is_listed, is_named;
	gid_t gid;

	if (!next_entry(&line, f, GROUP_FIELDS) || !parse_id(f[2], &gid))
		return false;
	is_listed = w->name.n > 0 && w->n < USERS_LINES_MAX && is_member(f[3], w->name);
	is_named = w->group.n > 0 && !w->has_group && is_called(f[0], f[2], w->group);
	w->n += is_listed;
	w->has_group |= is_named;
	if (is_listed || is_named)
		buf_addf(&w->out->group_bytes, "%.*s::%u:%.*s\n", STR_ARG(f[0]), gid, STR_ARG(is_listed ? w->name : STR("")));
	return false;
}

int users_find(struct str user, struct str group, struct users_text *ret, struct err *e)
{
	struct wanted w = { .user = user, .group = group, .out = ret };
	struct str rest;
	struct user u;
	int r;

	*ret = (struct users_text){ .passwd_bytes = BUF_INIT(2 * USERS_LINE_MAX),
				    .group_bytes = BUF_INIT((size_t)4 * USERS_LINES_MAX * USERS_NAME_MAX) };
	r = for_each_line("/etc/passwd", keep_user, &w, e);
	rest = buf_str(&ret->passwd_bytes);
	if (r == 0 && passwd_next(&rest, &u))
		w.name = u.name;
	if (r == 0)
		r = for_each_line("/etc/group", keep_group, &w, e);
	if (r == 0 && (ret->passwd_bytes.failed || ret->group_bytes.failed))
		r = err_no_memory(e);
	if (r < 0)
		users_text_done(ret);
	else
		ret->files = (struct users_files){ buf_str(&ret->passwd_bytes), buf_str(&ret->group_bytes) };
	return r;
}

int users_by_uid(uid_t uid, struct identity *ret, struct err *e)
{
	AUTO(users_text_done) struct users_text t = { 0 };
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", uid);
	if (users_find(str_of(number), STR(""), &t, e) < 0)
		return -1;
	identity_of_uid(&t.files, uid, ret);
	return 0;
}

int users_by_text(struct str text, struct identity *ret, struct err *e)
{
	AUTO(users_text_done) struct users_text t = { 0 };
	struct str name, group;

	(void)str_cut(text, ':', &name, &group);
	return users_find(name, group, &t, e) < 0 ? -1 : identity_of_text(&t.files, text, ret, e);
}
