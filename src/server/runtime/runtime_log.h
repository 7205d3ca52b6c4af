// SPDX-License-Identifier: Apache-2.0
/* server/runtime/runtime_log.h - the log of a sandbox out of its two segments. Every byte of them was written inside of it. */
#pragma once
#include <stdbool.h>

struct buf;
struct err;
struct runtime_log_query;

/* The newest lines that QUERY asks for, oldest first. *ret_is_cut: there were more than fit into TEXT. */
int runtime_log_read(const int segments[2], const struct runtime_log_query *query, struct buf *text, bool *ret_is_cut,
		     struct err *e);
