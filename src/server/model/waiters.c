// SPDX-License-Identifier: Apache-2.0
#include "server/model/waiters.h"

#include <stdlib.h>

#include "base/banned.h"

struct waiter {
	struct list_node at;
	sandbox_fn *fn;
	void *arg;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of W, which is in a list */
int waiters_add(struct waiters *w, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct waiter *one = malloc(sizeof(*one));

	if (!one)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	*one = (struct waiter){ .fn = fn, .arg = arg };
	list_append(&w->list, &one->at);
	return 0;
}
#pragma GCC diagnostic pop

void waiters_tell(struct waiters *w, struct sandbox *sb, const struct fault *f)
{
	struct list now = w->list;
	struct waiter *one;

	w->list = (struct list){ 0 };
	while ((one = LIST_TAKE(&now, struct waiter, at))) {
		one->fn(f ? NULL : sb, f, one->arg);
		free(one);
	}
}

void waiters_done(struct waiters *w)
{
	struct waiter *one;

	while ((one = LIST_TAKE(&w->list, struct waiter, at)))
		free(one);
}
