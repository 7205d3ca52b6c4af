// SPDX-License-Identifier: Apache-2.0
/* base/guest.h - what the warden and PID 1 of a sandbox agree on.
 *
 * The warden starts `execd --guest` with the descriptors below at these numbers and nothing else above 2 (0,
 * 1 and 2 are the warden's choice; 2 gets execd's own log), and says how many follow them:
 *
 *     --cgroups=N      cgroup.procs (v1: tasks) descriptors of the `user` leaf, one per hierarchy, GUEST_CGROUPS_MAX at
 *                      most; a process enters by writing "0" to each
 *     --oom-counter    and behind those a readable one, the leaf's memory.events (v2) or memory.oom_control (v1), for its
 *                      line "oom_kill N"
 *     --stats          and behind that GUEST_STATS readable ones, in the order of sys/cgroup_gauges.h: memory of the leaf,
 *                      CPU time of the group above both leaves, and the limits of these
 *     --hosts=ADDRESS  and behind those one that appends to /etc/hosts, for the line of the name that the sandbox then has
 *
 * The spec is a sealed memfd with JSON (GUEST_SPEC_MAX bytes at most) that the warden hands on unread. Or it
 * is the end of a pipe from which its size (a uint32_t of this machine) and then the same text can be read
 * once there is a request for this sandbox, and with that a name for it; the end of the pipe means that there
 * will be none.
 *
 *     {"id":"ab12","entrypoint":["python3","app.py"],"env":{"PATH":"/usr/bin:/bin"},"cwd":"/workspace",
 *      "user":"app:staff","token":"..."}
 *
 *     entrypoint       argv; absent, null, [] or exactly GUEST_STAY: no process is started and the sandbox stays
 *     env              the environment of the entrypoint and of commands; no PATH: the usual one, no HOME: the user's
 *     cwd              made if it is missing; default "/"
 *     user             as in an image: name, id, name:group, id:id; or `uid` and `gid`, numbers of 0 to 65535.
 *                      Default 0. Commands run as this user too, unless they name another
 *     token            what X-EXECD-ACCESS-TOKEN must be; absent: no check
 *
 * The descriptors must have been opened for this sandbox alone. Once the socket listens and the entrypoint
 * runs, execd appends READY to the state file and writes one byte to the ready pipe. What it writes anywhere
 * was written inside a sandbox: to the warden every byte is hostile. */
#pragma once
#include <stdint.h>

enum guest_fd {
	GUEST_FD_SPEC = 3,    /* sealed memfd, read from its start; or a pipe */
	GUEST_FD_LISTEN,      /* unix stream socket, listening */
	GUEST_FD_READY,       /* write end of a pipe: one byte, then closed */
	GUEST_FD_STATE,       /* struct guest_record after struct guest_record, appended */
	GUEST_FD_LOG_0,       /* the entrypoint's output, in two segments written in turn: */
	GUEST_FD_LOG_1,       /* "2026-06-15T09:46:58.120431123Z text\n"; the one changed last is the newer */
	GUEST_FD_CGROUPS,     /* the first of those */
};

#define GUEST_SPEC_MAX (1024 * 1024)
#define GUEST_LOG_SEGMENT_MAX (1024 * 1024)
#define GUEST_CGROUPS_MAX 16
#define GUEST_STATS 6
#define GUEST_TOKEN_MAX 512
#define GUEST_ID_MAX 65535 /* of a user or group: what is mapped */
#define GUEST_STAY { "tail", "-f", "/dev/null" }

#define GUEST_RECORD_MAGIC 0x31445845U /* "EXD1" */
#define GUEST_RECORD_VERSION 1
#define GUEST_RECORD_TEXT 216

enum guest_kind {
	GUEST_STARTED = 1, /* the entrypoint runs; none when there is no entrypoint */
	GUEST_READY,       /* requests are answered */
	/* the entrypoint has ended, or execd got a signal to end; exit_code and signal have the details */
	GUEST_EXITED,
	GUEST_FAILED,      /* the entrypoint could not be started; text gives the reason */
};

enum {
	GUEST_FLAG_OOM = 1,   /* of EXITED: killed while the sandbox was out of memory */
	GUEST_FLAG_IMAGE = 2, /* of FAILED: `user` or `cwd`, which are the image's, cannot be had in it */
};

/* Little-endian, no padding, written at once. */
struct guest_record {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;     /* enum guest_kind */
	int32_t exit_code; /* of EXITED: what execd exits with, 128 + signal for a death by one */
	int32_t signal;    /* 0: none */
	uint32_t flags;
	uint32_t reserved; /* 0 */
	int64_t time_ns;   /* since 1970 */
	char text[GUEST_RECORD_TEXT]; /* NUL-terminated UTF-8 */
	char pad[8];
};
_Static_assert(sizeof(struct guest_record) == 256, "records have one size on both sides");
