// SPDX-License-Identifier: Apache-2.0
#include "box/store_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "box/store.h"
#include "sys/btrfs.h"
#include "sys/room.h"

#include "base/banned.h"

#define LIMIT_STEP (UINT64_C(4) << 20) /* limits that differ by less are the same */
#define TRIM_MIN (UINT64_C(64) << 20)  /* what a trim has to promise */
#define TRIM_EVERY_MS 5000
#define PRESSED_TRIM_MIN (UINT64_C(4) << 20)
#define PRESSED_EVERY_MS 500
#define HURRY_EVERY_MS 1000 /* for those who were refused: from the end of one to the next */
#define BACK_STEP (UINT64_C(16) << 20)

bool store_is_guarded(const struct box_store *s)
{
	return s->image >= 0;
}

int store_look(const struct box_store *s, struct store_look *ret, struct err *e)
{
	struct btrfs_total total;
	struct room room;
	struct stat st;

	if (room_look(s->state, s->reserve_bytes, &room, e) < 0 || btrfs_total_usage(&s->fs, &total, e) < 0 ||
	    btrfs_trees_size(&s->fs, &ret->trees, e) < 0)
		return -1;
	if (fstat(s->image, &st) < 0)
		return err_sys(e, errno, "look at the image of all disks");
	ret->reserve = room.reserve;
	ret->free = room.free;
	ret->bytes = total.bytes;
	ret->unwritten = total.unwritten;
	ret->backed = (uint64_t)st.st_blocks * 512;
	return 0;
}

/* ---- the plan ---- */

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Half of the reserve is kept from sandboxes, the other half from everybody who begins something new. A file can be allocated
 * without being written: that is a promise, too. */
static uint64_t promised(const struct store_look *l)
{
	return l->unwritten + less(l->bytes, l->backed);
}

uint64_t store_look_room(const struct store_look *l)
{
	return less(l->free, l->reserve / 2 + promised(l));
}

int store_check_room(const struct box_store *s, struct err *e)
{
	struct store_look l;

	if (box_store_check_room(s, e) < 0)
		return -1;
	if (!store_is_guarded(s))
		return 0;
	if (store_look(s, &l, e) < 0)
		return -1;
	return l.free < l.reserve + promised(&l) ? room_refuse(e) : 0;
}

/* Of the image: what nobody holds any more. */
static uint64_t unused(const struct store_look *l)
{
	return less(l->backed, l->bytes + l->unwritten + l->trees);
}

struct store_plan store_guard_plan(const struct store_guard *g, const struct store_look *l, uint64_t now_ms)
{
	uint64_t room = store_look_room(l), limit = l->bytes + l->unwritten + room;
	bool is_pressed = room < l->reserve / 8;
	struct store_plan p = { .limit = limit, .trees = l->trees };

	p.limits = !g->has_limit || distance(limit, g->limit) > (is_pressed ? 0 : MAX(room / 8, LIMIT_STEP));
	p.backs = l->trees != g->trees;
	p.trims = less(unused(l), g->unused) > (is_pressed ? PRESSED_TRIM_MIN : TRIM_MIN) &&
		  (!g->has_trimmed || now_ms - g->trimmed_ms >= (is_pressed ? PRESSED_EVERY_MS : TRIM_EVERY_MS));
	p.hurries = is_pressed && now_ms - g->hurried_ms >= PRESSED_EVERY_MS;
	return p;
}

bool store_guard_may_hurry(const struct store_guard *g, uint64_t now_ms)
{
	return g->hurried_ms == 0 || now_ms - g->hurried_ms >= HURRY_EVERY_MS;
}

bool store_plan_is_empty(const struct store_plan *p)
{
	return !p->limits && !p->backs && !p->trims && !p->hurries;
}

void store_guard_note(struct store_guard *g, const struct store_plan *p, uint64_t now_ms)
{
	if (p->limits) {
		g->has_limit = true;
		g->limit = p->limit;
	}
	if (p->backs)
		g->trees = p->trees;
	if (p->trims) {
		g->has_trimmed = true;
		g->trimmed_ms = now_ms;
	}
	if (p->hurries || p->trims)
		g->hurried_ms = now_ms;
}

void store_guard_settle(struct store_guard *g, const struct store_look *l)
{
	g->unused = unused(l);
}

/* ---- applying it ---- */

/* An eighth of the reserve is for others. What is not done now is done when there is more room: see note(). */
static int back(const struct box_store *s, const struct btrfs_place *p, struct err *e)
{
	for (uint64_t at = p->at; at < p->at + p->bytes; at += BACK_STEP) {
		struct room room;

		if (room_look(s->state, s->reserve_bytes, &room, e) < 0)
			return -1;
		if (room.free < room.reserve / 8)
			return room_refuse(e);
		if (fallocate(s->image, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)MIN(BACK_STEP, p->at + p->bytes - at)) < 0 &&
		    errno != EOPNOTSUPP)
			return err_sys(e, errno, "keep room for the image of all disks");
	}
	return 0;
}

static int trim(const struct box_store *s, const struct btrfs_place *p, struct err *e)
{
	return btrfs_trim(&s->fs, p, e);
}

typedef int place_fn(const struct box_store *s, const struct btrfs_place *p, struct err *e);

static int for_each(const struct box_store *s, bool is_data, place_fn *fn, struct err *e)
{
	struct btrfs_place p;
	uint64_t from = 0;
	int r;

	while ((r = btrfs_chunk_next(&s->fs, from, &p, e)) > 0) {
		if (p.is_data == is_data && fn(s, &p, e) < 0)
			return -1;
		from = p.at + p.bytes;
	}
	return r;
}

/* What was removed is free with a commit, and only then can be given back. */
int store_guard_apply(const struct box_store *s, const struct store_plan *p, struct err *e)
{
	if (p->limits && btrfs_total_limit(&s->fs, MAX(p->limit, UINT64_C(1)), e) < 0)
		return -1;
	if ((p->hurries || p->trims) && btrfs_sync(&s->fs, e) < 0)
		return -1;
	if (p->trims && for_each(s, true, trim, e) < 0)
		return -1;
	return p->backs ? for_each(s, false, back, e) : 0;
}
