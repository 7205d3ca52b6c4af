// SPDX-License-Identifier: Apache-2.0
/* execd/io/outbox.h - events waiting for their reader: OUTBOX_BASE bytes without the budget, more if the
 * budget grants it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "execd/io/events.h"

struct budget;
struct reply;

#define OUTBOX_BASE ((size_t)16 * 1024)
#define OUTBOX_BATCH ((size_t)4 * 1024) /* events are collected up to this before they go to the reader */

struct outbox {
	struct budget *budget;
	struct buf b; /* events, sent up to `at` */
	size_t at, granted;
};

#define OUTBOX_INIT(budget_) ((struct outbox){ .budget = (budget_), .b = BUF_INIT(OUTBOX_BASE) })

void outbox_release(struct outbox *o); /* empties it, and frees all that it has */

/* True when all of it has gone to the reader's connection. */
bool outbox_flush(struct outbox *o, struct reply *rp);

/* Raises the ceiling so that NEED more bytes fit. */
bool outbox_widen(struct outbox *o, size_t need);

/* Adds an event with TEXT, or with as much of it as there is room for, cut between two characters. Returns
 * how many bytes that are; 0: there is no memory. */
size_t outbox_text(struct outbox *o, enum event_stream kind, struct str text,
		   const struct event_stamp *stamp);
