// SPDX-License-Identifier: Apache-2.0
#include "image/entry.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/escape.h"

#include "base/banned.h"

#define WHITEOUT STR(".wh.")
#define OPAQUE ".wh..wh..opq"
#define MODE_BITS 07777

static int refuse(struct err *e, const char *path, const char *why)
{
	return err_set(e, ERR_INVALID, "entry '%s': %s", SHOWN(str_of(path)), why);
}

/* What keeps a component out of a root file system, or NULL. The last one of a layer's may be a whiteout. */
static const char *component_problem(struct str part, bool may_be_whiteout)
{
	if (str_is(part, ".."))
		return "a name with '..'";
	return !may_be_whiteout && str_starts(part, WHITEOUT) ? "a whiteout" : NULL;
}

struct cleaning {
	const char *path; /* of the entry */
	enum entry_form form;
	bool is_entry; /* its path, not what it links to */
};

/* TEXT is the path itself or what it links to. */
static int clean(const struct cleaning *c, const char *text, char out[PATH_BYTES_MAX + 1], struct err *e)
{
	struct str rest = str_of(text), part;
	size_t n = 0, depth = 0;

	if (path_check(rest, e) < 0)
		return err_wrap(e, "entry '%s'", SHOWN(str_of(c->path)));
	if (text[0] == '/' && c->form == ENTRY_TAR)
		return refuse(e, c->path, "an absolute name");
	while (rest.n > 0) {
		const char *why;

		(void)str_cut(rest, '/', &part, &rest);
		if (part.n == 0 || str_is(part, "."))
			continue;
		why = depth++ == ENTRY_DEPTH_MAX ? "too deep" :
						   component_problem(part, c->is_entry && c->form == ENTRY_LAYER && rest.n == 0);
		if (why)
			return refuse(e, c->path, why);
		if (n > 0)
			out[n++] = '/';
		memcpy(out + n, part.p, part.n); /* no longer than the text so far */
		n += part.n;
	}
	out[n] = '\0';
	return 0;
}

/* Turns what is named like one into what it means. In layers of old they are hard links to each other. */
static int check_whiteout(const struct entry_claim *c, struct entry *ret, struct err *e)
{
	char *slash = strrchr(ret->path, '/'), *last = slash ? slash + 1 : ret->path;
	struct str name = str_skip(str_of(last), WHITEOUT.n);

	if (!str_starts(str_of(last), WHITEOUT))
		return 0;
	if (c->kind != ENTRY_FILE && c->kind != ENTRY_HARDLINK)
		return refuse(e, c->path, "a whiteout that is no file");
	if (strcmp(last, OPAQUE) == 0) {
		if (!slash)
			return refuse(e, c->path, "a root that hides what is below it");
		*slash = '\0';
		ret->kind = ENTRY_OPAQUE;
		return 1;
	}
	if (name.n == 0 || str_is(name, ".") || str_is(name, "..") || str_starts(name, WHITEOUT))
		return refuse(e, c->path, "a whiteout of no name");
	memmove(last, name.p, name.n + 1);
	ret->kind = ENTRY_WHITEOUT;
	return 1;
}

static int check_symlink(const struct entry_claim *c, struct entry *ret, struct err *e)
{
	size_t n = strlen(c->target);

	if (n == 0 || n > PATH_BYTES_MAX)
		return refuse(e, c->path, "a symlink to a name that is none");
	memcpy(ret->target, c->target, n + 1);
	return 0;
}

static int check_hardlink(const struct entry_claim *c, enum entry_form form, struct entry *ret, struct err *e)
{
	if (clean(&(struct cleaning){ .path = c->path, .form = form }, c->target, ret->target, e) < 0)
		return -1;
	if (!ret->target[0] || strcmp(ret->target, ret->path) == 0)
		return refuse(e, c->path, "a hard link to itself or to the root");
	return 0;
}

static int check_kind(const struct entry_claim *c, enum entry_form form, struct entry *ret, struct err *e)
{
	if (!ret->path[0] && c->kind != ENTRY_DIR)
		return refuse(e, c->path, "the root is not a directory");
	if ((c->kind == ENTRY_SYMLINK || c->kind == ENTRY_HARDLINK) && !c->target)
		return refuse(e, c->path, "a link to nothing");
	switch (c->kind) {
	case ENTRY_DIR:
	case ENTRY_FIFO:
		return 1;
	case ENTRY_FILE:
		if (c->size < 0)
			return refuse(e, c->path, "a size below 0");
		ret->size = (uint64_t)c->size;
		return 1;
	case ENTRY_SYMLINK:
		return check_symlink(c, ret, e) < 0 ? -1 : 1;
	case ENTRY_HARDLINK:
		return check_hardlink(c, form, ret, e) < 0 ? -1 : 1;
	case ENTRY_DEVICE:
		return c->major == 0 && c->minor == 0 ? refuse(e, c->path, "a whiteout of an overlay") : 0;
	case ENTRY_UNKNOWN:
	case ENTRY_WHITEOUT:
	case ENTRY_OPAQUE:
		break;
	}
	return refuse(e, c->path, "of an unknown kind");
}

static uint32_t id_of(int64_t id)
{
	return id >= 0 && id <= ENTRY_ID_MAX ? (uint32_t)id : ENTRY_ID_NOBODY;
}

int entry_check(const struct entry_claim *c, enum entry_form form, struct entry *ret, struct err *e)
{
	int k;

	*ret = (struct entry){ .kind = c->kind, .mode = c->mode & MODE_BITS, .uid = id_of(c->uid), .gid = id_of(c->gid),
			       .mtime_s = c->mtime_s, .mtime_ns = c->mtime_ns };
	if (ret->mtime_ns < 0 || ret->mtime_ns > 999999999)
		ret->mtime_ns = 0;
	if (!c->path)
		return err_set(e, ERR_INVALID, "an entry whose name cannot be read");
	if (clean(&(struct cleaning){ .path = c->path, .form = form, .is_entry = true }, c->path, ret->path, e) < 0)
		return -1;
	k = check_whiteout(c, ret, e);
	return k != 0 ? k : check_kind(c, form, ret, e);
}

int entry_check_attr(const char *name, struct err *e)
{
	struct str s = str_of(name);

	if (str_starts(s, STR("trusted.")) || str_starts(s, STR("user.overlay.")))
		return err_set(e, ERR_INVALID, "attribute '%s' is not an image's to set", SHOWN(s));
	return str_starts(s, STR("user."));
}
