// SPDX-License-Identifier: Apache-2.0
#include "box/slot.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "box/disk.h"
#include "box/etc.h"
#include "box/host.h"
#include "box/park.h"
#include "sys/cgroup_control.h"
#include "sys/cgroup_limits.h"
#include "sys/cgroup_stats.h"
#include "sys/fd.h"
#include "sys/link.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "sys/passing.h"
#include "sys/process.h"
#include "sys/signals.h"
#include "sys/tree.h"
#include "sys/userns.h"

#include "base/banned.h"

#define ASIDE_MEMORY (64ULL << 20) /* L2: for execd, beside what the sandbox may use */
#define ASIDE_PIDS 32
#define SOCKETS_MEMORY (16ULL << 20) /* where it is not counted as memory: with execd's own 48 MiB, what is set aside */
#define SPLIT (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_PIDS)) /* what execd and the sandbox have apart */
#define BACKLOG 1024 /* above the connections that execd serves at once: those that are too many hear so from it */
#define KILL_MS 5000
#define FREEZE_MS 15000 /* every process has to have its turn, on a host that may be busy */

void slot_name(unsigned number, char out[16])
{
	(void)snprintf(out, 16, "b%u", number);
}

/* ---- making ---- */

static bool is_same_for_groups(const struct slot_limits *a, const struct slot_limits *b)
{
	return a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli && a->pids == b->pids;
}

static int limit_groups(struct slot *s, const struct slot_limits *l, struct err *e)
{
	struct cgroup_limits user = { .memory_bytes = l->memory_bytes, .pids = l->pids, .socket_bytes = SOCKETS_MEMORY,
				      .no_swap = true };
	struct cgroup_limits init = { .memory_bytes = cgroup_has(&s->init, CGROUP_MEMORY) ? ASIDE_MEMORY : 0,
				      .pids = cgroup_has(&s->init, CGROUP_PIDS) ? ASIDE_PIDS : 0,
				      .no_swap = cgroup_has(&s->init, CGROUP_MEMORY) };
	struct cgroup_limits both = { .memory_bytes = l->memory_bytes + ASIDE_MEMORY, .pids = l->pids + ASIDE_PIDS,
				      .cpu_milli = l->cpu_milli, .no_swap = true };
	unsigned lacking = 0, more = 0;

	if (is_same_for_groups(&s->limits, l))
		return 0;
	if (cgroup_limit(&s->group, &both, &lacking, e) < 0 || cgroup_limit(&s->user, &user, &more, e) < 0)
		return -1;
	lacking |= more;
	if (cgroup_limit(&s->init, &init, &more, e) < 0)
		return -1;
	lacking |= more;
	lacking &= ~(unsigned)CGROUP_LIMIT_SWAP; /* without swap accounting there is nothing to account */
	if (lacking)
		return err_set(e, ERR_UNAVAILABLE, "this host cannot enforce the limit '%s'",
			       cgroup_limit_name(lacking & -lacking));
	s->limits.memory_bytes = l->memory_bytes;
	s->limits.cpu_milli = l->cpu_milli;
	s->limits.pids = l->pids;
	return 0;
}

static int limit_disk(const struct box_host *h, struct slot *s, uint64_t bytes, struct err *e)
{
	char name[16];

	if (bytes == 0 || bytes == s->limits.disk_bytes)
		return 0;
	slot_name(s->number, name);
	if (box_disk_limit(&h->store, name, bytes, e) < 0)
		return -1;
	s->limits.disk_bytes = bytes;
	return 0;
}

static int make_groups(const struct box_host *h, struct slot *s, const struct slot_limits *limits, struct err *e)
{
	char name[16];

	slot_name(s->number, name);
	if (cgroup_make(&h->top, name, &s->group, e) < 0 || (!h->has_devices && box_host_limit_devices(&s->group, e) < 0))
		return -1;
	KILL_POINT("warden.slot.group");
	if (cgroup_make_leaf(&s->group, "init", SPLIT, &s->init, e) < 0 || cgroup_make_for(&s->group, "user", SPLIT, &s->user, e) < 0)
		return -1;
	return limit_groups(s, limits, e);
}

/* What is written about the box. */
struct files {
	int fds[PARK_FILES]; /* for execd */
};

static void files_done(struct files *f)
{
	for (size_t i = 0; i < ARRAY_LEN(f->fds); i++)
		closep(&f->fds[i]);
}
DEFINE_AUTO_DONE(struct files, files_done)

static int make_file(int dir, const char *name, struct err *e)
{
	int fd = openat(dir, name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, errno, "make '%s'", name) : fd;
}

static int make_files(int dir, struct files *f, struct err *e)
{
	static const char *const names[] = { [PARK_FILE_STATE] = "state", [PARK_FILE_LOG0] = "log.0", [PARK_FILE_LOG1] = "log.1" };
	AUTO_FD own = make_file(dir, "box", e); /* the warden's, who has not much to do but write it then */

	for (size_t i = 0; own >= 0 && i < ARRAY_LEN(names); i++) {
		f->fds[i] = make_file(dir, names[i], e);
		if (f->fds[i] < 0)
			return -1;
	}
	return own < 0 ? -1 : 0;
}

static int make_disk(const struct box_host *h, struct slot *s, const char *name, const struct slot_guess *guess, struct err *e)
{
	AUTO_FD disk = box_disk_make(&h->store, name, guess->limits.disk_bytes, e);

	if (disk < 0)
		return -1;
	KILL_POINT("warden.slot.disk");
	s->limits.disk_bytes = guess->limits.disk_bytes;
	if (disk_fill(disk, s->id_base, guess->has_host_usr, e) < 0)
		return -1;
	return h->network.is_on ? etc_make(disk, s->id_base, h->network.gateway, e) : 0;
}

/* The folder before the disk, and removed after it: as long as there is a disk, the folder tells of it. */
static int make_folder(const struct box_host *h, struct slot *s, const struct slot_guess *guess, struct files *f, struct err *e)
{
	char name[16];

	slot_name(s->number, name);
	if (mkdirat(h->boxes, name, 0700) < 0)
		return err_sys(e, errno, "make the folder of box %u", s->number);
	s->dir = openat(h->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir < 0)
		return err_sys(e, errno, "open the folder of box %u", s->number);
	KILL_POINT("warden.slot.folder");
	return make_files(s->dir, f, e) < 0 ? -1 : make_disk(h, s, name, guess, e);
}

static int set_lo_up(struct netlink *inside, struct err *e)
{
	int index = link_index(inside, "lo", e);

	return index < 0 ? -1 : link_set_up(inside, index, true, e);
}

static int make_network(const struct box_host *h, struct slot *s, int proc, struct err *e)
{
	AUTO(netlink_done) struct netlink inside = NETLINK_INIT;
	char groups[48];
	const struct netns_setting settings[] = {
		{ "ipv4/ip_unprivileged_port_start", "0" },
		{ "ipv4/ping_group_range", groups },
	};

	(void)snprintf(groups, sizeof(groups), "%llu %llu", (unsigned long long)s->id_base,
		       (unsigned long long)s->id_base + USERNS_IDS - 1);
	s->netns = netns_make(e);
	if (s->netns < 0 || netlink_open(&inside, NETLINK_ROUTE, s->netns, e) < 0 || set_lo_up(&inside, e) < 0 ||
	    netns_set(s->netns, proc, settings, ARRAY_LEN(settings), e) < 0)
		return -1;
	if (!h->network.is_on)
		return 0;
	return box_network_attach(&h->network, s->number, &(struct box_inside){ s->netns, proc, &inside }, e);
}

/* Bound in the folder of the box by a socket that was born in its network: what is accepted from it belongs there. */
static int make_listener(struct slot *s, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	KILL_POINT("warden.slot.network");
	s->listener = netns_socket(s->netns, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, e);
	if (s->listener < 0)
		return -1;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/execd.sock", s->dir);
	if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s->listener, BACKLOG) < 0)
		return err_sys(e, errno, "listen for box %u", s->number);
	return 0;
}

/* Execd's ends of two pipes: through one it gets its spec, by the other it says that it is ready. */
struct eager {
	int spec, ready;
};

static void eager_done(struct eager *p)
{
	closep(&p->spec);
	closep(&p->ready);
}
DEFINE_AUTO_DONE(struct eager, eager_done)

static int make_pipes(struct slot *s, struct eager *theirs, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	theirs->spec = ends[0];
	s->spec = ends[1];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	s->ready = ends[0];
	theirs->ready = ends[1];
	return fd_set_nonblock(s->spec, true, e) < 0 || fd_set_nonblock(s->ready, true, e) < 0 ? -1 : 0;
}

static int make_child(const struct box_host *h, struct slot *s, const struct slot_guess *guess, const struct files *f, struct err *e)
{
	AUTO(cgroup_entry_done) struct cgroup_entry whole = { 0 }, user = { 0 }, init = { 0 };
	AUTO(cgroup_gauges_done) struct cgroup_gauges gauges = CGROUP_GAUGES_INIT;
	AUTO(eager_done) struct eager theirs = { -1, -1 };
	AUTO_FD oom = cgroup_oom_open(&s->user, e);
	const uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	int home = cgroup_clone_dir(&s->user), pair[2];

	if (home < 0)
		home = cgroup_clone_dir(&s->group);
	if (guess->is_eager && make_pipes(s, &theirs, e) < 0)
		return -1;
	if (oom < 0 || cgroup_entry_open_rest(&s->group, &s->user, &whole, e) < 0 || cgroup_entry_open(&s->user, &user, e) < 0 ||
	    cgroup_entry_open_back(&s->group, &s->init, &s->user, &init, e) < 0 || cgroup_gauges_open(&s->user, &s->group, &gauges, e) < 0 ||
	    passing_pair(pair, e) < 0)
		return -1;
	s->pid = namespace_clone(flags | (h->for_parent ? CLONE_PARENT : 0), home, &s->pidfd, e);
	if (s->pid == 0) {
		struct park p = { .host = h, .slot = s, .whole = whole, .user = user, .init = init, .oom = oom, .gauges = gauges,
				  .files = f->fds, .guess = guess, .control = pair[1], .spec = theirs.spec, .ready = theirs.ready };

		signals_forget(); /* what the maker ignores or blocks is not the sandbox's (C4) */
		park_run(&p);
	}
	(void)close(pair[1]);
	s->control = pair[0];
	KILL_POINT("warden.slot.child");
	return s->pid < 0 ? -1 : 0;
}

int slot_make(const struct box_host *h, unsigned number, const struct slot_guess *guess, struct slot *ret, struct err *e)
{
	struct slot_guess g = guess ? *guess : SLOT_GUESS_DEFAULT;
	AUTO(files_done) struct files f = { .fds = { -1, -1, -1 } };
	struct slot s = SLOT_INIT;
	AUTO_FD proc = -1; /* for its settings alone: see netns_set() */

	s.number = number;
	s.id_base = SLOT_ID_BASE + (uint64_t)number * USERNS_IDS;
	g.is_eager = g.is_eager && g.layer[0];
	s.made_for = g;
	if (number >= SLOT_NUMBER_MAX)
		return err_set(e, ERR_LIMIT, "there is no box %u", number);
	proc = mount_make(&(struct mount_spec){ "proc", "proc", NULL, 0, MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC }, e);
	s.userns = proc < 0 ? -1 : userns_make(proc, s.id_base, e);
	if (s.userns < 0 || make_folder(h, &s, &g, &f, e) < 0 || make_groups(h, &s, &g.limits, e) < 0 ||
	    make_network(h, &s, proc, e) < 0 || make_listener(&s, e) < 0 || make_child(h, &s, &g, &f, e) < 0) {
		(void)slot_destroy(h, &s, &(struct err){ 0 }); /* the first failure is the one to tell */
		return err_wrap(e, "make a slot");
	}
	*ret = s;
	return 0;
}

/* ---- passing on ---- */

size_t slot_fds(struct slot *s, int *ret[SLOT_FDS_MAX])
{
	struct cgroup *const groups[] = { &s->group, &s->init, &s->user };
	int *const own[] = { &s->userns, &s->netns, &s->dir, &s->listener, &s->pidfd, &s->control, &s->spec, &s->ready };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		ret[n++] = own[i];
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		for (size_t k = 0; k < CGROUP_HIERARCHIES_MAX; k++)
			ret[n++] = &groups[i]->dirs[k];
	return n;
}

void slot_set_layout(struct slot *s, const struct cgroup_layout *l)
{
	s->group.layout = s->init.layout = s->user.layout = l;
}

bool slot_is_alike(const struct slot_guess *a, const struct slot_guess *b)
{
	return a->has_host_usr == b->has_host_usr && a->has_address == b->has_address && strcmp(a->layer, b->layer) == 0;
}

bool slot_fits(const struct slot *s, const struct slot_guess *like)
{
	return !s->made_for.is_eager || (like->is_eager && slot_is_alike(like, &s->made_for));
}

/* ---- waking ---- */

/* Why the child ended: its own words, or none, which means that execd was reached. */
int slot_failure(const struct slot *s, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct err told, scratch;

	if (passing_recv(s->control, &told, sizeof(told), 0, &got, &scratch) != PASSING_MESSAGE || got.n != sizeof(told))
		return err_set(e, ERR_INTERNAL, "execd ended before it was ready");
	told.msg[sizeof(told.msg) - 1] = '\0';
	*e = told;
	return -1;
}

static int add_volumes(const struct slot_order *order, struct park_order *o, int *fds, struct err *e)
{
	if (order->n_volumes > SLOT_VOLUMES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d volumes", SLOT_VOLUMES_MAX);
	for (size_t i = 0; i < order->n_volumes; i++) {
		(void)snprintf(o->list.bytes + PARK_VOLUME_AT(order->n_layers, i), SLOT_MOUNT_PATH_MAX + 1, "%s", order->volumes[i].path);
		fds[PARK_FDS + i] = order->volumes[i].mount;
	}
	o->n_volumes = (uint32_t)order->n_volumes;
	o->size = (uint32_t)PARK_ORDER_SIZE(order->n_layers, order->n_volumes);
	return 0;
}

static int send_order(const struct slot *s, const struct slot_order *order, int ready, struct err *e)
{
	struct park_order o = { .n_layers = (uint32_t)order->n_layers, .has_host_usr = order->has_host_usr };
	int fds[PARK_FDS + SLOT_VOLUMES_MAX] = { [PARK_FD_SPEC] = order->spec, [PARK_FD_READY] = ready };

	if (order->n_layers > SLOT_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d layers", SLOT_LAYERS_MAX);
	if (order->dir.path) {
		if (snprintf(o.dir, sizeof(o.dir), "%s", order->dir.path) >= (int)sizeof(o.dir))
			return err_set(e, ERR_LIMIT, "the path of a directory is too long");
		o.dir_dev = order->dir.dev;
		o.dir_ino = order->dir.ino;
	}
	(void)snprintf(o.hostname, sizeof(o.hostname), "%s", order->hostname);
	o.address = order->address;
	for (size_t i = 0; i < order->n_layers; i++)
		o.list.layers[i] = order->layers[i];
	if (add_volumes(order, &o, fds, e) < 0)
		return -1;
	return passing_send(s->control, &o, o.size, fds, PARK_FDS + o.n_volumes, e) == 1 ? 0 : slot_failure(s, e);
}

static bool is_made_for(const struct slot *s, const struct slot_order *order)
{
	struct slot_guess like = { .has_host_usr = order->has_host_usr, .has_address = order->address != 0, .is_eager = true };

	if (order->n_layers != 1 || order->layers[0].is_disk || order->dir.path || order->n_volumes > 0)
		return false;
	memcpy(like.layer, order->layers[0].name, sizeof(like.layer));
	return slot_fits(s, &like);
}

/* All that its execd still has to know. */
static int send_spec(struct slot *s, const struct slot_order *order, struct err *e)
{
	AUTO_FD to = take_fd(&s->spec);
	struct stat st;
	uint32_t size;
	off_t at = 0;

	if (fstat(order->spec, &st) < 0)
		return err_sys(e, errno, "look at the spec");
	size = (uint32_t)st.st_size;
	if (st.st_size > SLOT_EAGER_SPEC_MAX || !is_made_for(s, order))
		return err_set(e, ERR_INTERNAL, "an order that the slot was not made for");
	if (namespace_set_hostname(s->pidfd, order->hostname, e) < 0)
		return e->sys == ESRCH ? slot_failure(s, e) : -1;
	if (write(to, &size, sizeof(size)) != (ssize_t)sizeof(size) || sendfile(to, order->spec, &at, size) != (ssize_t)size)
		return slot_failure(s, e);
	return 0;
}

int slot_wake_start(const struct box_host *h, struct slot *s, const struct slot_order *order, struct err *e)
{
	AUTO_FD ours = -1, theirs = -1;
	int ends[2];

	if (h->network.is_on && !order->address && box_network_turn_off(s->netns, e) < 0)
		return -1;
	if (limit_groups(s, &order->limits, e) < 0 || limit_disk(h, s, order->limits.disk_bytes, e) < 0)
		return -1;
	if (s->made_for.is_eager)
		return send_spec(s, order, e) < 0 ? -1 : take_fd(&s->ready);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	ours = ends[0];
	theirs = ends[1]; /* closed here: without a byte, the end of the pipe is execd's */
	return send_order(s, order, theirs, e) < 0 ? -1 : take_fd(&ours);
}

int slot_wake_finish(const struct slot *s, int ready, struct err *e)
{
	char byte;
	ssize_t n;

	do
		n = read(ready, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	return n == 1 ? 1 : slot_failure(s, e);
}

int slot_wake(const struct box_host *h, struct slot *s, const struct slot_order *order, int timeout_ms, struct err *e)
{
	uint64_t until = clock_mono_ms() + (uint64_t)timeout_ms;
	AUTO_FD ready = slot_wake_start(h, s, order, e);
	struct pollfd p = { .fd = ready, .events = POLLIN };
	int n;

	if (ready < 0)
		return -1;
	do {
		uint64_t now = clock_mono_ms();

		n = poll(&p, 1, now < until ? (int)(until - now) : 0);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "execd is not ready after %d ms", timeout_ms);
	return slot_wake_finish(s, ready, e) < 0 ? -1 : 0;
}

/* ---- the rest of its life ---- */

static void close_fd(int *fd)
{
	closep(fd);
	*fd = -1;
}

void slot_settle(struct slot *s)
{
	close_fd(&s->userns);
	close_fd(&s->listener);
	close_fd(&s->control);
	close_fd(&s->spec);
	close_fd(&s->ready);
	cgroup_done(&s->group);
	cgroup_done(&s->init);
	cgroup_done(&s->user);
	s->group = s->init = s->user = CGROUP_INIT;
}

int slot_open(const struct box_host *h, unsigned number, int pidfd, struct slot *ret, struct err *e)
{
	AUTO(slot_done) struct slot s = SLOT_INIT;
	char name[16];

	s.number = number;
	s.id_base = SLOT_ID_BASE + (uint64_t)number * USERNS_IDS;
	slot_name(number, name);
	s.dir = openat(h->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s.dir < 0)
		return err_sys(e, errno, "open the folder of box %u", number);
	if (pidfd >= 0) {
		s.netns = namespace_of_process(pidfd, NAMESPACE_NET, e);
		if (s.netns < 0)
			return err_wrap(e, "take up box %u", number);
	}
	s.pidfd = pidfd;
	*ret = s;
	s = SLOT_INIT;
	return 0;
}

static int open_group(const struct box_host *h, const struct slot *s, struct cgroup *ret, struct err *e)
{
	char name[16];

	slot_name(s->number, name);
	return cgroup_open(&h->top, name, ret, e);
}

int slot_freeze(const struct box_host *h, const struct slot *s, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;

	return open_group(h, s, &g, e) < 0 ? -1 : cgroup_freeze(&g, FREEZE_MS, e);
}

int slot_thaw(const struct box_host *h, const struct slot *s, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;

	return open_group(h, s, &g, e) < 0 ? -1 : cgroup_thaw(&g, FREEZE_MS, e);
}

/* A freeze that was cut short counts: thawing undoes it. */
int slot_is_frozen(const struct box_host *h, const struct slot *s, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;
	AUTO_FD fd = -1;
	char text[16];
	int at = h->layout.where[CGROUP_FREEZER];
	bool is_v2 = at >= 0 && h->layout.at[at].is_v2;
	ssize_t n;

	if (at < 0 || open_group(h, s, &g, e) < 0)
		return at < 0 ? 0 : -1;
	fd = openat(g.dirs[at], is_v2 ? "cgroup.freeze" : "freezer.state", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n <= 0)
		return err_sys(e, errno, "read whether box %u is frozen", s->number);
	return is_v2 ? text[0] == '1' : text[0] == 'F';
}

/* Of what is left of it: a group that is missing in one hierarchy is made there again, to be killed and removed whole. */
int slot_kill(const struct box_host *h, const struct slot *s, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;
	char name[16];

	slot_name(s->number, name);
	if (s->pidfd >= 0)
		(void)process_signal(s->pidfd, SIGKILL, &(struct err){ 0 }); /* it may be gone, or not in its groups yet */
	/* A process is in the group that kills before it is in the others. */
	if (h->layout.where[CGROUP_FREEZER] >= 0 &&
	    cgroup_open_for(&h->top, name, CGROUP_BIT(CGROUP_FREEZER), &g, &(struct err){ 0 }) == 0)
		return cgroup_kill(&g, KILL_MS, e);
	return cgroup_make(&h->top, name, &g, e) < 0 ? -1 : cgroup_kill(&g, KILL_MS, e);
}

static int end_processes(const struct box_host *h, struct slot *s, struct err *e)
{
	struct process_end end;
	char name[16];

	slot_name(s->number, name);
	if (slot_kill(h, s, e) < 0)
		return -1;
	KILL_POINT("warden.destroy.killed");
	if (s->pidfd >= 0 && process_wait(s->pidfd, KILL_MS, &end, e) < 0 && e->sys != ECHILD)
		return -1;
	KILL_POINT("warden.destroy.waited");
	return cgroup_remove(&h->top, name, KILL_MS, e);
}

/* A link goes with its network. Of what is known by its number alone, nobody knows who holds that. */
static int detach(const struct box_host *h, const struct slot *s, struct err *e)
{
	return h->network.is_on && s->dir < 0 ? box_network_detach(&h->network, s->number, e) : 0;
}

int slot_destroy(const struct box_host *h, struct slot *s, struct err *e)
{
	char name[16];

	slot_name(s->number, name);
	close_fd(&s->control);
	close_fd(&s->spec);
	if (end_processes(h, s, e) < 0 || detach(h, s, e) < 0 ||
	    box_disk_remove(&h->store, name, e) < 0 || tree_remove(h->boxes, name, e) < 0)
		return err_wrap(e, "destroy box %u", s->number);
	slot_done(s);
	return 0;
}

void slot_done(struct slot *s)
{
	closep(&s->userns);
	closep(&s->netns);
	cgroup_done(&s->group);
	cgroup_done(&s->init);
	cgroup_done(&s->user);
	closep(&s->dir);
	closep(&s->listener);
	closep(&s->pidfd);
	closep(&s->control);
	closep(&s->spec);
	closep(&s->ready);
	*s = SLOT_INIT;
}
