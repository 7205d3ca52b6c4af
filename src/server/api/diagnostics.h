// SPDX-License-Identifier: Apache-2.0
/* server/api/diagnostics.h - diagnostics of a sandbox, as text. Pure. */
#pragma once
#include <stdbool.h>

#include "server/model/sandbox.h"

struct buf;

#define DIAGNOSTICS_MAX ((size_t)4 * 1024 * 1024)

/* The newest LIMIT events whose scope has its bit in SCOPES, oldest first, one per line. */
#define SCOPES_ALL ((1U << EVENT_SCOPES) - 1)
void text_events(struct buf *b, const struct sandbox *sb, unsigned scopes, unsigned limit);

/* Keys and values, one per line. INFO and STATS may be NULL. Of the environment the names are shown, never a
 * value. */
void text_inspect(struct buf *b, const struct sandbox *sb, const struct runtime_info *info,
		  const struct runtime_stats *stats);

/* ACTIVITY is the runtime's. The newest LIMIT targets, one per line; and the counts, as one line. */
void text_network(struct buf *b, struct str activity, unsigned limit);
void text_network_counts(struct buf *b, struct str activity);

void text_rule(struct buf *b, char c, unsigned n);
/* TEXT as valid UTF-8: what is ill-formed becomes U+FFFD. */
void text_utf8(struct buf *b, struct str text);

/* "10m", "1h", "30s", "2d" in milliseconds; anything else is ten minutes. */
uint64_t text_since_ms(struct str text);
