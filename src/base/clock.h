// SPDX-License-Identifier: Apache-2.0
/* base/clock.h - the two clocks: monotonic time for spans, and the time of day. */
#pragma once
#include <stdint.h>
#include <time.h>

#define US_PER_S INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* For deadlines and measurements: never set back, and counts suspended time too (CLOCK_BOOTTIME). */
uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);

/* For what people and files see. It can jump: never compute a timeout from it. */
struct timespec clock_wall(void);
int64_t clock_wall_us(void); /* microseconds since 1970 */

/* Between microseconds and seconds with nanoseconds, rounding down (also before 1970). */
struct timespec timespec_from_us(int64_t us);
int64_t timespec_to_us(struct timespec t); /* saturates */
