// SPDX-License-Identifier: Apache-2.0
/* sys/room.h - free space of the file system that the state directory is on (L7).
 *
 * A reserve is kept for records, logs and the image with the disks of all sandboxes. Code that writes on
 * behalf of a client asks here before it begins, and again while it goes on. */
#pragma once
#include <stdint.h>

struct err;

#define ROOM_RESERVE_MIN (UINT64_C(64) << 20)
#define ROOM_RESERVE_MAX (UINT64_C(1) << 50)

struct room {
	uint64_t reserve;
	uint64_t free; /* with the reserve */
};

/* RESERVE 0: a twentieth of the file system, 64 MiB at least and 4 GiB at most. */
int room_look(int dir, uint64_t reserve, struct room *ret, struct err *e);
/* ERR_LIMIT, and ENOSPC in `sys`, when less than BYTES and the reserve are free. The words are fit for a
 * client. */
int room_check(int dir, uint64_t reserve, uint64_t bytes, struct err *e);
int room_refuse(struct err *e);
