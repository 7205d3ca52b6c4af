// SPDX-License-Identifier: Apache-2.0
/* Begins in new mount, pid, ipc and uts namespaces with all privileges of the host's root and ends as execd without any:
 * the user namespace is joined last, so that all that was made before it stays out of the sandbox's reach. Nothing here
 * uses the heap, but the making of folders for volumes, and every descriptor but those of `struct park` is closed at once: an
 * inherited end of another slot's control socket would keep its child parked for ever. */
#include "box/park.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/guest.h"
#include "base/own.h"
#include "box/disk.h"
#include "box/etc.h"
#include "box/host.h"
#include "box/stage.h"
#include "box/volume.h"
#include "sys/caps.h"
#include "sys/fd.h"
#include "sys/keyring.h"
#include "sys/limits.h"
#include "sys/memfd.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/passing.h"

#include "base/banned.h"

/* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT SETFCAP (C1) */
#define BOX_CAPS 0x800405fbULL
#define CHILD_FDS_FROM 64 /* above the numbers that the guest expects */
#define KEPT_MAX (16 + PARK_FILES + CGROUP_GAUGES + 4 * CGROUP_HIERARCHIES_MAX)

_Static_assert(CGROUP_GAUGES == GUEST_STATS, "execd expects as many");

/* C5 */
static const struct limit rlimits[] = {
	{ RLIMIT_NOFILE, 65536, true },   { RLIMIT_CORE, 1, true },        { RLIMIT_MEMLOCK, 8 << 20, true },
	{ RLIMIT_MSGQUEUE, 819200, true }, { RLIMIT_SIGPENDING, 4096, true }, { RLIMIT_NICE, 0, true },
	{ RLIMIT_RTPRIO, 0, true },
};

/* The descriptors that the child goes on with, above all numbers that the guest expects. */
struct child {
	int control, userns, netns, listener, execd, oom;
	int spec, ready; /* of an eager one; -1 */
	int hosts;       /* where its name is to be added; -1 */
	int gauges[CGROUP_GAUGES], files[PARK_FILES];
	int dir, layers, stage; /* opened here, in the child's own mounts */
	int usr;                   /* -1: the host has none */
	int shared[CGROUP_HIERARCHIES_MAX], whole[CGROUP_HIERARCHIES_MAX], user[CGROUP_HIERARCHIES_MAX], init[CGROUP_HIERARCHIES_MAX];
	size_t n_shared, n_whole, n_user, n_init;
	int kept[KEPT_MAX]; /* all that were open before */
	size_t n_kept;
	const struct seccomp_program *filter;
	enum overlay_way way;
	uint64_t id_base;
	int root; /* that of the guess; -1: none */
	const struct slot_guess *guess;
};

/* ---- descriptors ---- */

static int keep(struct child *c, int *to, int fd, struct err *e)
{
	*to = fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FDS_FROM);
	if (*to < 0)
		return err_sys(e, errno, "keep a descriptor");
	c->kept[c->n_kept++] = *to;
	return 0;
}

static int keep_entry(struct child *c, int *to, size_t *n, const struct cgroup_entry *entry, struct err *e)
{
	for (*n = 0; *n < entry->n; ++*n)
		if (keep(c, &to[*n], entry->fds[*n], e) < 0)
			return -1;
	return 0;
}

static int keep_own(struct child *c, const struct park *p, struct err *e)
{
	const struct slot *s = p->slot;

	if (keep(c, &c->control, p->control, e) < 0 || keep(c, &c->userns, s->userns, e) < 0 ||
	    keep(c, &c->netns, s->netns, e) < 0 || keep(c, &c->listener, s->listener, e) < 0 ||
	    keep(c, &c->execd, p->host->execd, e) < 0 || keep(c, &c->oom, p->oom, e) < 0 ||
	    keep_entry(c, c->shared, &c->n_shared, &p->host->shared, e) < 0 || keep_entry(c, c->whole, &c->n_whole, &p->whole, e) < 0 ||
	    keep_entry(c, c->user, &c->n_user, &p->user, e) < 0 || keep_entry(c, c->init, &c->n_init, &p->init, e) < 0)
		return -1;
	if (p->guess->is_eager && (keep(c, &c->spec, p->spec, e) < 0 || keep(c, &c->ready, p->ready, e) < 0))
		return -1;
	for (int i = 0; i < CGROUP_GAUGES; i++)
		if (keep(c, &c->gauges[i], p->gauges.fds[i], e) < 0)
			return -1;
	for (int i = 0; i < PARK_FILES; i++)
		if (keep(c, &c->files[i], p->files[i], e) < 0)
			return -1;
	return close_others(c->kept, c->n_kept, e);
}

static int open_folder(const char *path, struct err *e)
{
	int low = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, CHILD_FDS_FROM);

	closep(&low);
	return fd < 0 ? err_sys(e, errno, "open '%s'", path) : fd;
}

static int open_folders(struct child *c, const struct park *p, struct err *e)
{
	char name[BOX_NAME_MAX], path[BOX_PATH_MAX + BOX_NAME_MAX];

	slot_name(p->slot->number, name);
	(void)snprintf(path, sizeof(path), "%s/%s", p->host->disks_path, name); /* as long as its parts */
	c->usr = open_folder("/usr", &(struct err){ 0 }); /* a host may be without */
	c->dir = open_folder(path, e);
	c->layers = c->dir < 0 ? -1 : open_folder(p->host->layers_path, e);
	c->stage = c->layers < 0 ? -1 : open_folder(p->host->stage_path, e);
	return c->stage < 0 ? -1 : 0;
}

/* ---- parked ---- */

/* At once: the one that it is killed with is among them. */
static int enter_groups(const struct child *c, struct err *e)
{
	return cgroup_enter(c->shared, c->n_shared, e) < 0 ? -1 : cgroup_enter(c->whole, c->n_whole, e);
}

/* The cgroup namespace is rooted where its maker is: programs then see their own limits at "/". */
static int enter_leaves(const struct child *c, struct err *e)
{
	if (cgroup_enter(c->user, c->n_user, e) < 0)
		return -1;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, errno, "make a cgroup namespace");
	return cgroup_enter(c->init, c->n_init, e);
}

/* Before there is a root. */
static int place_etc(const struct child *c, const struct stage_root *r, bool is_alone, struct err *e)
{
	const struct etc_place p = { .disk = c->dir, .layers = c->layers, .list = r->layers, .n = r->n_layers, .has_usr = r->has_usr,
				     .image = r->image, .id_base = c->id_base, .is_alone = is_alone };

	return etc_place(&p, e);
}

/* The root that the order will ask for if it is like the last one: half of the time of a create went into it. */
static int make_guessed(struct child *c, struct err *e)
{
	struct slot_layer layer = { 0 };
	const struct stage_root r = { .stage = c->stage, .way = c->way, .dir = c->dir, .work = "work", .store = c->layers, .id_base = c->id_base,
				      .layers = &layer, .n_layers = 1, .image = -1, .userns = c->userns,
				      .has_usr = c->guess->has_host_usr };

	if (!c->guess->layer[0])
		return 0;
	memcpy(layer.name, c->guess->layer, sizeof(layer.name));
	if (c->guess->has_address && place_etc(c, &r, false, e) < 0)
		return -1;
	c->root = stage_make_root(&r, e);
	return c->root < 0 ? -1 : 0;
}

/* Nothing of this needs to be undone when the box becomes another than was guessed. */
static int begin_session(struct err *e)
{
	if (limits_apply(rlimits, ARRAY_LEN(rlimits), e) < 0)
		return -1;
	return setsid() < 0 ? err_sys(e, errno, "begin a session") : 0;
}

static int become_parked(struct child *c, const struct park *p, struct err *e)
{
	struct stage_spec spec;

	c->filter = &p->host->filter;
	c->way = p->host->overlay_way;
	c->id_base = p->slot->id_base;
	c->guess = p->guess;
	c->root = c->spec = c->ready = c->hosts = -1;
	if (keep_own(c, p, e) < 0 || enter_groups(c, e) < 0 || namespace_enter(c->netns, NAMESPACE_NET, e) < 0 ||
	    mount_private_all(e) < 0 || open_folders(c, p, e) < 0)
		return -1;
	spec = (struct stage_spec){ .stage = c->stage, .layers = c->layers, .usr = c->usr, .userns = c->userns, .id_base = c->id_base };
	/* After the mounts, where that is possible (v1): for each file system that is used from inside a memory group the kernel
	 * keeps lists of that group's own, and most of these the sandbox never looks at. */
	if (stage_make(&spec, e) < 0 || make_guessed(c, e) < 0 || enter_leaves(c, e) < 0)
		return -1;
	return begin_session(e);
}

/* False when the parent has gone: there is nothing to become. */
static bool wait_for_order(const struct child *c, struct park_order *order, struct passed *got, struct err *e)
{
	struct pollfd p = { .fd = c->control, .events = POLLIN };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	return passing_recv(c->control, order, sizeof(*order), PARK_FDS + SLOT_VOLUMES_MAX, got, e) == PASSING_MESSAGE;
}

/* ---- woken ---- */

static int check_order(const struct park_order *order, const struct passed *got, struct err *e)
{
	if (got->n < PARK_ORDER_SIZE(0, 0) || order->n_volumes > SLOT_VOLUMES_MAX || order->n_layers > SLOT_LAYERS_MAX ||
	    order->size != got->n || order->size != PARK_ORDER_SIZE(order->n_layers, order->n_volumes) ||
	    got->n_fds != PARK_FDS + order->n_volumes || !memchr(order->dir, '\0', sizeof(order->dir)))
		return err_set(e, ERR_INTERNAL, "an order that is not one");
	return 0;
}

/* In the mounts of this child, which are those of the host when it was parked: what was mounted since is not here. The
 * words may reach a client and name no path. */
static int open_image(const struct park_order *order, struct err *e)
{
	AUTO_FD fd = open(order->dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INVALID, "the image cannot be used: open it: %s", strerror(errno));
	if (st.st_dev != order->dir_dev || st.st_ino != order->dir_ino)
		return err_set(e, ERR_UNAVAILABLE, "the directory of the image was replaced or mounted a moment ago");
	return take_fd(&fd);
}

static bool is_as_guessed(const struct child *c, const struct park_order *order)
{
	const struct slot_layer *layer = &order->list.layers[0];

	return order->n_layers == 1 && !order->dir[0] && !layer->is_disk && layer->id_base == 0 &&
	       order->has_host_usr == c->guess->has_host_usr && (order->address != 0) == c->guess->has_address &&
	       strncmp(layer->name, c->guess->layer, sizeof(c->guess->layer)) == 0;
}

/* The work folder of an overlay is marked as used, and no other takes such a one. */
static const char *make_room(struct child *c, bool has_usr, struct err *e)
{
	bool had_root = c->root >= 0, had_usr = c->guess->has_host_usr;

	if (had_root && (stage_take_back(c->stage, take_fd(&c->root), e) < 0 ||
			 (c->guess->has_address && etc_take_back(c->dir, had_usr, e) < 0)))
		return NULL;
	if (has_usr != had_usr && disk_turn(c->dir, c->id_base, has_usr, e) < 0)
		return NULL;
	if (!had_root)
		return "work";
	if (mkdirat(c->dir, "work-2", 0700) == 0)
		return "work-2";
	(void)err_sys(e, errno, "make a work folder");
	return NULL;
}

/* On a snapshot, that is: the files for names of its source would show through. */
static bool stands_on_box(const struct park_order *order)
{
	for (size_t i = 0; i < order->n_layers; i++)
		if (order->list.layers[i].is_disk)
			return true;
	return false;
}

static int make_root(struct child *c, const struct park_order *order, struct err *e)
{
	AUTO_FD image = -1;
	struct stage_root r = { .stage = c->stage, .way = c->way, .dir = c->dir, .store = c->layers, .id_base = c->id_base,
				.layers = order->list.layers, .n_layers = order->n_layers, .image = -1, .userns = c->userns,
				.has_usr = order->has_host_usr };

	if (c->root >= 0 && is_as_guessed(c, order))
		return take_fd(&c->root);
	r.work = make_room(c, r.has_usr, e);
	if (!r.work)
		return -1;
	if (order->dir[0]) {
		r.image = image = open_image(order, e);
		if (image < 0)
			return -1;
	}
	if ((order->address || stands_on_box(order)) && place_etc(c, &r, order->address == 0, e) < 0)
		return -1;
	return stage_make_root(&r, e);
}

/* What is opened or comes now gets the lowest numbers, which are the guest's: out of the way. */
static int raise_fd(int *fd, struct err *e)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, CHILD_FDS_FROM);

	if (high < 0)
		return err_sys(e, errno, "keep a descriptor");
	(void)close(*fd);
	*fd = high;
	return 0;
}

static int raise_received(struct passed *got, struct err *e)
{
	for (size_t i = 0; i < got->n_fds; i++)
		if (raise_fd(&got->fds[i], e) < 0)
			return -1;
	return 0;
}

static int place_volumes(const struct child *c, int root, const struct park_order *order, const struct passed *got,
			 struct err *e)
{
	for (size_t i = 0; i < order->n_volumes; i++)
		if (volume_place(root, c->stage, got->fds[PARK_FDS + i], order->list.bytes + PARK_VOLUME_AT(order->n_layers, i), c->id_base,
				 e) < 0)
			return -1;
	return 0;
}

/* Without volumes, and without a name. */
static int enter_guessed(struct child *c, struct err *e)
{
	AUTO_FD root = take_fd(&c->root);

	if (c->guess->has_address) {
		c->hosts = etc_open_hosts(root, e);
		if (c->hosts < 0 || raise_fd(&c->hosts, e) < 0)
			return -1;
	}
	return mount_pivot(root, e);
}

static int enter_root(struct child *c, const struct park_order *order, const struct passed *got, struct err *e)
{
	AUTO_FD root = make_root(c, order, e);

	if (root < 0 || (order->address && etc_add_name(root, order->address, order->hostname, e) < 0) ||
	    place_volumes(c, root, order, got, e) < 0 || mount_pivot(root, e) < 0)
		return -1;
	if (sethostname(order->hostname, strnlen(order->hostname, sizeof(order->hostname))) < 0)
		return err_sys(e, errno, "set the host name");
	return 0;
}

static int give(int fd, int number, struct err *e)
{
	return dup2(fd, number) < 0 ? err_sys(e, errno, "hand over a descriptor") : 0;
}

/* To the numbers that the guest knows; everything else goes with the exec. */
static int give_descriptors(const struct child *c, struct err *e)
{
	int next = GUEST_FD_CGROUPS;
	AUTO_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_sys(e, errno, "open '/dev/null'");
	for (int i = 0; i < 3; i++)
		if (give(null, i, e) < 0)
			return -1;
	(void)close(take_fd(&null)); /* its number is one of the guest's */
	if (give(c->spec, GUEST_FD_SPEC, e) < 0 || give(c->listener, GUEST_FD_LISTEN, e) < 0 ||
	    give(c->ready, GUEST_FD_READY, e) < 0 || give(c->files[PARK_FILE_STATE], GUEST_FD_STATE, e) < 0 ||
	    give(c->files[PARK_FILE_LOG0], GUEST_FD_LOG_0, e) < 0 || give(c->files[PARK_FILE_LOG1], GUEST_FD_LOG_1, e) < 0)
		return -1;
	for (size_t i = 0; i < c->n_user; i++)
		if (give(c->user[i], next++, e) < 0)
			return -1;
	if (give(c->oom, next++, e) < 0)
		return -1;
	for (int i = 0; i < CGROUP_GAUGES; i++)
		if (give(c->gauges[i], next++, e) < 0)
			return -1;
	return c->hosts >= 0 ? give(c->hosts, next, e) : 0;
}

static int become_root_of_the_box(const struct child *c, struct err *e)
{
	if (namespace_enter(c->userns, NAMESPACE_USER, e) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, errno, "become the root of the box");
	return 0;
}

static int drop_everything(const struct child *c, struct err *e)
{
	if (become_root_of_the_box(c, e) < 0 || keyring_join_fresh(e) < 0 || caps_limit(BOX_CAPS, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	return seccomp_load(c->filter, e);
}

/* In its root. ADDRESS: what its name is to stand for, where that is execd's to note. */
static int become_execd(const struct child *c, uint32_t address, struct err *e)
{
	char cgroups[24], hosts[16 + INET_ADDRSTRLEN] = "--hosts=";
	const char *const argv[] = { "execd", "--guest", cgroups, "--oom-counter", "--stats", c->hosts >= 0 ? hosts : NULL, NULL };
	static const char *const envp[] = { NULL };

	(void)snprintf(cgroups, sizeof(cgroups), "--cgroups=%zu", c->n_user);
	(void)inet_ntop(AF_INET, &address, hosts + strlen(hosts), INET_ADDRSTRLEN);
	if (give_descriptors(c, e) < 0 || drop_everything(c, e) < 0)
		return -1;
	return memfd_exec(c->execd, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp, e);
}

static int become_ordered(struct child *c, const struct park_order *order, struct passed *got, struct err *e)
{
	if (check_order(order, got, e) < 0 || raise_received(got, e) < 0 || enter_root(c, order, got, e) < 0)
		return -1;
	c->spec = got->fds[PARK_FD_SPEC];
	c->ready = got->fds[PARK_FD_READY];
	return become_execd(c, 0, e);
}

static int become_eager(struct child *c, const struct park *p, struct err *e)
{
	return enter_guessed(c, e) < 0 ? -1 : become_execd(c, box_network_address(&p->host->network, p->slot->number), e);
}

_Noreturn void park_run(const struct park *p)
{
	struct child c = { 0 };
	struct passed got = PASSED_INIT;
	struct park_order order;
	struct err e = { 0 };

	if (become_parked(&c, p, &e) == 0) {
		if (p->guess->is_eager)
			(void)become_eager(&c, p, &e);
		else if (!wait_for_order(&c, &order, &got, &e))
			_exit(0);
		else
			(void)become_ordered(&c, &order, &got, &e);
	}
	(void)passing_send(c.control > 0 ? c.control : p->control, &e, sizeof(e), NULL, 0, &(struct err){ 0 });
	_exit(1);
}
