// SPDX-License-Identifier: Apache-2.0
#include "sys/room.h"

#include <errno.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define SHARE 20
#define DEFAULT_MAX (UINT64_C(4) << 30)

int room_look(int dir, uint64_t reserve, struct room *ret, struct err *e)
{
	struct statvfs st;
	uint64_t all;

	if (fstatvfs(dir, &st) < 0)
		return err_sys(e, errno, "ask how much is free");
	if (__builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize, &ret->free))
		ret->free = UINT64_MAX;
	if (__builtin_mul_overflow((uint64_t)st.f_blocks, (uint64_t)st.f_frsize, &all))
		all = UINT64_MAX;
	ret->reserve = reserve > 0 ? reserve : MIN(MAX(all / SHARE, ROOM_RESERVE_MIN), DEFAULT_MAX);
	return 0;
}

int room_refuse(struct err *e)
{
	(void)err_set(e, ERR_LIMIT, "the server's disk is almost full");
	e->sys = ENOSPC;
	return -1;
}

int room_check(int dir, uint64_t reserve, uint64_t bytes, struct err *e)
{
	struct room r;

	if (room_look(dir, reserve, &r, e) < 0)
		return -1;
	return r.free < r.reserve || r.free - r.reserve < bytes ? room_refuse(e) : 0;
}
