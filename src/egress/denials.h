// SPDX-License-Identifier: Apache-2.0
/* egress/denials.h - numbered denials of all sandboxes, for a client that stores them elsewhere and polls.
 * Denials that are not fetched in time are dropped and counted. The client acknowledges what it has stored,
 * so that the next one continues from there. */
#pragma once
#include <stdint.h>

struct activity_event;
struct denial;
struct json_out;

#define DENIALS_MAX 4096 /* that are kept */

struct denials {
	int64_t since_us; /* wall clock: numbers of another process mean nothing here */
	uint64_t next;    /* the number of the next one, from 1 on */
	uint64_t kept;    /* the number of the last one that is on record */
	uint64_t lost;    /* out of memory */
	struct denial *ring; /* made with the first */
};

void denials_init(struct denials *d);
void denials_done(struct denials *d);
void denials_add(struct denials *d, const char *id, const struct activity_event *ev);
/* it is on record, with all before it; others than there are do not count */
void denials_keep(struct denials *d, uint64_t number);
/* Those behind the one with the number AFTER: {"since":...,"next":...,"lost":...,"items":[...]} */
void denials_write(const struct denials *d, uint64_t after, struct json_out *o);
