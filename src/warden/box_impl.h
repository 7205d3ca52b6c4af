// SPDX-License-Identifier: Apache-2.0
/* warden/box_impl.h - shared by the files that work on a box. */
#pragma once
#include "warden/box.h"

int box_add_waiter(struct box *b, const struct ticket *t, struct err *e);
/* those who wait for CALL */
void box_answer_waiters(struct box *b, uint32_t call, const struct err *failure);
void box_next_work(struct box *b); /* a worker is done: whatever is due next */
void box_retry_later(struct box *b); /* the same after a pause, longer each time */
/* After the failure of a worker that may have frozen it: it goes on, and THEN is called. Should that fail it
 * is tried again, until it is so or the box is over; THEN is called after the first time. */
void box_let_go_on(struct box *b, box_fn *then);
void box_thaw_again(struct box *b); /* if that is due */

/* box_order.c */
int box_check_create(const struct warden *w, const struct wire_request *rq, struct err *e);
struct slot_limits box_limits_of(const struct wire_request *rq);
/* b->like */
void box_find_like(struct box *b, const struct wire_request *rq, const struct image_use *use, int spec);
/* Writes down whose the slot is, before anything of it is given away. */
int box_claim(struct box *b, const struct wire_request *rq, const struct image_use *use, int record,
	      struct err *e);
