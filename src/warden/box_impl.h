// SPDX-License-Identifier: Apache-2.0
/* warden/box_impl.h - what the files that work on a box share. */
#pragma once
#include "warden/box.h"

int box_add_waiter(struct box *b, const struct ticket *t, struct err *e);
void box_answer_waiters(struct box *b, uint32_t call, const struct err *failure); /* those who wait for CALL */
void box_next_work(struct box *b); /* a worker is done: whatever is due next */
