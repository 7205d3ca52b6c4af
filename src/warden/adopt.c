// SPDX-License-Identifier: Apache-2.0
#include "warden/adopt.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/process_stat.h"
#include "warden/box.h"
#include "warden/box_record.h"
#include "warden/lost.h"
#include "warden/snapshot.h"
#include "warden/warden.h"

#include "base/banned.h"

#define LIST_BYTES_MAX ((size_t)16 * 1024 * 1024)

DEFINE_AUTO(DIR *, closedir)

/* What is known of a box that may be taken up. */
struct box_claim {
	struct box_file file;
	struct stack stack;
};

static void claim_done(struct box_claim *c)
{
	stack_done(&c->stack);
}
DEFINE_AUTO_DONE(struct box_claim, claim_done)

/* "b17" is 17; -1 for a name that slot_name() does not write. */
static int number_of(const char *name)
{
	char again[16];
	uint64_t n;

	if (name[0] != 'b' || !str_to_u64(str_of(name + 1), 0, SLOT_NUMBER_MAX - 1, &n))
		return -1;
	slot_name((unsigned)n, again);
	return strcmp(again, name) == 0 ? (int)n : -1;
}

/* The pidfd of the process that FILE names, or -1: it has ended (*ret_gone), or we cannot tell. */
static int find_process(const struct box_file *file, bool *ret_gone, struct err *e)
{
	AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, file->pid, 0);
	struct err scratch = { 0 };
	struct process_stat stat;

	*ret_gone = pidfd < 0 && (errno == ESRCH || errno == EINVAL);
	if (pidfd < 0)
		return err_sys(e, errno, "open process %d", (int)file->pid);
	/* Looked at with the pidfd in hand: if the number is another's by now, so is the start. */
	*ret_gone = process_stat_read(file->pid, &stat, &scratch) < 0 ? scratch.code == ERR_NOT_FOUND || scratch.sys == ESRCH
								      : stat.start != file->pid_start;
	if (*ret_gone)
		return err_set(e, ERR_NOT_FOUND, "process %d is another", (int)file->pid);
	if (scratch.code != ERR_NONE) {
		*e = scratch;
		return -1;
	}
	return take_fd(&pidfd);
}

enum found { FOUND_ALIVE, FOUND_ENDED, FOUND_UNKNOWN };

static enum found open_alive(struct warden *w, unsigned number, const struct box_file *file, struct slot *ret, struct err *e)
{
	bool is_gone = false;
	AUTO_FD pidfd = find_process(file, &is_gone, e);

	if (pidfd < 0)
		return is_gone ? FOUND_ENDED : FOUND_UNKNOWN;
	if (slot_open(&w->host, number, pidfd, ret, e) < 0)
		return e->code == ERR_NOT_FOUND || e->sys == ESRCH ? FOUND_ENDED : FOUND_UNKNOWN; /* a zombie has no network */
	ret->pid = file->pid;
	(void)take_fd(&pidfd);
	return FOUND_ALIVE;
}

static int take_up(struct warden *w, unsigned number, struct box_claim *claim, size_t *alive, struct err *e)
{
	AUTO(slot_done) struct slot slot = SLOT_INIT;
	enum found found = FOUND_ENDED;
	int frozen = 0;

	if (claim->file.stage == BOX_RUNNING)
		found = open_alive(w, number, &claim->file, &slot, e);
	if (found == FOUND_UNKNOWN || (found == FOUND_ENDED && slot_open(&w->host, number, -1, &slot, e) < 0))
		return -1;
	if (found == FOUND_ALIVE) {
		if (snapshot_let_go(&w->host, &slot, e) < 0)
			return -1;
		frozen = slot_is_frozen(&w->host, &slot, e);
		if (frozen < 0)
			return -1;
	}
	if (box_take_up(w, &claim->file, &claim->stack, &slot, frozen > 0, e) < 0)
		return -1;
	*alive += found == FOUND_ALIVE;
	return 0;
}

/* Whether its PID 1 is dead, and with that every process: its removal may have been told. A zombie is dead, too. */
static bool is_dead(const struct box_file *file)
{
	bool is_gone = false;
	AUTO_FD pidfd = find_process(file, &is_gone, &(struct err){ 0 });
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return is_gone || (pidfd >= 0 && poll(&p, 1, 0) == 1);
}

/* The file is lost, or not to be believed; a box that runs is no less a box for that. 1: it is one, and its file is written
 * anew; 0: there is nothing that runs; -1. */
static int restore_claim(struct warden *w, unsigned number, int dir, const struct err *why, struct box_claim *ret, struct err *e)
{
	struct err scratch;
	int r = 1;

	if (box_record_read(dir, &ret->file, &ret->stack, NULL, &scratch) < 0)
		r = lost_identify(w, number, &ret->file, &ret->stack, e);
	if (r <= 0)
		return r;
	if (strcmp(ret->file.boot, w->boot) != 0 || is_dead(&ret->file))
		return 0;
	ret->file.stage = BOX_RUNNING;
	if (box_file_write(dir, &ret->file, e) < 0)
		return -1;
	log_error("the file of a box that runs was lost, and is made anew", LOG_S("id", ret->file.id), LOG_U("number", number), LOG_ERR(why));
	return 1;
}

/* What the record says of its layers has a sum, the file of them has none. */
static int read_stack(int dir, struct box_claim *ret, struct err *e)
{
	struct box_file ignored;
	struct err scratch;

	if (box_record_read(dir, &ignored, &ret->stack, NULL, &scratch) == 0 && strcmp(ignored.id, ret->file.id) == 0)
		return 0;
	if (stack_read(dir, &ret->stack, e) == 0)
		return 0;
	if (e->code != ERR_INVALID && e->code != ERR_LIMIT)
		return -1;
	log_error("the layers of a box are unknown, keeping all layers", LOG_S("id", ret->file.id),
		  LOG_ERR(e));
	ret->stack.is_unknown = true;
	return 0;
}

/* Whether the box in this folder is to be taken up: 1; 0, it is to go; -1, cannot tell. */
static int read_claim(struct warden *w, const char *name, unsigned number, struct box_claim *ret, struct err *e)
{
	AUTO_FD dir = openat(w->host.boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct err why = { 0 };

	if (dir < 0)
		return errno == ENOTDIR || errno == ELOOP ? 0 : err_sys(e, errno, "open '%s'", name);
	if (box_file_read(dir, &ret->file, &why) < 0) {
		if (why.code == ERR_NOT_FOUND || why.code == ERR_INVALID || why.code == ERR_LIMIT)
			return restore_claim(w, number, dir, &why, ret, e);
		*e = why;
		return -1;
	}
	if (strcmp(ret->file.boot, w->boot) != 0 || (ret->file.stage != BOX_RUNNING && ret->file.stage != BOX_OVER))
		return 0;
	return read_stack(dir, ret, e) < 0 ? -1 : 1;
}

static void adopt_one(struct warden *w, const char *name, unsigned number, size_t *alive)
{
	AUTO(claim_done) struct box_claim claim = { 0 };
	struct err e = { 0 };
	int r = read_claim(w, name, number, &claim, &e);

	w->is_taken[number] = true;
	if (r == 0) {
		box_sweep(w, number, strcmp(claim.file.boot, w->boot) == 0 && !is_dead(&claim.file) ? claim.file.id : NULL);
		return;
	}
	if (r > 0 && take_up(w, number, &claim, alive, &e) == 0)
		return;
	w->has_unknown = true;
	log_error("a box cannot be taken up and is left alone", LOG_U("number", number), LOG_ERR(&e));
}

static int adopt_folders(struct warden *w, size_t *alive, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(w->host.boxes_path);
	const struct dirent *entry;

	if (!d)
		return err_sys(e, errno, "open '%s'", w->host.boxes_path);
	while ((entry = readdir(d))) {
		int number = number_of(entry->d_name);

		if (number < 0)
			continue;
		adopt_one(w, entry->d_name, (unsigned)number, alive);
		KILL_POINT("warden.adopt.one");
	}
	return 0;
}

/* Without a folder nobody can reach it, but what runs there is not ours to kill. */
static void sweep_group(struct warden *w, unsigned number)
{
	AUTO(stack_done) struct stack stack = { 0 };
	struct box_file file = { 0 };
	struct err e = { 0 };

	if (lost_identify(w, number, &file, &stack, &e) <= 0) {
		box_sweep(w, number, NULL);
		return;
	}
	w->has_unknown = true;
	log_error("a box runs whose folder is lost: it is left alone", LOG_U("number", number), LOG_S("id", file.id));
}

/* Groups whose folder is gone, or was never made. */
static int sweep_groups(struct warden *w, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(LIST_BYTES_MAX);
	struct cgroup_names groups;

	if (cgroup_list(&w->host.top, &a, &groups, e) < 0)
		return -1;
	for (size_t i = 0; i < groups.n; i++) {
		int number = number_of(groups.names[i]);

		if (number < 0 || w->is_taken[number])
			continue;
		w->is_taken[number] = true;
		sweep_group(w, (unsigned)number);
	}
	return 0;
}

/* Disks without a folder: both are on different file systems, which a loss of power leaves at different times. */
static int sweep_disks(struct warden *w, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(w->host.disks_path);
	const struct dirent *entry;

	if (!d)
		return err_sys(e, errno, "open '%s'", w->host.disks_path);
	while ((entry = readdir(d))) {
		int number = number_of(entry->d_name);

		if (number < 0 || w->is_taken[number])
			continue;
		w->is_taken[number] = true;
		box_sweep(w, (unsigned)number, NULL);
	}
	return 0;
}

/* A number is taken before anything has it: what is listed and nobody's then stays nobody's. */
static int sweep_links(struct warden *w, struct err *e)
{
	AUTO(free) unsigned *numbers = NULL;
	size_t n = 0;

	if (!w->host.network.is_on)
		return 0;
	if (box_network_list(&w->host.network, &numbers, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (w->is_taken[numbers[i]])
			continue;
		w->is_taken[numbers[i]] = true;
		box_sweep(w, numbers[i], NULL);
	}
	return 0;
}

/* ---- while it runs ---- */

static int find_names(const char *path, unsigned char *found, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(path);
	const struct dirent *entry;

	if (!d)
		return err_sys(e, errno, "open '%s'", path);
	while ((entry = readdir(d))) {
		int number = number_of(entry->d_name);

		if (number >= 0)
			found[number] = 1;
	}
	return 0;
}

static int find_groups(const struct warden *w, unsigned char *found, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(LIST_BYTES_MAX);
	struct cgroup_names groups;

	if (cgroup_list(&w->host.top, &a, &groups, e) < 0)
		return -1;
	for (size_t i = 0; i < groups.n; i++) {
		int number = number_of(groups.names[i]);

		if (number >= 0)
			found[number] = 1;
	}
	return 0;
}

static int find_links(const struct warden *w, unsigned char *found, struct err *e)
{
	AUTO(free) unsigned *numbers = NULL;
	size_t n = 0;

	if (!w->host.network.is_on)
		return 0;
	if (box_network_list(&w->host.network, &numbers, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		found[numbers[i]] = 1;
	return 0;
}

int adopt_find(const struct warden *w, unsigned char *found, struct err *e)
{
	return find_names(w->host.boxes_path, found, e) < 0 || find_names(w->host.disks_path, found, e) < 0 ||
	       find_groups(w, found, e) < 0 || find_links(w, found, e) < 0 ? -1 : 0;
}

/* ---- all of it ---- */

int adopt_all(struct warden *w, size_t *ret_alive, struct err *e)
{
	size_t alive = 0;

	if (adopt_folders(w, &alive, e) < 0 || sweep_groups(w, e) < 0 || sweep_disks(w, e) < 0 || sweep_links(w, e) < 0)
		return err_wrap(e, "look for boxes of an earlier start");
	KILL_POINT("warden.adopt.all");
	*ret_alive = alive;
	return 0;
}
