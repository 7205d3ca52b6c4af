// SPDX-License-Identifier: Apache-2.0
/* bench/lib/floor.h - the least that a sandbox can cost on this kernel, in a straight line: clone3 with all seven
 * namespaces made fresh, id map, writable overlay, pivot_root, /proc and exec of a static init that writes one byte. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/guest.h"
#include "base/own.h"
#include "sys/memfd.h"
#include "sys/namespace.h"
#include "sys/tree.h"

#define FLOOR_INIT "build/musl/bin/floor-init"
#define FLOOR_ID 1048576

struct floor {
	char dir[128]; /* absolute, exists, nobody else's */
	int init;      /* sealed copy */
	unsigned count;
	char name[16]; /* of the one that is being made: each has another, see floor_spread() */
};

static inline _Noreturn void die(const char *what, const struct err *e)
{
	(void)fprintf(stderr, "bench: %s: %s\n", what, e ? e->msg : strerror(errno));
	exit(1);
}

/* As box/host.c does for boxes: otherwise ext4 makes the floor slower with each one that was removed. */
static inline void floor_spread(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), flags = 0;

	if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_TOPDIR_FL;
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
	(void)close(fd);
}

/* The folder must exist. */
static inline void floor_open(struct floor *f, const char *dir)
{
	struct err e = { 0 };
	int fd = open(FLOOR_INIT, O_RDONLY | O_CLOEXEC);

	(void)snprintf(f->dir, sizeof(f->dir), "%s", dir);
	floor_spread(dir);
	f->init = fd < 0 ? -1 : memfd_sealed_copy(fd, "init", 0, &e);
	if (f->init < 0)
		die(FLOOR_INIT, fd < 0 ? NULL : &e);
	(void)close(fd);
}

static inline _Noreturn void floor_child(const struct floor *f, int go, int ready)
{
	char options[640], byte;
	char root[32], proc[32];
	const char *argv[] = { "init", NULL }, *envp[] = { NULL };

	(void)snprintf(options, sizeof(options), "lowerdir=%s/%s/lower,upperdir=%s/%s/upper,workdir=%s/%s/work,volatile", f->dir,
		       f->name, f->dir, f->name, f->dir, f->name);
	(void)snprintf(root, sizeof(root), "%s/root", f->name);
	(void)snprintf(proc, sizeof(proc), "%s/root/proc", f->name);
	if (read(go, &byte, 1) != 1 || setresuid(0, 0, 0) < 0 || setresgid(0, 0, 0) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(f->dir) < 0 ||
	    mount("overlay", root, "overlay", MS_NOSUID | MS_NODEV, options) < 0 ||
	    mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 || chdir(root) < 0 ||
	    syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || dup2(ready, GUEST_FD_READY) < 0)
		_exit(1);
	(void)syscall(SYS_execveat, f->init, "", argv, envp, AT_EMPTY_PATH);
	_exit(2);
}

static inline void floor_write_map(pid_t pid, const char *which)
{
	char path[64], text[32];
	int fd, n = snprintf(text, sizeof(text), "0 %d 65536", FLOOR_ID);

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		die("write an id map", NULL);
	(void)close(fd);
}

static inline void floor_folders(const struct floor *f)
{
	static const char *const names[] = { "", "lower", "lower/proc", "upper", "work", "root" };
	char path[256];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s/%s", f->dir, f->name, names[i]);
		if (mkdir(path, 0755) < 0 || chown(path, FLOOR_ID, FLOOR_ID) < 0)
			die(path, NULL);
	}
}

/* Makes one, takes the time until its init has spoken, and removes it. Microseconds. */
static inline uint64_t floor_once(struct floor *f)
{
	uint64_t flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP;
	int go[2], ready[2], pidfd, dir = open(f->dir, O_PATH | O_CLOEXEC);
	struct err e = { 0 };
	uint64_t began, took;
	siginfo_t si;
	pid_t pid;
	char byte;

	(void)snprintf(f->name, sizeof(f->name), "f%u", ++f->count);
	floor_folders(f);
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)
		die("pipe", NULL);
	began = clock_mono_us();
	pid = namespace_clone(flags, -1, &pidfd, &e);
	if (pid == 0)
		floor_child(f, go[0], ready[1]);
	if (pid < 0)
		die("clone", &e);
	floor_write_map(pid, "uid_map");
	floor_write_map(pid, "gid_map");
	(void)close(ready[1]);
	if (write(go[1], "g", 1) != 1 || read(ready[0], &byte, 1) != 1)
		die("the floor's init did not start", NULL);
	took = clock_mono_us() - began;
	(void)kill(pid, SIGKILL);
	(void)waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED);
	for (int i = 0; i < 2; i++)
		(void)close(go[i]);
	(void)close(ready[0]);
	(void)close(pidfd);
	if (tree_remove(dir, f->name, &e) < 0)
		die("clean up", &e);
	(void)close(dir);
	return took;
}
