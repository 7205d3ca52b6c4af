// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/copy.h"

#include <string.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/own.h"
#include "sys/path.h"

#include "base/banned.h"

#define SANDBOX_ID_MAX 128
#define FIRST_ENTRIES 64

/* ---- operands ---- */

int copy_place_parse(const char *operand, struct copy_place *ret, struct err *e)
{
	struct str all = str_of(operand), head, tail;
	struct copy_place p = { .side = COPY_LOCAL, .path = operand };

	if (str_is(all, "-")) {
		*ret = (struct copy_place){ .side = COPY_STREAM, .path = operand };
		return 0;
	}
	if (str_cut(all, ':', &head, &tail) && head.n > 0 && !memchr(head.p, '/', head.n)) {
		if (head.n > SANDBOX_ID_MAX)
			return err_set(e, ERR_INVALID, "'%s' is no sandbox", SHOWN(head));
		p = (struct copy_place){ .side = COPY_REMOTE, .sandbox = head, .path = tail.p };
	} else if (all.n == 0) {
		return err_set(e, ERR_INVALID, "an empty path");
	}
	all = str_of(p.path);
	p.wants_dir = str_ends(all, STR("/"));
	p.wants_contents = str_ends(all, STR("/.")) || str_is(all, ".");
	*ret = p;
	return 0;
}

struct str copy_base_name(const char *path)
{
	struct str s = str_of(path);
	size_t at;

	while (s.n > 1 && s.p[s.n - 1] == '/')
		s.n--;
	for (at = s.n; at > 0 && s.p[at - 1] != '/';)
		at--;
	s = str_skip(s, at);
	return str_is(s, ".") || str_is(s, "..") || str_is(s, "/") ? STR("") : s;
}

/* ---- the list ---- */

void copy_list_done(struct copy_list *l)
{
	free(l->items);
	arena_done(&l->arena);
	*l = COPY_LIST_INIT;
}

/* "" is the top itself, and fine. */
static int check_path(struct str path, struct err *e)
{
	struct str rest = path, part;
	unsigned depth = 0;
	bool has_more = path.n > 0;

	if (has_more && path_check(path, e) < 0)
		return -1;
	while (has_more) {
		has_more = str_cut(rest, '/', &part, &rest);
		if (part.n == 0 || str_is(part, ".") || str_is(part, ".."))
			return err_set(e, ERR_DENIED, "'%s' could leave the folder that it is for", SHOWN(path));
		if (++depth > COPY_DEPTH_MAX)
			return err_set(e, ERR_LIMIT, "'%s': more than %d folders deep", SHOWN(path), COPY_DEPTH_MAX);
	}
	return 0;
}

static int grow(struct copy_list *l, struct err *e)
{
	size_t cap = l->cap ? l->cap * 2 : FIRST_ENTRIES;
	struct copy_entry *more;

	if (l->n < l->cap)
		return 0;
	if (l->n >= COPY_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d files and folders", COPY_ENTRIES_MAX);
	more = reallocarray(l->items, cap, sizeof(*more));
	if (!more)
		return err_no_memory(e);
	l->items = more;
	l->cap = cap;
	return 0;
}

int copy_list_add(struct copy_list *l, enum copy_kind kind, struct str path, uint64_t size, unsigned mode, struct err *e)
{
	struct copy_entry entry = { .kind = kind, .mode = mode & 0777, .size = kind == COPY_FILE ? size : 0 };

	if (check_path(path, e) < 0 || grow(l, e) < 0)
		return -1;
	entry.path = arena_strndup(&l->arena, path.n ? path.p : "", path.n);
	if (!entry.path)
		return json_no_room(&l->arena, path.n, e);
	if (__builtin_add_overflow(l->bytes, entry.size, &l->bytes))
		l->bytes = UINT64_MAX; /* for a bar, and a sandbox may say what it likes */
	l->items[l->n++] = entry;
	return 0;
}

int copy_list_set_target(struct copy_list *l, struct copy_entry *entry, struct str target, struct err *e)
{
	if (path_check(target, e) < 0)
		return err_wrap(e, "the link '%s'", SHOWN(str_of(entry->path)));
	entry->target = arena_dup(&l->arena, target);
	return entry->target ? 0 : json_no_room(&l->arena, target.n, e);
}

/* ---- names from the other side ---- */

int copy_below(struct str top, struct str listed, struct str *ret, struct err *e)
{
	struct str rest = str_skip(listed, top.n);

	if (str_is(top, "/") && str_starts(listed, top)) {
		*ret = rest;
		return rest.n > 0 ? check_path(rest, e) : err_set(e, ERR_DENIED, "'/' is not below itself");
	}
	if (!str_starts(listed, top) || rest.n < 2 || rest.p[0] != '/')
		return err_set(e, ERR_DENIED, "the sandbox named '%s' as a part of '%s'", SHOWN(listed), SHOWN(top));
	*ret = str_skip(rest, 1);
	return check_path(*ret, e);
}

unsigned copy_mode(int digits, unsigned fallback)
{
	unsigned mode = 0;

	if (digits <= 0 || digits > 7777)
		return fallback;
	for (int unit = 1000, shift = 9; unit > 0; unit /= 10, shift -= 3) {
		int digit = digits / unit % 10;

		if (digit > 7)
			return fallback;
		mode |= (unsigned)digit << shift;
	}
	return mode & 0777;
}

int copy_digits(unsigned mode)
{
	return (int)((mode >> 6 & 7) * 100 + (mode >> 3 & 7) * 10 + (mode & 7));
}

bool copy_link_stays(struct str path, struct str target)
{
	struct str rest = target, part;
	size_t above = 0;
	bool has_name = false;

	for (size_t i = 0; i < path.n; i++)
		above += path.p[i] == '/';
	if (target.n == 0 || target.p[0] == '/')
		return false;
	while (rest.n > 0) {
		(void)str_cut(rest, '/', &part, &rest);
		if (str_is(part, "..")) {
			if (has_name || above == 0)
				return false;
			above--;
		} else if (part.n > 0 && !str_is(part, ".")) {
			has_name = true;
		}
	}
	return true;
}
