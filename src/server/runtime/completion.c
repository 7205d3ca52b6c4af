// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/completion.h"

#include <stdlib.h>

#include "base/log.h"

#include "base/banned.h"

void completion_fail(const struct completion *c, const struct runtime_failure *failure)
{
	switch (c->kind) {
	case COMPLETION_NONE: break;
	case COMPLETION_DONE: c->fn.done(failure, c->arg); break;
	case COMPLETION_DIAL: c->fn.dial(NULL, failure, c->arg); break;
	case COMPLETION_TEXT: c->fn.text((struct str){ "", 0 }, false, failure, c->arg); break;
	case COMPLETION_INFO: c->fn.info(NULL, failure, c->arg); break;
	case COMPLETION_STATS: c->fn.stats(NULL, failure, c->arg); break;
	case COMPLETION_LIST: c->fn.list(NULL, 0, failure, c->arg); break;
	case COMPLETION_SNAPSHOT: c->fn.snapshot(NULL, failure, c->arg); break;
	case COMPLETION_NAMES: c->fn.names(NULL, 0, failure, c->arg); break;
	case COMPLETION_SNAPSHOTS: c->fn.snapshots(NULL, failure, c->arg); break;
	case COMPLETION_PACKED: c->fn.packed(NULL, failure, c->arg); break;
	case COMPLETION_LAYERS: c->fn.layers(NULL, 0, failure, c->arg); break;
	case COMPLETION_IMAGE: c->fn.image(NULL, failure, c->arg); break;
	case COMPLETION_IMAGES: c->fn.images(NULL, 0, failure, c->arg); break;
	case COMPLETION_PARTS: (void)c->fn.parts(NULL, failure, c->arg); break;
	}
}

int refusals_init(struct refusals *r, struct loop *l, struct err *e)
{
	*r = (struct refusals){ .loop = l, .items = calloc(REFUSALS_MAX, sizeof(*r->items)) }; /* pages that nobody touches cost nothing */
	return r->items ? 0 : err_no_memory(e);
}

void refusals_done(struct refusals *r)
{
	defer_cancel(&r->later);
	free(r->items);
	r->items = NULL;
	r->n = 0;
}

/* Those that come while these are told wait for the next turn. */
static void on_later(void *arg)
{
	struct refusals *r = arg;
	size_t n = r->n;

	for (size_t i = 0; i < n; i++) {
		struct refusal now = r->items[i];

		completion_fail(&now.completion, now.failure);
	}
	r->n -= n;
	for (size_t i = 0; i < r->n; i++)
		r->items[i] = r->items[n + i];
	if (r->n > 0)
		defer(&r->later, r->loop, on_later, r, "refused calls");
}

void refuse(struct refusals *r, const struct completion *c, const struct runtime_failure *failure)
{
	if (r->n == REFUSALS_MAX) {
		log_error("too many calls of the runtime fail at once"); /* the next start recovers, a forgotten call would not */
		abort();
	}
	r->items[r->n++] = (struct refusal){ *c, failure };
	defer(&r->later, r->loop, on_later, r, "refused calls");
}

void refusals_forget(struct refusals *r, const void *arg)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->items[i].completion.arg == arg)
			r->items[i].completion.kind = COMPLETION_NONE;
}
