// SPDX-License-Identifier: Apache-2.0
/* client/op.h - operations: from the public function that begins one to its single end.
 *
 *     int osb_sandbox_get(struct osb_client *c, const char *id, struct osb_sandbox_info **ret, struct osb_call *call)
 *     {
 *         struct op *op = op_begin(c, call, "get sandbox", ret);
 *
 *         if (!op)
 *             return -1;
 *         op_send(op, &(struct ask){ .method = "GET", .model = &sandbox_info_model,
 *                                    .path = op_text(op, "/sandboxes/%s", op_segment(op, id, "id")) });
 *         return op_run(op);
 *     }
 *
 * None of these calls needs a check: after op_fail(), which these functions call too, all of them do nothing.
 * op_run() waits for the end, or returns and leaves the rest to the loop, as the caller has chosen. An
 * operation of several requests has on_answer functions that send the next request; each path through them
 * must end in op_done() or op_fail().
 *
 * After a call of a user's function (and after op_fail() and op_done()) check op_is_over(): the user may have
 * freed the call or the sandbox. Memory of the operation stays valid until the end of the loop's turn. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json_out.h"
#include "base/str.h"
#include "client/opensandbox.h"
#include "net/http/http1.h"
#include "net/loop.h"

struct endpoint;
struct err;
struct exchange;
struct json;
struct model;

#define OP_ARENA_MAX ((size_t)64 * 1024 * 1024)  /* copies of what the caller gave */
#define OP_BODY_MAX ((size_t)16 * 1024 * 1024)   /* of a request that is not a stream */
#define OP_ANSWER_MAX ((size_t)32 * 1024 * 1024) /* of an answer that is collected, unless the ask says otherwise */
#define OP_VALUES_MAX 2000000                    /* in the JSON of an answer */
#define OP_UNDO_MS 5000 /* for what has to be done after a failure: deleting what was made */

#define OP_NO_TIMEOUT UINT32_MAX

enum op_state {
	OP_IDLE,
	OP_RUNNING,
	OP_UNDOING, /* it has failed, and `undo` is at work */
	OP_OVER,
};

struct op {
	struct osb_client *client;
	struct osb_sandbox *sandbox; /* whose end ends it; or NULL */
	const char *what;            /* begins messages: "get sandbox" */
	struct arena arena;          /* for whatever it needs until it is over */
	void *state;                 /* of who wrote the operation, in the arena */
	/* Both may be NULL. on_end is told of every end, before anything is given out: what is not an
	 * exchange, a timer of the operation or in its arena goes there. undo is told once of a failure, when
	 * all exchanges but `is_kept` ones have been cancelled: true promises a call of op_undone() within
	 * OP_UNDO_MS (after which it is over all the same). */
	void (*on_end)(struct op *op);
	bool (*undo)(struct op *op);

	/* the engine's */
	enum op_state state_now;
	struct buf body;
	struct json_out body_out;
	void *ret, *result;
	void (*result_free)(void *result);
	struct exchange *exchanges;
	struct timer deadline, pause;
	void (*on_pause)(struct op *op);
	struct deferred later;
	struct osb_error error;
	bool is_waited_for;
};

/* ---- the frame ---- */

/* RET: where the pointer to the result goes, or NULL. NULL: the caller is refused (the call is busy, or this
 * is waiting inside of a call back), and has been told; the public function returns -1. */
struct op *op_begin(struct osb_client *c, struct osb_call *call, const char *what, void *ret);
struct op *op_begin_in(struct osb_sandbox *s, struct osb_call *call, const char *what, void *ret);
int op_run(struct op *op); /* what the public function returns */

static inline bool op_is_over(const struct op *op) /* nothing it does counts any more */
{
	return op->state_now != OP_RUNNING;
}

/* it has worked; the result, if there is one, was given to op_result() */
void op_done(struct op *op);
void op_result(struct op *op, void *result, void (*free_fn)(void *)); /* FREE_FN NULL: osb_free() */
void op_undone(struct op *op);

/* CODE NULL: the kind's own. The message is "<what>: <text>". */
void op_fail(struct op *op, enum osb_kind kind, const char *code, const char *fmt,
	     ...) __attribute__((format(printf, 4, 5)));
/* of something of ours that failed, or of the network */
void op_fail_err(struct op *op, const struct err *e);
void op_fail_as(struct op *op, const struct osb_error *e);
void op_no_memory(struct op *op);
/* B of what the caller gave has failed */
void op_fail_buf(struct op *op, const struct buf *b, const char *what);

void op_pause(struct op *op, uint64_t ms, void (*fn)(struct op *op)); /* calls FN then; one at a time */

/* ---- making requests ---- */

void *op_alloc(struct op *op, size_t n); /* zeroes; NULL after a failure */
char *op_copy(struct op *op, const char *z);
/* Never NULL: "" after a failure. */
const char *op_text(struct op *op, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Escaped for a path; NULL, "" and what could be read as another path are the caller's mistake, of the
 * argument NAME. */
const char *op_segment(struct op *op, const char *value, const char *name);
bool op_need(struct op *op, bool is_good, const char *problem); /* OSB_INVALID if not: "the id is missing" */
/* PATH with one more pair in its query; a VALUE of NULL adds none. */
const char *op_query(struct op *op, const char *path, const char *key, const char *value);

/* The body of the next op_send(): the members of one object, or whatever is written to it. */
struct json_out *op_body(struct op *op);
/* Members of an object that is open; what is NULL or empty is left out. */
void body_string(struct json_out *o, const char *key, const char *value);
void body_map(struct json_out *o, const char *key, const struct osb_map *m); /* a value of NULL is null */
void body_strings(struct json_out *o, const char *key, const struct osb_strings *s);

struct op_answer {
	unsigned status; /* 0: there was none */
	struct str body; /* with a NUL behind it; of streams empty */
	const struct osb_error *error; /* of what is no success (2xx) */
	void *tag;
};

struct ask {
	const struct endpoint *to; /* NULL: the server's API */
	const char *method, *path; /* behind the endpoint's prefix; escaped, with a query */
	const char *accept;        /* NULL: application/json */
	const struct http_header *headers;
	size_t n_headers;

	/* A body: what op_body() holds (application/json), or these bytes, or what READ gives. */
	const char *content_type;
	struct str bytes;
	osb_read_fn *read;
	void *read_arg;
	uint64_t length; /* of what READ gives; HTTP_UNSIZED */

	/* until the answer, of a stream until its head; 0: the client's; OP_NO_TIMEOUT */
	unsigned timeout_ms;
	size_t max;          /* of an answer that is collected; 0: OP_ANSWER_MAX */
	bool takes_failure;  /* on_answer is told of failures, which are not the operation's */
	bool is_kept;        /* goes on when the operation fails, for `undo` to hear its answer */
	const struct model *model; /* without on_answer: the result */
	void *tag;

	/* May be NULL. Of answers with 2xx only. With on_data the body is a stream: pieces as they come, not
	 * collected. */
	void (*on_head)(struct op *op, const struct http_head *head);
	void (*on_data)(struct op *op, struct str piece);
	/* The whole answer. NULL: the result is read by `model`, and the operation is done. */
	void (*on_answer)(struct op *op, const struct op_answer *a);
};

void op_send(struct op *op, const struct ask *ask);
void op_stop_asking(struct op *op); /* cancels its exchanges */

/* The JSON of an answer, in the operation's arena; NULL: it is none, and the operation has failed. */
const struct json *op_json(struct op *op, const struct op_answer *a);
/* Reads the result by MODEL and is done. NULL: done without a result. */
void op_answered(struct op *op, const struct op_answer *a, const struct model *model);

/* ---- errors ---- */

/* What an answer that is no success says: code and message of its body where it has them (clients.md 3.9),
 * else its status. */
void error_from_answer(struct osb_error *e, unsigned status, struct str body);
void error_from_err(struct osb_error *e, const struct err *from);
void error_set(struct osb_error *e, enum osb_kind kind, const char *code, const char *fmt,
	       ...) __attribute__((format(printf, 4, 5)));
void error_setv(struct osb_error *e, enum osb_kind kind, const char *code, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));

/* A struct that comes in: as much of FROM as its caller's version has (SIZE; 0: V1), the rest zeroes. */
void struct_take(void *to, size_t to_size, const void *from, size_t size, size_t v1);
