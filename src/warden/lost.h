// SPDX-License-Identifier: Apache-2.0
/* warden/lost.h - reconstructs a running box whose files are lost, from what the kernel knows of it. */
#pragma once
#include "warden/box_file.h"
#include "warden/stack.h"

struct err;
struct warden;

/* 1: programs run in box NUMBER, and RET names its sandbox, as running; its layers are unknown, and it is
 * taken for one with a policy if its link is up, so that nothing is opened for it. 0: nobody runs there, or a
 * parked child alone. -1: cannot tell. */
int lost_identify(struct warden *w, unsigned number, struct box_file *ret, struct stack *ret_stack,
		  struct err *e);
