// SPDX-License-Identifier: Apache-2.0
#include "mcp/boxes.h"

#include <stdlib.h>

#include "client/opensandbox.h"

#include "base/banned.h"

static void box_free(struct box *box)
{
	osb_sandbox_free(box->handle);
	free(box);
}

void mcp_box_release(struct box *box)
{
	if (box && --box->users == 0 && box->is_dropped)
		box_free(box);
}

static void drop(struct box *box)
{
	box->is_dropped = true;
	if (box->users == 0)
		box_free(box);
}

struct box *mcp_boxes_take(struct boxes *b, const char *id)
{
	struct box *box = map_get(&b->by_id, str_of(id));

	if (!box)
		return NULL;
	box->used = ++b->clock;
	box->users++;
	return box;
}

static void forget_oldest(struct boxes *b)
{
	struct box *box, *oldest = NULL;

	for (size_t i = 0; (box = map_next(&b->by_id, &i, NULL));)
		if (box->users == 0 && (!oldest || box->used < oldest->used))
			oldest = box;
	if (oldest)
		mcp_boxes_drop(b, osb_sandbox_id(oldest->handle));
}

struct box *mcp_boxes_add(struct boxes *b, struct osb_sandbox *handle)
{
	struct box *box = calloc(1, sizeof(*box));

	if (!box) {
		osb_sandbox_free(handle);
		return NULL;
	}
	mcp_boxes_drop(b, osb_sandbox_id(handle));
	if (b->by_id.n >= BOXES_MAX)
		forget_oldest(b);
	*box = (struct box){ .handle = handle, .users = 1, .used = ++b->clock };
	if (map_put(&b->by_id, str_of(osb_sandbox_id(handle)), box))
		return box;
	box_free(box);
	return NULL;
}

void mcp_boxes_drop(struct boxes *b, const char *id)
{
	struct box *box = map_del(&b->by_id, str_of(id));

	if (box)
		drop(box);
}

void mcp_boxes_done(struct boxes *b)
{
	struct box *box;

	for (size_t i = 0; (box = map_next(&b->by_id, &i, NULL));)
		drop(box);
	map_done(&b->by_id);
}
