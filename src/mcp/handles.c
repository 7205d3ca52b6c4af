// SPDX-License-Identifier: Apache-2.0
#include "mcp/handles.h"

#include <stdlib.h>

#include "client/opensandbox.h"

#include "base/banned.h"

static void handle_free(struct handle *h)
{
	osb_sandbox_free(h->sandbox);
	free(h);
}

void handle_release(struct handle *h)
{
	if (h && --h->users == 0 && h->is_dropped)
		handle_free(h);
}

static void drop(struct handle *h)
{
	h->is_dropped = true;
	if (h->users == 0)
		handle_free(h);
}

struct handle *handles_take(struct handles *b, const char *id)
{
	struct handle *h = map_get(&b->by_id, str_of(id));

	if (!h)
		return NULL;
	h->used = ++b->clock;
	h->users++;
	return h;
}

static void forget_oldest(struct handles *b)
{
	struct handle *h, *oldest = NULL;

	for (size_t i = 0; (h = map_next(&b->by_id, &i, NULL));)
		if (h->users == 0 && (!oldest || h->used < oldest->used))
			oldest = h;
	if (oldest)
		handles_drop(b, osb_sandbox_id(oldest->sandbox));
}

struct handle *handles_add(struct handles *b, struct osb_sandbox *sandbox)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h) {
		osb_sandbox_free(sandbox);
		return NULL;
	}
	handles_drop(b, osb_sandbox_id(sandbox));
	if (b->by_id.n >= HANDLES_MAX)
		forget_oldest(b);
	*h = (struct handle){ .sandbox = sandbox, .users = 1, .used = ++b->clock };
	if (map_put(&b->by_id, str_of(osb_sandbox_id(sandbox)), h))
		return h;
	handle_free(h);
	return NULL;
}

void handles_drop(struct handles *b, const char *id)
{
	struct handle *h = map_del(&b->by_id, str_of(id));

	if (h)
		drop(h);
}

void handles_done(struct handles *b)
{
	struct handle *h;

	for (size_t i = 0; (h = map_next(&b->by_id, &i, NULL));)
		drop(h);
	map_done(&b->by_id);
}
