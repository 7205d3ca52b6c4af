// SPDX-License-Identifier: Apache-2.0
/* egress/denials.h - what was denied to any sandbox, numbered, for who keeps a record of it elsewhere and asks now and then. What it
 * does not ask for in time is lost, and counted. It says what it has kept, so that who comes after it goes on from there. */
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
void denials_keep(struct denials *d, uint64_t number); /* it is on record, with all before it; others than there are do not count */
/* Those behind the one with the number AFTER: {"since":...,"next":...,"lost":...,"items":[...]} */
void denials_write(const struct denials *d, uint64_t after, struct json_out *o);
