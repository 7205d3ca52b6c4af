// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include "base/banned.h"

/* clock_gettime fails for unknown clocks only, and these two exist on every kernel that we run on. */
static struct timespec now(clockid_t id)
{
	struct timespec t = { 0 };

	(void)clock_gettime(id, &t);
	return t;
}

uint64_t clock_mono_us(void)
{
	return (uint64_t)timespec_to_us(now(CLOCK_BOOTTIME));
}

uint64_t clock_mono_ms(void)
{
	return clock_mono_us() / 1000;
}

struct timespec clock_wall(void)
{
	return now(CLOCK_REALTIME);
}

int64_t clock_wall_us(void)
{
	return timespec_to_us(clock_wall());
}

struct timespec timespec_from_us(int64_t us)
{
	int64_t s = us / US_PER_S, rest = us % US_PER_S;

	if (rest < 0) {
		rest += US_PER_S;
		s--;
	}
	return (struct timespec){ .tv_sec = s, .tv_nsec = rest * 1000 };
}

int64_t timespec_to_us(struct timespec t)
{
	int64_t us;

	if (__builtin_mul_overflow((int64_t)t.tv_sec, US_PER_S, &us) ||
	    __builtin_add_overflow(us, (int64_t)t.tv_nsec / 1000, &us))
		return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return us;
}
