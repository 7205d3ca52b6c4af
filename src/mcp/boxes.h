// SPDX-License-Identifier: Apache-2.0
/* mcp/boxes.h - the sandboxes that this server knows: handles of the library by id, shared by all of its sessions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"

struct osb_sandbox;

#define BOXES_MAX 1024 /* known at once; beyond, the one that was used longest ago is forgotten */

struct box {
	struct osb_sandbox *handle;
	unsigned users;   /* calls that work with it */
	bool is_dropped;  /* freed with its last user */
	uint64_t used;
};

struct boxes {
	struct map by_id;
	uint64_t clock;
};

struct box *mcp_boxes_take(struct boxes *b, const char *id); /* held; NULL: not known */
struct box *mcp_boxes_add(struct boxes *b, struct osb_sandbox *handle); /* taken in any case, and held; NULL: no memory */
void mcp_boxes_drop(struct boxes *b, const char *id);
void mcp_box_release(struct box *box); /* NULL is fine */
void mcp_boxes_done(struct boxes *b);  /* nobody holds one any more */
