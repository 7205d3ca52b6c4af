// SPDX-License-Identifier: Apache-2.0
/* ingress/metrics.h - counters of the gateway, as text for Prometheus. */
#pragma once
#include <stdint.h>

struct buf;
struct gateway;

#define METRIC_BUCKETS 10

/* How long something took: how often up to each bound, in all, and together. */
struct histogram {
	uint64_t counts[METRIC_BUCKETS + 1]; /* the last: longer than the last bound */
	uint64_t sum_ms;
};

struct metrics {
	uint64_t requests[6];      /* by the first digit of their status; 0: the peer went first */
	uint64_t resolutions[4];   /* by enum found */
	uint64_t denied, limited;  /* by the access check, and by too many guesses */
	uint64_t http, websockets; /* that were sent on */
	struct histogram request_ms, resolution_ms;
};

void histogram_add(struct histogram *h, uint64_t ms);
void gateway_metrics_write(const struct gateway *g, struct buf *b);
