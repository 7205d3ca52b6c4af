// SPDX-License-Identifier: Apache-2.0
/* cli/top_page.h - the table of `osb top`. Pure.
 *
 *     3 sandboxes, 2 running   cpu 12.5%   memory 230 MiB               q quit  c cpu  m memory  a age
 *     ID            STATE        CPU              MEMORY   AGE     IMAGE
 *     ab12cd34ef56  Running     12.0%  120 MiB / 512 MiB   3m20s   python:3.12 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

enum top_order { TOP_BY_AGE, TOP_BY_CPU, TOP_BY_MEMORY };

struct top_row {
	struct str id, state, image; /* foreign */
	bool has_metrics;
	double cpu_percent;
	uint64_t memory_used, memory_total; /* bytes */
	int64_t age_s; /* -1: not known */
};

struct top_view {
	unsigned columns, rows; /* of the screen */
	bool is_plain;          /* no bold text */
	bool is_live;           /* keys do something */
	enum top_order order;
	size_t n_all;           /* sandboxes, of which ROWS are some */
	struct str trouble;     /* why there is nothing new; or empty */
};

void top_sort(struct top_row *rows, size_t n, enum top_order order);
/* Lines, each no wider than the screen, as many as it has at most; without moving a cursor. */
void top_page(const struct top_row *rows, size_t n, const struct top_view *v, struct buf *out);
