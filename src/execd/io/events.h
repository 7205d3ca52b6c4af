// SPDX-License-Identifier: Apache-2.0
/* execd/io/events.h - the events of an execution stream, each one line of bare JSON and an empty line,
 * appended to a buf.
 *
 * A buf whose ceiling is reached fails; a caller that can split its text looks at `failed` and restores the
 * buf. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;
struct process_end;

#define EVENT_MAX ((size_t)4 * 1024 * 1024 - 16 * 1024) /* bytes of one event: a client takes lines of less than 4 MiB */
#define EVENT_TEXT_MAX (EVENT_MAX / 6 - 64)        /* text of this length fits whatever it consists of */

enum event_stream { EVENT_STDOUT, EVENT_STDERR };

void event_init(struct buf *b, struct str id);
void event_ping(struct buf *b);

/* How an event ends, with the time at which that was made: many texts may share one. */
struct event_stamp {
	char z[48];
	size_t n;
};
void event_stamp(struct event_stamp *ret);
void event_text(struct buf *b, enum event_stream stream, struct str text, const struct event_stamp *stamp);

void event_complete(struct buf *b, uint64_t took_ms);

/* An error that has words of its own. */
struct code_error;
void event_error(struct buf *b, const struct code_error *er);
struct code_result;
void event_result(struct buf *b, const struct code_result *r); /* after an execution_count, if there is one */

/* A command that could not be started: there is no exit code. */
void event_not_started(struct buf *b, const char *why);

/* The end of a process: execution_complete for exit 0, else an error with the code, 128 + n for signal n. */
void event_end(struct buf *b, const struct process_end *end, uint64_t took_ms, bool is_oom);

struct end_text {
	char z[96];
};
/* "exit status 1", "signal: killed" */
const char *end_text(const struct process_end *end, struct end_text *out);
int exit_code_of(const struct process_end *end); /* 128 + n for signal n */
/* by SIGKILL, or it was a shell that says so of what it ran */
bool is_killed(const struct process_end *end);
