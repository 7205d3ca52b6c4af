// SPDX-License-Identifier: Apache-2.0
/* server/http/audit.h - who called what, with which outcome, and what sandboxes were denied: one JSON object per line and call, or
 * target, appended to a file.
 *
 * No query, no body, no header but the request's id: nothing that could be a secret. A file that has grown is kept as
 * FILE.1 and begun anew. Like the log it neither fails nor waits: a line that cannot be written is counted, and the next
 * one that can be says how many are missing. */
#pragma once
#include <stdint.h>

#include "base/own.h"

struct audit;
struct err;
struct request;
struct runtime_denial;

#define AUDIT_FILE_MAX ((uint64_t)64 * 1024 * 1024)

struct audit *audit_open(const char *dir, struct err *e); /* DIR/audit.jsonl */
void audit_close(struct audit *a);                        /* NULL is fine */
DEFINE_AUTO(struct audit *, audit_close)

/* What a sandbox was not let reach: {"ts":...,"event":"network.denied","sandbox":...,"kind":...,...} */
void audit_denial(struct audit *a, const struct runtime_denial *d);
void audit_write(struct audit *a, const struct request *rq, unsigned status, uint64_t body_bytes);
/* Calls that have no line, since whoever makes them could fill the file: {"ts":...,"event":"calls.left_out","what":...,"calls":N} */
void audit_left_out(struct audit *a, const char *what, uint64_t n);
