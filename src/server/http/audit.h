// SPDX-License-Identifier: Apache-2.0
/* server/http/audit.h - the audit log: API calls with caller and outcome, and denied targets of sandboxes;
 * one JSON object per line, appended to a file.
 *
 * No query, no body, no header except the request's id, so that it contains no secret. A full file is renamed
 * to FILE.1. Like the log it neither fails nor blocks: lost lines are counted, and the next line that is
 * written has their number. */
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
/* Calls that have no line, since whoever makes them could fill the file:
 * {"ts":...,"event":"calls.left_out","what":...,"calls":N} */
void audit_left_out(struct audit *a, const char *what, uint64_t n);
