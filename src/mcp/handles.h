// SPDX-License-Identifier: Apache-2.0
/* mcp/handles.h - handles of known sandboxes by id, shared by all sessions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"

struct osb_sandbox;

#define HANDLES_MAX 1024 /* known at once; beyond, the one that was used longest ago is forgotten */

struct handle {
	struct osb_sandbox *sandbox;
	unsigned users;   /* calls that work with it */
	bool is_dropped;  /* freed with its last user */
	uint64_t used;
};

struct handles {
	struct map by_id;
	uint64_t clock;
};

struct handle *handles_take(struct handles *b, const char *id); /* held; NULL: not known */
/* taken in any case, and held; NULL: no memory */
struct handle *handles_add(struct handles *b, struct osb_sandbox *sandbox);
void handles_drop(struct handles *b, const char *id);
void handle_release(struct handle *h); /* NULL is fine */
void handles_done(struct handles *b);  /* none may be in use */
