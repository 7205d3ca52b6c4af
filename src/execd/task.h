// SPDX-License-Identifier: Apache-2.0
/* execd/task.h - the child's side of execd/work.h: ordinary blocking code that answers one request.
 *
 * The child is a copy of execd: it sees the request, its arena and the configuration as they were at the
 * fork. A work_fn decodes, acts and answers with one of the functions below; returning -1 without an answer
 * is one too: ERR_INVALID 400, ERR_NOT_FOUND 404, ERR_LIMIT of ours 413, everything else 500. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json_out.h"
#include "execd/users.h"
#include "execd/work.h"
#include "net/http/url.h"

struct execd_config;
struct json;

#define TASK_ARENA_MAX ((size_t)32 * 1024 * 1024)
#define TASK_OUT_WHOLE ((size_t)4 * 1024 * 1024) /* a longer body goes out before it is known to become whole */
#define TASK_OUT_MAX ((size_t)32 * 1024 * 1024)  /* one step may add that much */
#define TASK_OUT_PIECE ((size_t)256 * 1024)      /* bytes that are collected once a body goes out */

struct task {
	const struct execd_config *config;
	const struct request *rq;
	struct str body; /* of JSON */
	struct query query;
	struct arena arena;
	int root;        /* "/" */
	mode_t umask;
	uint64_t deadline_ms;
	struct users_text users;
	bool has_users;
	struct buf out; /* of a body that has been begun */
	enum work_answer kind;
	bool has_begun, is_streaming, has_answered;
	bool is_lost; /* the answer has no reader */
};

/* Answers. The error functions return -1. */
int task_empty(struct task *t);
int task_fail(struct task *t, unsigned status, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* What went wrong with the file that the peer calls SENT: 404 when it does not exist, else 500; a path that
 * cannot be one 400. Both return -1. */
int task_fail_path(struct task *t, struct str sent, const struct err *why);
int task_fail_runtime(struct task *t, struct str sent, const struct err *why); /* 500 whatever it was */

/* A body of 200: begin, add to t->out, call task_spill() every now and then, end. */
struct json_out task_json(struct task *t);
void task_text(struct task *t);
int task_spill(struct task *t, struct err *e);
int task_end(struct task *t, struct err *e);

int task_in_time(const struct task *t, struct err *e); /* ERR_TIMEOUT */
bool task_is_late(const struct task *t);

/* The body as JSON; -1 after having answered 400 or 413. */
const struct json *task_body(struct task *t, struct err *e);

/* The users of the sandbox, read when first asked for. */
const struct users_text *task_users(struct task *t, struct err *e);

/* In the child, instead of a program: a spawn_setup_fn. -1: it could not begin. */
struct task_start {
	const struct execd_config *config;
	const struct request *rq;
	struct str body;
	const struct work_spec *spec;
};
int task_run(void *start, struct err *e);
