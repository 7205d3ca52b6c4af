// SPDX-License-Identifier: Apache-2.0
/* sys/userns.h - user namespaces with an id range of their own, in which no further namespace can be
 * created. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct err;

/* A range of ids on the host: its first is the sandbox's root. Below 2^31, because some kernel settings (and
 * file systems) take ids as signed numbers; far above the ids of accounts. */
#define USERNS_IDS 65536
#define USERNS_BASE_MIN 1000000
#define USERNS_BASE_MAX (INT32_MAX - USERNS_IDS + 1)

/* A multiple of USERNS_IDS from USERNS_BASE_MIN on, with its range below 2^31; otherwise ERR_INVALID. */
int userns_check_base(uint64_t base, struct err *e);

/* A new user namespace below ours that shows the host's BASE.. as 0..65535, users and groups alike. Its
 * settings user.max_{user,mnt,pid,net,ipc,uts,cgroup,time}_namespaces are 0: nobody in it makes a namespace
 * of any kind. With SYS_RESOURCE in it and a writable /proc/sys one could raise them again: its processes
 * must lack one of the two. It belongs to the user BASE, so that the kernel's limits per user count for it
 * alone. Returns its descriptor; no process is left in it. PROC is a proc of the caller's own pid namespace,
 * -1: that at /proc; for many that live long it should be a new one for each (netns_set() gives the reason).
 * Needs root with SYS_ADMIN, SETUID and SETGID, and a caller with one thread. */
int userns_make(int proc, uint64_t base, struct err *e);

/* A user namespace that is only good for showing files with other ids: what has FROM.. on the disk is shown
 * as TO.., 65,536 of them, with mount_idmap(). Both are bases as above. PROC is a /proc of the caller's own
 * pid namespace. No process is left in it. */
int userns_map(int proc, uint64_t from, uint64_t to, struct err *e);

/* For mount_idmap() alone, nobody enters it: files of UID and GID are shown as those of the host's BASE, the
 * root of a sandbox, and those of REST + 1.. as BASE + 1... Files of anybody else belong to nobody there, and
 * nothing can be made or changed into theirs. REST is a range like BASE. */
int userns_make_for_owner(uint64_t base, uid_t uid, gid_t gid, uint64_t rest, struct err *e);
