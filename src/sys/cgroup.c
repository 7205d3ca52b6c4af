// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "sys/cgroup_impl.h"

#include "base/banned.h"

#define OWNER_ATTR "trusted.opensandbox.owner"

int cg_dir_for(const struct cgroup *g, unsigned controller)
{
	int i = g->layout->where[controller];

	return i < 0 ? -1 : g->dirs[i];
}

bool cg_is_v2(const struct cgroup *g, unsigned controller)
{
	int i = g->layout->where[controller];

	return i >= 0 && g->layout->at[i].is_v2;
}

void cgroup_done(struct cgroup *g)
{
	for (size_t i = 0; i < CGROUP_HIERARCHIES_MAX; i++)
		closep(&g->dirs[i]);
	*g = CGROUP_INIT;
}

static int check_name(const char *name, struct err *e)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++) {
		char c = name[i];

		/* No dots: the files of a group have them, so no name can be taken for one. */
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
			return err_set(e, ERR_INVALID, "'%s' is not the name of a group", name);
	}
	if (n == 0 || n > CGROUP_NAME_MAX)
		return err_set(e, ERR_INVALID, "the name of a group has 1 to %d bytes", CGROUP_NAME_MAX);
	return 0;
}

static int init_group(struct cgroup *g, const struct cgroup_layout *l, const char *above, const char *name, struct err *e)
{
	int n = snprintf(g->path, sizeof(g->path), "%s%s%s", above, *above ? "/" : "", name);

	g->layout = l;
	if (n < 0 || (size_t)n >= sizeof(g->path))
		return err_set(e, ERR_LIMIT, "the path of group '%s' is longer than %d bytes", name, CGROUP_PATH_MAX);
	return 0;
}

/* ---- controllers on v2 --------------------------------------------------------------------------------- */

static int enable_one(int dir, enum cgroup_controller c, const char *what, struct err *e)
{
	const char *name = cgroup_controller_name(c, true);
	int r = cg_writef(dir, "cgroup.subtree_control", e, "+%s", name);

	if (r > 0)
		return 0;
	if (r < 0 && e->sys == EBUSY)
		return err_set(e, ERR_CONFLICT, "processes in group '/%s' keep '%s' from groups below it", what, name);
	if (r == 0 || e->sys == ENOENT)
		return err_set(e, ERR_UNAVAILABLE, "group '/%s' has no '%s' to hand on", what, name);
	return err_wrap(e, "hand '%s' on from group '/%s'", name, what);
}

/* v2: lets groups below DIR have the controllers. WHAT names the group in errors. */
static int cg_enable(int dir, unsigned controllers, const char *what, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	unsigned have;

	if (controllers == 0)
		return 0;
	if (cg_read(dir, "cgroup.subtree_control", &b, e) < 0)
		return -1;
	have = cgroup_parse_names(buf_str(&b), ' ', true);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if ((controllers & ~have & CGROUP_BIT(c)) && enable_one(dir, c, what, e) < 0)
			return -1;
	return 0;
}

/* Those that the v2 hierarchy serves and that are controllers there. */
static unsigned enabled_on_v2(const struct cgroup_layout *l)
{
	const unsigned never = CGROUP_BIT(CGROUP_FREEZER) | CGROUP_BIT(CGROUP_DEVICES) | CGROUP_BIT(CGROUP_CPUACCT);
	unsigned set = 0;

	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if (l->where[c] >= 0 && l->at[l->where[c]].is_v2)
			set |= CGROUP_BIT(c);
	return set & ~never;
}

/* ---- the top ------------------------------------------------------------------------------------------- */

/* Goes down from the mount along PATH, making what is missing, and returns the last directory. */
static int go_down(const struct cgroup_layout *l, size_t i, const char *path, struct err *e)
{
	unsigned hand_on = l->at[i].is_v2 ? enabled_on_v2(l) : 0;
	AUTO_FD dir = cg_open_dir(l->at[i].dir, ".", e);
	struct str rest = str_of(path), part;
	char name[CGROUP_MOUNT_MAX + 1], above[CGROUP_MOUNT_MAX + 1] = "";

	while (dir >= 0 && rest.n > 0) {
		int next;

		(void)str_cut(rest, '/', &part, &rest);
		(void)snprintf(name, sizeof(name), "%.*s", STR_ARG(part));
		if (cg_enable(dir, hand_on, above, e) < 0)
			return -1;
		(void)snprintf(above, sizeof(above), "%.*s", (int)(part.p + part.n - path), path);
		next = cg_make_dir(dir, name, e);
		closep(&dir);
		dir = next;
	}
	if (dir < 0 || cg_enable(dir, hand_on, path, e) < 0)
		return -1;
	return take_fd(&dir);
}

/* 1 it has OWNER's tag, 0 it has none, -1. */
static int check_tag(int dir, const char *owner, struct err *e)
{
	char tag[CGROUP_OWNER_MAX];
	ssize_t n = fgetxattr(dir, OWNER_ATTR, tag, sizeof(tag));

	if (n < 0 && errno == ENODATA)
		return 0;
	if (n < 0 && errno != ERANGE)
		return err_sys(e, errno, "read the owner's tag");
	if (n < 0 || !str_eq((struct str){ tag, (size_t)n }, str_of(owner)))
		return err_set(e, ERR_CONFLICT, "the group belongs to another owner");
	return 1;
}

static int is_unused(int dir, void *arg, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);

	if (dir != *(int *)arg)
		return 1; /* a group below it */
	return cg_read(dir, "cgroup.procs", &b, e) < 0 ? -1 : b.n > 0;
}

/* A group without a tag is taken only when there is nothing in it: we may have been cut right after making it. */
static int claim(int dir, const char *owner, struct err *e)
{
	int r = check_tag(dir, owner, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	r = cg_walk(dir, is_unused, &dir, e);
	if (r > 0)
		return err_set(e, ERR_CONFLICT, "the group is in use and has no owner's tag");
	if (r == 0 && fsetxattr(dir, OWNER_ATTR, owner, strlen(owner), 0) < 0)
		return err_sys(e, errno, "write the owner's tag");
	return r;
}

/* Before Linux 5.11 a group of v1 counted its own processes only, unless told otherwise before it has groups. */
static int count_below(int dir, struct err *e)
{
	uint64_t on = 1;

	if (cg_read_number(dir, "memory.use_hierarchy", &on, e) < 0)
		return -1;
	return on ? 0 : cg_write(dir, "memory.use_hierarchy", "1", e);
}

static int open_top_in(struct cgroup_layout *l, size_t i, const char *name, const char *owner, struct err *e)
{
	AUTO_FD base = -1, dir = -1;

	base = go_down(l, i, l->at[i].is_v2 ? l->v2_base : l->base, e);
	dir = base < 0 ? -1 : cg_make_dir(base, name, e);
	if (dir < 0 || (owner && claim(dir, owner, e) < 0))
		return -1;
	if ((l->at[i].controllers & CGROUP_BIT(CGROUP_MEMORY)) && !l->at[i].is_v2 && count_below(dir, e) < 0)
		return -1;
	return take_fd(&dir);
}

int cgroup_open_top(struct cgroup_layout *l, const char *name, const char *owner, struct cgroup *ret, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;

	if (check_name(name, e) < 0 || init_group(&g, l, "", name, e) < 0)
		return -1;
	if (owner && (!*owner || strlen(owner) > CGROUP_OWNER_MAX))
		return err_set(e, ERR_INVALID, "the owner's tag has 1 to %d bytes", CGROUP_OWNER_MAX);
	for (size_t i = 0; i < l->n; i++) {
		if (!l->at[i].is_used)
			continue;
		g.dirs[i] = open_top_in(l, i, name, owner, e);
		if (g.dirs[i] < 0)
			return err_wrap(e, "group '%s' in '%s'", name, l->at[i].place);
		if (l->at[i].is_v2)
			cg_layout_settle(l, g.dirs[i]);
	}
	*ret = g;
	g = CGROUP_INIT;
	return 0;
}

/* ---- groups below it ----------------------------------------------------------------------------------- */

static bool serves(const struct cgroup_layout *l, size_t i, unsigned controllers)
{
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if ((controllers & CGROUP_BIT(c)) && l->where[c] == (int)i)
			return true;
	return false;
}

/* Which directories of a group are wanted. */
struct wanted {
	bool make;
	unsigned controllers; /* 0: all hierarchies */
	bool only_v2;
};

static bool is_wanted(const struct cgroup_layout *l, size_t i, const struct wanted *w)
{
	if (!l->at[i].is_used || l->at[i].is_shared || (w->only_v2 && !l->at[i].is_v2))
		return false;
	return w->controllers == 0 || serves(l, i, w->controllers);
}

static int get_child(const struct cgroup *parent, const char *name, const struct wanted *w, struct cgroup *ret, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;
	const struct cgroup_layout *l = parent->layout;

	if (check_name(name, e) < 0 || init_group(&g, l, parent->path, name, e) < 0)
		return -1;
	for (size_t i = 0; i < l->n; i++) {
		if (!is_wanted(l, i, w))
			continue;
		if (w->make && l->at[i].is_v2 && cg_enable(parent->dirs[i], enabled_on_v2(l) & ~l->shared, parent->path, e) < 0)
			return -1;
		g.dirs[i] = w->make ? cg_make_dir(parent->dirs[i], name, e) : cg_open_dir(parent->dirs[i], name, e);
		if (g.dirs[i] < 0)
			return err_wrap(e, "group '%s' in '%s'", g.path, l->at[i].place);
	}
	*ret = g;
	g = CGROUP_INIT;
	return 0;
}

int cgroup_make(const struct cgroup *parent, const char *name, struct cgroup *ret, struct err *e)
{
	return get_child(parent, name, &(struct wanted){ .make = true }, ret, e);
}

int cgroup_make_for(const struct cgroup *parent, const char *name, unsigned controllers, struct cgroup *ret, struct err *e)
{
	return get_child(parent, name, &(struct wanted){ .make = true, .controllers = controllers }, ret, e);
}

int cgroup_make_leaf(const struct cgroup *parent, const char *name, unsigned controllers, struct cgroup *ret, struct err *e)
{
	return get_child(parent, name, &(struct wanted){ .make = true, .controllers = controllers, .only_v2 = true }, ret, e);
}

int cgroup_open(const struct cgroup *parent, const char *name, struct cgroup *ret, struct err *e)
{
	return get_child(parent, name, &(struct wanted){ .make = false }, ret, e);
}

int cgroup_open_for(const struct cgroup *parent, const char *name, unsigned controllers, struct cgroup *ret, struct err *e)
{
	return get_child(parent, name, &(struct wanted){ .controllers = controllers }, ret, e);
}

bool cgroup_has(const struct cgroup *g, enum cgroup_controller c)
{
	return cg_dir_for(g, c) >= 0;
}

/* ---- entering ------------------------------------------------------------------------------------------ */

/* A thread that moves itself (v1's `tasks`) needs no lock of all thread groups. Moving a process does, which waits for an RCU
 * grace period, 5 to 25 ms, and holds up every fork on the host meanwhile. v2 moves processes only. */
static int open_entry(const struct cgroup *g, size_t i, struct err *e)
{
	int fd = openat(g->dirs[i], g->layout->at[i].is_v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? err_sys(e, errno, "open the entry of group '%s'", g->path) : fd;
}

static int open_entries(const struct cgroup *g, const bool *skip, struct cgroup_entry *ret, struct err *e)
{
	struct cgroup_entry entry = { 0 };

	for (size_t i = 0; i < g->layout->n; i++) {
		int fd;

		if (g->dirs[i] < 0 || skip[i])
			continue;
		fd = open_entry(g, i, e);
		if (fd < 0) {
			cgroup_entry_done(&entry);
			return -1;
		}
		entry.fds[entry.n++] = fd;
	}
	*ret = entry;
	return 0;
}

int cgroup_entry_open(const struct cgroup *g, struct cgroup_entry *ret, struct err *e)
{
	static const bool none[CGROUP_HIERARCHIES_MAX];

	return open_entries(g, none, ret, e);
}

int cgroup_entry_open_rest(const struct cgroup *g, const struct cgroup *leaf, struct cgroup_entry *ret, struct err *e)
{
	bool skip[CGROUP_HIERARCHIES_MAX];

	for (size_t i = 0; i < ARRAY_LEN(skip); i++)
		skip[i] = leaf->dirs[i] >= 0 || (i == 0 && cgroup_clone_dir(g) >= 0);
	return open_entries(g, skip, ret, e);
}

int cgroup_entry_open_back(const struct cgroup *g, const struct cgroup *leaf, const struct cgroup *from, struct cgroup_entry *ret,
			   struct err *e)
{
	struct cgroup to = *g; /* borrowed */

	for (size_t i = 0; i < ARRAY_LEN(to.dirs); i++)
		to.dirs[i] = leaf->dirs[i] >= 0 ? leaf->dirs[i] : from->dirs[i] >= 0 ? g->dirs[i] : -1;
	return cgroup_entry_open(&to, ret, e);
}

int cgroup_entry_open_shared(const struct cgroup *top, struct cgroup_entry *ret, struct err *e)
{
	bool skip[CGROUP_HIERARCHIES_MAX];

	for (size_t i = 0; i < ARRAY_LEN(skip); i++)
		skip[i] = !top->layout->at[i].is_shared;
	return open_entries(top, skip, ret, e);
}

void cgroup_entry_done(struct cgroup_entry *entry)
{
	for (size_t i = 0; i < entry->n; i++)
		closep(&entry->fds[i]);
	entry->n = 0;
}

int cgroup_enter(const int *fds, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		ssize_t r;

		do
			r = write(fds[i], "0", 1);
		while (r < 0 && errno == EINTR);
		if (r < 0)
			return err_sys(e, errno, "enter a control group");
	}
	return 0;
}

int cgroup_clone_dir(const struct cgroup *g)
{
	return g->layout->n > 0 && g->layout->at[0].is_v2 ? g->dirs[0] : -1;
}
