// SPDX-License-Identifier: Apache-2.0
/* client/event.h - one event of a stream of execd, from its JSON. Pure. */
#pragma once
#include "base/str.h"
#include "client/opensandbox.h"

struct arena;
struct err;

#define EVENT_ARENA_MAX ((size_t)256 * 1024 * 1024) /* a line of STREAM_LINE_MAX with its copies */

/* 1: an event, whose strings live in A. 0: nothing to tell: a ping, a type that we do not know, no JSON. -1:
 * no memory, or a ceiling of base/json.h. A bare {"code","message"}, what a failure in the middle of a stream
 * may look like, is an error of that name and value. */
int event_parse(struct str json, struct arena *a, struct osb_event *ret, struct err *e);
