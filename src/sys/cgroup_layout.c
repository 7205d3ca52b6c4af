// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/cgroup_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define MAGIC_V1 0x27e0eb
#define MAGIC_V2 0x63677270
#define BY_V2 (CGROUP_BIT(CGROUP_FREEZER) | CGROUP_BIT(CGROUP_DEVICES) | CGROUP_BIT(CGROUP_CPUACCT)) /* no controllers there */

struct finding {
	struct cgroup_layout *l;
	int root;              /* of all paths */
	bool is_real;
	unsigned known, enabled; /* by the kernel; all bits when it does not say */
	char v2_root[CGROUP_MOUNT_MAX + 1]; /* the group that the v2 mount shows */
	unsigned v2_top;       /* controllers at the mount, whether or not they reach us */
};

void cgroup_layout_done(struct cgroup_layout *l)
{
	for (size_t i = 0; i < l->n; i++)
		closep(&l->at[i].dir);
	*l = CGROUP_LAYOUT_INIT;
}

/* ---- mounts -------------------------------------------------------------------------------------------- */

/* Another file system may be mounted over this one: then what is found at its place is not it. */
static bool is_the_mount(int dir, const struct cgroup_mount *m)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(dir, &fs) < 0 || fstat(dir, &st) < 0)
		return false;
	return (unsigned long)fs.f_type == (m->is_v2 ? MAGIC_V2 : MAGIC_V1) && major(st.st_dev) == m->major &&
	       minor(st.st_dev) == m->minor;
}

/* The hierarchy that M is another view of, or NULL. */
static struct cgroup_hierarchy *find_same(struct cgroup_layout *l, const struct cgroup_mount *m)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->at[i].is_v2 == m->is_v2 && (m->is_v2 || (l->at[i].controllers & m->controllers)))
			return &l->at[i];
	return NULL;
}

/* The first view of a hierarchy counts, unless it is read-only and a later one is not. */
static void add_mount(struct finding *f, const struct cgroup_mount *m)
{
	struct cgroup_hierarchy *h = find_same(f->l, m);
	AUTO_FD dir = -1;

	if (h && (!h->is_read_only || m->is_read_only))
		return;
	if (!h && f->l->n == CGROUP_HIERARCHIES_MAX)
		return;
	dir = openat(f->root, m->place[1] ? m->place + 1 : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || (f->is_real && !is_the_mount(dir, m)))
		return;
	if (!h)
		h = &f->l->at[f->l->n++];
	else
		closep(&h->dir);
	*h = (struct cgroup_hierarchy){ .is_v2 = m->is_v2, .is_read_only = m->is_read_only, .controllers = m->controllers };
	memcpy(h->place, m->place, sizeof(h->place));
	if (m->is_v2)
		memcpy(f->v2_root, m->root, sizeof(f->v2_root));
	h->dir = take_fd(&dir);
}

/* Both orders matter to who attaches: v2 first, then the freezer. */
static void sort_hierarchies(struct cgroup_layout *l)
{
	size_t front = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = front; i < l->n; i++) {
			struct cgroup_hierarchy h = l->at[i];

			if (pass == 0 ? !h.is_v2 : !(h.controllers & CGROUP_BIT(CGROUP_FREEZER)))
				continue;
			memmove(&l->at[front + 1], &l->at[front], (i - front) * sizeof(h));
			l->at[front++] = h;
			break;
		}
	}
}

static int find_mounts(struct finding *f, bool v1_only, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_TEXT_MAX);
	struct cgroup_mount m;
	struct str in;

	if (fd_read_file(f->root, "proc/self/mountinfo", CGROUP_TEXT_MAX, &b, e) < 0)
		return -1;
	in = buf_str(&b);
	while (cgroup_next_mount(&in, &m))
		if (!(m.is_v2 && v1_only))
			add_mount(f, &m);
	if (f->l->n == 0)
		return err_set(e, ERR_UNAVAILABLE, "no control groups are mounted");
	sort_hierarchies(f->l);
	return 0;
}

/* ---- where we work ------------------------------------------------------------------------------------- */

static int set_base(char out[CGROUP_MOUNT_MAX + 1], struct str path, struct err *e)
{
	struct str rest = path, part;

	if (path.n > CGROUP_MOUNT_MAX)
		return err_set(e, ERR_LIMIT, "the path of the base group is longer than %d bytes", CGROUP_MOUNT_MAX);
	while (rest.n > 0) {
		bool more = str_cut(rest, '/', &part, &rest);

		if (part.n == 0 || part.p[0] == '.' || memchr(part.p, '\0', part.n) || (more && rest.n == 0))
			return err_set(e, ERR_INVALID, "base group '%.*s' is not a plain relative path", STR_ARG(path));
	}
	if (path.n > 0)
		memcpy(out, path.p, path.n);
	out[path.n] = '\0';
	return 0;
}

/* Our group as it is seen below the mount, in B. After cgroup_vacate() it is the one above the one we are in. */
static int find_own(const struct finding *f, struct buf *b, struct str *ret, struct err *e)
{
	struct str own, top = str_of(f->v2_root), leaf = STR("/" CGROUP_OWN_LEAF);

	if (fd_read_file(f->root, "proc/self/cgroup", CGROUP_FILE_MAX, b, e) < 0)
		return -1;
	if (!cgroup_parse_own(buf_str(b), &own))
		return err_set(e, ERR_UNAVAILABLE, "this process has no group in the v2 hierarchy");
	if (str_ends(own, leaf))
		own.n -= leaf.n;
	if (str_is(top, "/"))
		top.n = 0;
	if (!str_starts(own, top) || (own.n > top.n && own.p[top.n] != '/'))
		return err_set(e, ERR_UNAVAILABLE, "the group of this process is outside of what is mounted");
	own = str_skip(own, top.n);
	*ret = str_skip(own, 1);
	return 0;
}

static int set_own_base(struct finding *f, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	struct str own;

	return find_own(f, &b, &own, e) < 0 ? -1 : set_base(f->l->v2_base, own, e);
}

/* systemd's mark on a group that it leaves to its unit; the second one before version 251. */
static bool is_delegated(int at, const char *path)
{
	static const char *const marks[] = { "user.delegate", "trusted.delegate" };
	AUTO_FD dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char value[2];

	for (size_t i = 0; dir >= 0 && i < ARRAY_LEN(marks); i++)
		if (fgetxattr(dir, marks[i], value, sizeof(value)) == 1 && value[0] == '1')
			return true;
	return false;
}

/* A service cannot have its boxes in its own group: with groups that have controllers below it systemd could not put the process of the
 * next start there. So they have a unit of their own. */
static int set_base_beside(struct finding *f, const char *beside, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	struct str own, service = STR(".service");
	char path[CGROUP_MOUNT_MAX + 1];
	int n;

	if (f->l->n != 1 || find_own(f, &b, &own, &(struct err){ 0 }) < 0 || !str_ends(own, service))
		return 0;
	own.n -= service.n;
	n = snprintf(path, sizeof(path), "%.*s%s.service", STR_ARG(own), beside);
	if (n < 0 || (size_t)n >= sizeof(path) || !is_delegated(f->l->at[0].dir, path))
		return 0;
	return set_base(f->l->v2_base, str_of(path), e);
}

/* The v2 base group, or the nearest above it that exists. */
static int open_v2_base(const struct cgroup_layout *l, bool *ret_whole, struct err *e)
{
	AUTO_FD dir = cg_open_dir(l->at[0].dir, ".", e);
	struct str rest = str_of(l->v2_base), part;
	char name[CGROUP_MOUNT_MAX + 1];

	*ret_whole = true;
	while (dir >= 0 && rest.n > 0) {
		int next;

		(void)str_cut(rest, '/', &part, &rest);
		(void)snprintf(name, sizeof(name), "%.*s", STR_ARG(part));
		next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (next < 0 && errno == ENOENT) {
			*ret_whole = false;
			break;
		}
		if (next < 0)
			return err_sys(e, errno, "open group '%s'", l->v2_base);
		closep(&dir);
		dir = next;
	}
	return take_fd(&dir);
}

static int read_names(int dir, const char *file, unsigned *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);

	if (cg_read(dir, file, &b, e) < 0)
		return -1;
	*ret = cgroup_parse_names(buf_str(&b), ' ', true);
	return 0;
}

static int has_processes(int dir, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);

	return cg_read(dir, "cgroup.procs", &b, e) < 0 ? -1 : b.n > 0;
}

/* Only the true root lacks cgroup.type, and only it may have processes beside groups with controllers. */
static int look_at_v2(struct finding *f, struct err *e)
{
	struct cgroup_layout *l = f->l;
	unsigned here = 0, below = 0;
	AUTO_FD base = -1;
	bool whole;
	int busy;

	base = open_v2_base(l, &whole, e);
	if (base < 0 || read_names(l->at[0].dir, "cgroup.controllers", &f->v2_top, e) < 0 ||
	    read_names(base, "cgroup.controllers", &here, e) < 0 ||
	    read_names(base, "cgroup.subtree_control", &below, e) < 0)
		return -1;
	busy = has_processes(base, e);
	if (busy < 0)
		return -1;
	l->is_busy = whole && busy && (here & ~below) && cg_has(base, "cgroup.type");
	l->at[0].controllers = here | BY_V2;
	l->has_freeze = l->has_kill = true; /* until a group says otherwise */
	return 0;
}

/* ---- who serves what ----------------------------------------------------------------------------------- */

static enum cgroup_lack lack_of(const struct finding *f, unsigned bit)
{
	if (!(f->known & bit))
		return CGROUP_NOT_IN_KERNEL;
	if (!(f->enabled & bit))
		return CGROUP_DISABLED;
	return (f->v2_top & bit) ? CGROUP_NOT_DELEGATED : CGROUP_NOT_MOUNTED;
}

/* v1's own, where it is mounted, except for what every v2 group can do. */
static int serve(const struct cgroup_layout *l, unsigned bit)
{
	bool v2_does = l->n > 0 && l->at[0].is_v2 && (l->at[0].controllers & bit);

	if (v2_does && (bit == CGROUP_BIT(CGROUP_CPUACCT) || (bit == CGROUP_BIT(CGROUP_FREEZER) && l->has_freeze)))
		return 0;
	for (size_t i = 0; i < l->n; i++)
		if (!l->at[i].is_v2 && (l->at[i].controllers & bit))
			return (int)i;
	return v2_does && bit != CGROUP_BIT(CGROUP_FREEZER) ? 0 : -1;
}

static void assign(struct cgroup_layout *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->at[i].is_used = l->at[i].is_v2;
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		l->where[c] = serve(l, CGROUP_BIT(c));
		if (l->where[c] >= 0)
			l->at[l->where[c]].is_used = true;
	}
}

void cgroup_layout_share(struct cgroup_layout *l, unsigned controllers)
{
	unsigned served[CGROUP_HIERARCHIES_MAX] = { 0 };

	l->shared |= controllers;
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if (l->where[c] >= 0)
			served[l->where[c]] |= CGROUP_BIT(c);
	for (size_t i = 0; i < l->n; i++)
		if (!l->at[i].is_v2 && served[i] && !(served[i] & ~l->shared))
			l->at[i].is_shared = true;
}

void cg_layout_settle(struct cgroup_layout *l, int dir)
{
	if (dir < 0)
		return;
	l->has_freeze = cg_has(dir, "cgroup.freeze");
	l->has_kill = cg_has(dir, "cgroup.kill");
	if (!cg_has(dir, "cpu.stat"))
		l->at[0].controllers &= ~CGROUP_BIT(CGROUP_CPUACCT);
	assign(l);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if (l->where[c] < 0 && l->lack[c] == CGROUP_AVAILABLE)
			l->lack[c] = CGROUP_NOT_IN_KERNEL;
}

static void report(struct finding *f)
{
	struct cgroup_layout *l = f->l;

	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		if (l->where[c] < 0)
			l->lack[c] = lack_of(f, CGROUP_BIT(c));
		else
			l->lack[c] = l->at[l->where[c]].is_read_only ? CGROUP_READ_ONLY : CGROUP_AVAILABLE;
	}
}

const char *cgroup_lack_text(const struct cgroup_layout *l, enum cgroup_controller c)
{
	static const char *const texts[] = {
		[CGROUP_AVAILABLE] = NULL,
		[CGROUP_NOT_IN_KERNEL] = "not in this kernel",
		[CGROUP_DISABLED] = "disabled at boot",
		[CGROUP_NOT_MOUNTED] = "not mounted",
		[CGROUP_NOT_DELEGATED] = "not delegated to our group",
		[CGROUP_READ_ONLY] = "mounted read-only",
	};

	return texts[l->lack[c]];
}

/* Kernels without v1 have no /proc/cgroups: then nothing is known to be missing or disabled. */
static int ask_kernel(struct finding *f, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	int r = cg_read(f->root, "proc/cgroups", &b, e);

	f->known = f->enabled = CGROUP_ALL;
	if (r > 0)
		cgroup_parse_kernel(buf_str(&b), &f->known, &f->enabled);
	return r < 0 ? -1 : 0;
}

int cgroup_layout_find(const struct cgroup_find *how, struct cgroup_layout *ret, struct err *e)
{
	AUTO(cgroup_layout_done) struct cgroup_layout l = CGROUP_LAYOUT_INIT;
	struct finding f = { .l = &l, .is_real = !how->root };
	AUTO_FD root = open(how->root ? how->root : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct str base = str_of(how->base ? how->base : "");

	if (root < 0)
		return err_sys(e, errno, "open '%s'", how->root ? how->root : "/");
	f.root = root;
	if (set_base(l.base, base, e) < 0 || set_base(l.v2_base, base, e) < 0 || ask_kernel(&f, e) < 0 ||
	    find_mounts(&f, how->v1_only, e) < 0)
		return err_wrap(e, "look for control groups");
	if (l.at[0].is_v2 && ((how->below_own && set_own_base(&f, e) < 0) ||
			      (how->beside && set_base_beside(&f, how->beside, e) < 0) || look_at_v2(&f, e) < 0))
		return err_wrap(e, "look for control groups");
	assign(&l);
	report(&f);
	*ret = l;
	l.n = 0; /* the descriptors are the caller's now */
	return 0;
}

bool cgroup_is_in_use(const struct cgroup_layout *l, const char *name)
{
	AUTO_FD base = -1, dir = -1;
	struct stat st;
	bool whole;

	if (l->n == 0 || !l->at[0].is_v2)
		return false;
	base = open_v2_base(l, &whole, &(struct err){ 0 });
	dir = base < 0 || !whole ? -1 : openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && fstat(dir, &st) == 0 && st.st_nlink > 2;
}

/* ---- the base as a group that hands on ------------------------------------------------------------------- */

static int move_all(int from, int to, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	struct err gone = { 0 };
	struct str in;
	pid_t pid;

	if (cg_read(from, "cgroup.procs", &b, e) < 0)
		return -1;
	in = buf_str(&b);
	while (cgroup_next_pid(&in, &pid))
		if (cg_writef(to, "cgroup.procs", &gone, "%d", (int)pid) < 0 && gone.sys != ESRCH) {
			*e = gone;
			return -1;
		}
	return 0;
}

int cgroup_vacate(struct cgroup_layout *l, bool all, struct err *e)
{
	AUTO_FD base = -1, leaf = -1;
	bool whole;
	int r;

	if (!l->is_busy)
		return 0;
	base = open_v2_base(l, &whole, e);
	leaf = base < 0 ? -1 : cg_make_dir(base, CGROUP_OWN_LEAF, e);
	if (leaf < 0)
		return -1;
	r = all ? move_all(base, leaf, e) : cg_write(leaf, "cgroup.procs", "0", e);
	if (r >= 0)
		r = has_processes(base, e);
	if (r < 0)
		return err_wrap(e, "move processes out of group '/%s'", l->v2_base);
	if (r > 0)
		return err_set(e, ERR_CONFLICT, "other processes are in group '/%s' that is to hold ours", l->v2_base);
	l->is_busy = false;
	return 0;
}
