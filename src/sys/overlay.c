// SPDX-License-Identifier: Apache-2.0
#include "sys/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/mounts.h"

#include "base/banned.h"

#define ATTRS (MOUNT_NOSUID | MOUNT_NODEV)
#define PAGE_MAX 4096 /* bytes of options that mount(2) takes, with the NUL */
#define FD_NAME_SIZE sizeof("/proc/self/fd/-2147483648")
#define PLACE_NAME_SIZE (FD_NAME_SIZE + 64)

/* volatile: a sandbox's fsync buys it nothing, and without it each delete would sync the whole file system.
 * xino: folders and files have the same device number, also where they come from several file systems. */
static const struct {
	const char *key, *value;
} settings[] = {
	{ "volatile", NULL }, { "redirect_dir", "nofollow" }, { "metacopy", "off" }, { "index", "off" }, { "xino", "on" },
};

/* ---- by options ---- */

struct options {
	struct mount_option list[OVERLAY_LOWERS_MAX + 2 + ARRAY_LEN(settings)];
	size_t n;
};

static int make_from(const struct options *o, const struct overlay_spec *sp, struct err *e)
{
	return mount_make(&(struct mount_spec){ "overlay", sp->source, o->list, o->n, ATTRS }, e);
}

static void add_settings(struct options *o)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		o->list[o->n++] = settings[i].value ? MOUNT_TEXT(settings[i].key, settings[i].value) : MOUNT_FLAG(settings[i].key);
}

static int make_by_fd(const struct overlay_spec *sp, struct err *e)
{
	struct options o;

	o.n = 0;
	for (size_t i = 0; i < sp->n_lowers; i++)
		o.list[o.n++] = MOUNT_DIR("lowerdir+", sp->lowers[i]);
	o.list[o.n++] = MOUNT_DIR("upperdir", sp->upper);
	o.list[o.n++] = MOUNT_DIR("workdir", sp->work);
	add_settings(&o);
	return make_from(&o, sp, e);
}

static const char *name_fd(char name[FD_NAME_SIZE], int fd)
{
	(void)snprintf(name, FD_NAME_SIZE, "/proc/self/fd/%d", fd); /* as long as any number */
	return name;
}

static int make_by_name(const struct overlay_spec *sp, struct err *e)
{
	char names[OVERLAY_LOWERS_MAX + 2][FD_NAME_SIZE];
	struct options o;

	o.n = 0;
	for (size_t i = 0; i < sp->n_lowers; i++)
		o.list[o.n++] = MOUNT_TEXT("lowerdir+", name_fd(names[i], sp->lowers[i]));
	o.list[o.n++] = MOUNT_TEXT("upperdir", name_fd(names[sp->n_lowers], sp->upper));
	o.list[o.n++] = MOUNT_TEXT("workdir", name_fd(names[sp->n_lowers + 1], sp->work));
	add_settings(&o);
	return make_from(&o, sp, e);
}

/* ---- by mount(2) ---- */

struct page {
	char text[PAGE_MAX];
	size_t n;
};

static void page_add(struct page *p, const char *before, const char *text)
{
	size_t room = p->n < sizeof(p->text) ? sizeof(p->text) - p->n : 0;
	int n = snprintf(p->text + sizeof(p->text) - room, room, "%s%s", before, text);

	p->n += n > 0 ? (size_t)n : 0; /* beyond the page: looked at when all is in */
}

static void page_add_fd(struct page *p, const char *before, int fd)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", fd);
	page_add(p, before, number);
}

/* Names are relative to /proc/self/fd: a number is all there is to one, and nothing in it is to be escaped. */
static int fill_page(struct page *p, const struct overlay_spec *sp, struct err *e)
{
	p->n = 0;
	for (size_t i = 0; i < sp->n_lowers; i++)
		page_add_fd(p, i == 0 ? "lowerdir=" : ":", sp->lowers[i]);
	page_add_fd(p, ",upperdir=", sp->upper);
	page_add_fd(p, ",workdir=", sp->work);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		page_add(p, ",", settings[i].key);
		if (settings[i].value)
			page_add(p, "=", settings[i].value);
	}
	return p->n < sizeof(p->text) ? 0 : err_set(e, ERR_LIMIT, "mount 'overlay': more than %d bytes of options", PAGE_MAX);
}

static int name_place(char at[PLACE_NAME_SIZE], int dir, const char *place, struct err *e)
{
	if (snprintf(at, PLACE_NAME_SIZE, "/proc/self/fd/%d/%s", dir, place) >= (int)PLACE_NAME_SIZE)
		return err_set(e, ERR_LIMIT, "mount 'overlay': a place with a long name");
	return 0;
}

static int mount_page(const struct overlay_spec *sp, const char *at, const struct page *p, struct err *e)
{
	AUTO_FD here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (here < 0 || chdir("/proc/self/fd") < 0)
		return err_sys(e, errno, "mount 'overlay': go to '/proc/self/fd'");
	rc = mount(sp->source, at, "overlay", MS_NOSUID | MS_NODEV, p->text);
	if (rc < 0)
		(void)err_sys(e, errno, "mount 'overlay': mount(2), which has its reason in the kernel's log");
	if (fchdir(here) < 0)
		return err_sys(e, errno, "come back from '/proc/self/fd'");
	return rc;
}

/* mount(2) puts it into its place at once: from there it is copied, and taken away. */
static int make_by_mount(const struct overlay_spec *sp, struct err *e)
{
	char at[PLACE_NAME_SIZE];
	struct page p;
	AUTO_FD fd = -1;

	if (name_place(at, sp->dir, sp->place, e) < 0 || fill_page(&p, sp, e) < 0 || mount_page(sp, at, &p, e) < 0)
		return -1;
	fd = mount_clone(sp->dir, sp->place, false, e);
	return mount_detach(at, fd < 0 ? &(struct err){ 0 } : e) < 0 || fd < 0 ? -1 : take_fd(&fd);
}

/* ---- the ways ---- */

static const struct {
	const char *name;
	int (*make)(const struct overlay_spec *sp, struct err *e);
} ways[] = {
	[OVERLAY_BY_FD] = { "layers by descriptor", make_by_fd },
	[OVERLAY_BY_NAME] = { "layers by name", make_by_name },
	[OVERLAY_BY_MOUNT] = { "all layers in one mount(2)", make_by_mount },
};
_Static_assert(ARRAY_LEN(ways) == OVERLAY_WAYS, "every way is in the table");

const char *overlay_way_name(enum overlay_way way)
{
	return ways[way].name;
}

int overlay_make(enum overlay_way way, const struct overlay_spec *sp, struct err *e)
{
	if (sp->n_lowers > OVERLAY_LOWERS_MAX)
		return err_set(e, ERR_LIMIT, "an overlay of %zu layers", sp->n_lowers);
	return ways[way].make(sp, e);
}

/* ---- which one ---- */

static int make_dir(int dir, const char *name, struct err *e)
{
	int fd;

	if (mkdirat(dir, name, 0700) < 0)
		return err_sys(e, errno, "make '%s'", name);
	fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open '%s'", name) : fd;
}

/* In DIR, empty, with two layers: one of them could be taken where several cannot. */
static int try_way(enum overlay_way way, int dir, struct err *e)
{
	AUTO_FD above = make_dir(dir, "above", e);
	AUTO_FD below = above < 0 ? -1 : make_dir(dir, "below", e);
	AUTO_FD upper = below < 0 ? -1 : make_dir(dir, "upper", e);
	AUTO_FD work = upper < 0 ? -1 : make_dir(dir, "work", e);
	AUTO_FD place = work < 0 ? -1 : make_dir(dir, "place", e);
	const int lowers[] = { above, below };
	AUTO_FD fd = -1;

	if (place < 0)
		return -1;
	fd = overlay_make(way, &(struct overlay_spec){ "trial", lowers, 2, upper, work, dir, "place" }, e);
	return fd < 0 ? -1 : 0;
}

/* Appends why WAY cannot be used to what E tells of those before it. */
static void note(struct err *e, enum overlay_way way, const struct err *why)
{
	struct err all = *why;

	(void)snprintf(all.msg, sizeof(all.msg), "%.*s%s%s: %.140s", 300, e->msg, e->msg[0] ? "; " : "", ways[way].name, why->msg);
	*e = all;
}

static int try_all(int dir, enum overlay_way *ret, struct err *e)
{
	struct err all = { 0 };

	for (enum overlay_way way = 0; way < OVERLAY_WAYS; way++) {
		static const char *const names[] = { "fd", "name", "mount" };
		struct err why = { 0 };
		AUTO_FD in = make_dir(dir, names[way], &why);

		if (in >= 0 && try_way(way, in, &why) == 0) {
			*ret = way;
			return 0;
		}
		note(&all, way, &why);
	}
	*e = all;
	return -1;
}

int overlay_find_way(int dir, const char *place, enum overlay_way *ret, struct err *e)
{
	const struct mount_option options[] = { MOUNT_TEXT("mode", "700"), MOUNT_TEXT("size", "1m") };
	AUTO_FD fd = mount_make(&(struct mount_spec){ "tmpfs", "trial", options, ARRAY_LEN(options), MOUNT_NOSUID }, e);
	char at[PLACE_NAME_SIZE];
	int rc = fd < 0 || name_place(at, dir, place, e) < 0 ? -1 : mount_move_to(fd, dir, place, e);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return err_set(e, ERR_INTERNAL, "there is no '%s' to try overlays in", place);
	rc = try_all(fd, ret, e);
	return mount_detach(at, rc < 0 ? &(struct err){ 0 } : e) < 0 ? -1 : rc;
}
