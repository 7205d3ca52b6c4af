// SPDX-License-Identifier: Apache-2.0
/* execd/metrics.h - resource usage of the sandbox: GET /metrics, and /metrics/watch once a second.
 *
 * In a sandbox the numbers come from its control groups, through descriptors from the warden, and never from
 * the host. In an ordinary process they are those of our own group, where it has a limit, or of the machine.
 *
 * CPU usage is measured between two samples. While a client asks or watches there is one sample a second, and
 * answers use the last one; after a pause the first answer takes METRICS_FIRST_MS. Without clients nothing is
 * sampled. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"
#include "sys/cgroup_gauges.h"

struct buf;
struct err;
struct metrics_reader;

#define METRICS_FIRST_MS 100
#define METRICS_TICK_MS 1000
#define METRICS_STAY_MS 10000 /* looks go on for this long after a request */

/* What is known at one moment; a difference of two gives the use of the CPU. */
struct metrics_look {
	uint64_t at_us;
	uint64_t busy_us;         /* of all CPUs that count */
	uint64_t capacity_milli;  /* thousandths of a CPU that may be used */
	unsigned cpu_count;
	uint64_t memory_bytes, memory_total_bytes;
};

double metrics_cpu_pct(const struct metrics_look *before, const struct metrics_look *now); /* 0 to 100 */
/* The object of both routes; with both sets of names that clients read. */
void metrics_write(const struct metrics_look *look, double cpu_pct, struct buf *json);

struct metrics {
	struct loop *loop;
	struct cgroup_gauges gauges;
	bool sees_host; /* the machine's numbers may be shown */
	struct metrics_look last;
	double cpu_pct;
	bool is_measured; /* cpu_pct is that of the last look */
	uint64_t asked_ms;
	struct timer tick;
	struct metrics_reader *readers;
};

int metrics_init(struct metrics *m, struct loop *l, const struct cgroup_gauges *gauges, bool sees_host,
		 struct err *e);
void metrics_stop(struct metrics *m); /* ends all watches */
void metrics_done(struct metrics *m);
