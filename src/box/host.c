// SPDX-License-Identifier: Apache-2.0
#include "box/host.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/buf.h"
#include "base/err.h"
#include "box/groups.h"
#include "box/stage.h"
#include "sys/cgroup_devices.h"
#include "sys/cgroup_limits.h"
#include "sys/fd.h"
#include "sys/memfd.h"
#include "sys/mounts.h"

#include "base/banned.h"

_Static_assert(STORE_PATH_MAX <= BOX_PATH_MAX, "the paths of the store fit");
#define RESERVE_MIN (256ULL << 20)
#define RESERVE_SHARE 16 /* a sixteenth of the memory, if that is more */

static int make_folder(const char *state_dir, const char *name, char path[BOX_PATH_MAX], struct err *e)
{
	if (snprintf(path, BOX_PATH_MAX, "%s/%s", state_dir, name) >= BOX_PATH_MAX)
		return err_set(e, ERR_INVALID, "state directory '%s': path too long", state_dir);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", path);
	return 0;
}

/* ext4 does not give an inode away again for minutes after it was deleted, and looks at each of those before it finds another
 * one: half a millisecond for every file of a box where many boxes come and go. With this each box starts in a part of
 * the disk of its own. Other file systems have no such flag, nor that trouble. */
static void spread(int dir)
{
	int flags = 0;

	if (ioctl(dir, FS_IOC_GETFLAGS, &flags) < 0 || (flags & FS_TOPDIR_FL))
		return;
	flags |= FS_TOPDIR_FL;
	(void)ioctl(dir, FS_IOC_SETFLAGS, &flags);
}

static int make_folders(struct box_host *h, const struct box_host_spec *spec, struct err *e)
{
	const struct box_store_spec store = { .state_dir = spec->state_dir, .size_bytes = spec->disk_size_bytes, .reserve_bytes = spec->disk_reserve_bytes,
					  .is_unlimited = spec->no_disk_limit };

	if (make_folder(spec->state_dir, "boxes", h->boxes_path, e) < 0 ||
	    make_folder(spec->state_dir, "stage", h->stage_path, e) < 0 || box_store_open(&h->store, &store, e) < 0)
		return -1;
	memcpy(h->layers_path, h->store.layers_path, sizeof(h->layers_path));
	memcpy(h->disks_path, h->store.disks_path, sizeof(h->disks_path));
	h->boxes = open(h->boxes_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (h->boxes < 0)
		return err_sys(e, errno, "open '%s'", h->boxes_path);
	spread(h->boxes);
	if (stage_prepare(h->stage_path, e) < 0)
		return -1;
	h->has_stage = true;
	return stage_find_way(h->stage_path, &h->overlay_way, e);
}

static int copy_execd(struct box_host *h, const char *path, struct err *e)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	h->execd = memfd_sealed_copy(fd, "execd", 0, e); /* id 0 of the host is mapped in no sandbox */
	return h->execd < 0 ? -1 : 0;
}

static int read_pid_max(uint64_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(64);

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/pid_max", 64, &text, e) < 0)
		return -1;
	return str_to_u64(str_trim(buf_str(&text)), 1, UINT32_MAX, ret) ? 0 : err_set(e, ERR_INTERNAL, "pid_max is no number");
}

/* L2: all boxes together leave the host some memory and a quarter of its processes. */
static int limit_top(const struct box_host *h, struct err *e)
{
	struct cgroup_limits limits = { 0 };
	uint64_t memory, reserve, pid_max;
	struct sysinfo si;
	unsigned lacking = 0;

	if (sysinfo(&si) < 0)
		return err_sys(e, errno, "read how much memory there is");
	if (read_pid_max(&pid_max, e) < 0)
		return -1;
	memory = (uint64_t)si.totalram * si.mem_unit;
	reserve = MAX(memory / RESERVE_SHARE, RESERVE_MIN);
	if (memory <= reserve)
		return err_set(e, ERR_LIMIT, "a host with %llu bytes of memory has none for sandboxes", (unsigned long long)memory);
	limits.memory_bytes = (memory - reserve) & ~4095ULL;
	limits.pids = pid_max - pid_max / 4;
	if (cgroup_limit(&h->top, &limits, &lacking, e) < 0)
		return -1;
	return lacking ? err_set(e, ERR_UNAVAILABLE, "this host cannot enforce the limit '%s'", cgroup_limit_name(lacking & -lacking)) : 0;
}

#define USE (CGROUP_DEVICE_READ | CGROUP_DEVICE_WRITE)
#define MAKE (CGROUP_DEVICE_MAKE | USE) /* by the parked child: a sandbox has no right to make any */

/* V1: null, zero, full, random, urandom, tty; then ptmx and the terminals. */
static const struct cgroup_device devices[] = {
	{ 'c', 1, 3, MAKE }, { 'c', 1, 5, MAKE }, { 'c', 1, 7, MAKE }, { 'c', 1, 8, MAKE }, { 'c', 1, 9, MAKE },
	{ 'c', 5, 0, MAKE }, { 'c', 5, 2, USE },  { 'c', 136, CGROUP_DEVICE_ANY, USE },
};

int box_host_limit_devices(const struct cgroup *g, struct err *e)
{
	return cgroup_limit_devices(g, devices, ARRAY_LEN(devices), e);
}

/* One list of devices at the top does for all boxes. With boxes in it that an earlier version made it may not work: then each has
 * a group with the list. Nobody asks for the huge pages of one box, and v1 does not know whose the traffic of a disk is. */
static int share_groups(struct box_host *h, struct err *e)
{
	int io = h->layout.where[CGROUP_IO];
	unsigned shared = CGROUP_BIT(CGROUP_HUGETLB) | (io >= 0 && !h->layout.at[io].is_v2 ? CGROUP_BIT(CGROUP_IO) : 0);

	h->has_devices = box_host_limit_devices(&h->top, &(struct err){ 0 }) == 0;
	cgroup_layout_share(&h->layout, shared | (h->has_devices ? CGROUP_BIT(CGROUP_DEVICES) : 0));
	return cgroup_entry_open_shared(&h->top, &h->shared, e);
}

static int find_groups(struct box_host *h, const struct box_host_spec *spec, struct err *e)
{
	AUTO_FD state = open(spec->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (state < 0)
		return err_sys(e, errno, "open '%s'", spec->state_dir);
	if (box_groups_find(NULL, state, spec->prefix, &h->layout, e) < 0)
		return -1;
	return h->layout.v2_base[0] ? cgroup_vacate(&h->layout, true, e) : 0; /* of the process that keeps the unit */
}

int box_host_open(struct box_host *h, const struct box_host_spec *spec, struct err *e)
{
	*h = BOX_HOST_INIT;
	if (make_folders(h, spec, e) < 0 || copy_execd(h, spec->execd_path, e) < 0 ||
	    filter_compile(FILTER_NATIVE, &h->filter, e) < 0 ||
	    find_groups(h, spec, e) < 0 ||
	    cgroup_open_top(&h->layout, spec->prefix, spec->prefix, &h->top, e) < 0 || limit_top(h, e) < 0) {
		box_host_done(h);
		return err_wrap(e, "prepare this host for sandboxes");
	}
	if (share_groups(h, e) < 0) {
		box_host_done(h);
		return -1;
	}
	return 0;
}

void box_host_done(struct box_host *h)
{
	cgroup_entry_done(&h->shared);
	cgroup_done(&h->top);
	cgroup_layout_done(&h->layout);
	closep(&h->execd);
	closep(&h->boxes);
	if (h->has_stage)
		(void)mount_detach(h->stage_path, &(struct err){ 0 }); /* it goes with the namespace at the latest */
	box_store_done(&h->store);
	*h = BOX_HOST_INIT;
}
