// SPDX-License-Identifier: Apache-2.0
/* box/store_guard.h - keeps a store in an image writable when the disk of the host fills up (L7).
 *
 * The image is sparse: sandboxes together may be allowed to write more than the host has left. A write of a
 * sandbox that the host cannot store fails with EIO, and one of btrfs itself makes the store read-only for
 * all. So
 *
 * - all sandboxes together are limited to what they use and what the host has free: a write beyond fails with
 * EDQUOT in
 *    time. The limit is in the file system and holds between checks;
 * - the parts of the image that hold trees, which btrfs writes to new places with each commit, have blocks of
 * the host
 *    allocated at all times: other programs may fill the host's disk completely;
 * - blocks that sandboxes free are returned to the host now and then, not by btrfs itself, which would return
 * both kinds.
 *
 *     store_look(s, &look, e);                         measures, does not block
 *     plan = store_guard_plan(&guard, &look, now_ms);
 *     store_guard_apply(s, &plan, e);                  blocks: for a worker
 *     store_guard_note(&guard, &plan, now_ms);         when that has succeeded */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct box_store;
struct err;

struct store_look {
	uint64_t reserve, free; /* of the file system below */
	uint64_t bytes;         /* that sandboxes hold */
	uint64_t unwritten;     /* that they were promised besides */
	uint64_t trees;         /* the parts of the image that hold them */
	uint64_t backed;        /* what the image takes of the file system below */
};

struct store_guard {
	bool has_limit, has_trimmed;
	uint64_t limit;
	uint64_t trees;      /* that have their blocks */
	uint64_t unused;     /* of the image, which a trim did not get */
	uint64_t trimmed_ms, hurried_ms;
};

struct store_plan {
	bool limits, backs, trims;
	bool hurries; /* with what was removed: by default that takes until the next commit, half a minute */
	uint64_t limit, trees;
};

bool store_is_guarded(const struct box_store *s); /* it is in an image */
int store_look(const struct box_store *s, struct store_look *ret, struct err *e);
uint64_t store_look_room(const struct store_look *l); /* that sandboxes may still fill */
/* For who goes on writing: box_store_check_room() with what is promised, which the disk of the host does not have yet. */
int store_check_room(const struct box_store *s, struct err *e);
struct store_plan store_guard_plan(const struct store_guard *g, const struct store_look *l, uint64_t now_ms);
bool store_plan_is_empty(const struct store_plan *p);
int store_guard_apply(const struct box_store *s, const struct store_plan *p, struct err *e);
void store_guard_note(struct store_guard *g, const struct store_plan *p, uint64_t now_ms);
/* Whether what was removed may be waited for again: a commit writes back what all have written. */
bool store_guard_may_hurry(const struct store_guard *g, uint64_t now_ms);
/* The next look, after a trim: what it has not given back is in use, whoever counts it. */
void store_guard_settle(struct store_guard *g, const struct store_look *l);
