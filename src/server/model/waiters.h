// SPDX-License-Identifier: Apache-2.0
/* server/model/waiters.h - replies that wait for the same thing: each is told once, in the order in which they came. */
#pragma once
#include "base/list.h"
#include "server/model/sandbox.h"

struct waiters {
	struct list list;
};

int waiters_add(struct waiters *w, sandbox_fn *fn, void *arg, struct fault *f);
/* F NULL: SB. Nobody waits afterwards, but who has come during a callback. */
void waiters_tell(struct waiters *w, struct sandbox *sb, const struct fault *f);
void waiters_done(struct waiters *w); /* without telling anybody */
