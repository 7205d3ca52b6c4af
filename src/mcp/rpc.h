// SPDX-License-Identifier: Apache-2.0
/* mcp/rpc.h - JSON-RPC 2.0 as MCP uses it: messages, and lines of them that arrive in pieces.
 *
 * An id is a string or an integer and is returned exactly as it came; two ids are equal if their texts are.
 * All input comes from a model's host and is bounded and untrusted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct err;
struct json;
struct json_out;

enum rpc_code { /* the protocol's own */
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_NO_METHOD = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_BUSY = -32000,
	RPC_NOT_FOUND = -32002,
};

#define RPC_DEPTH_MAX 32
#define RPC_ID_MAX 256    /* bytes of an id, as JSON */
#define RPC_METHOD_MAX 128
#define RPC_BATCH_MAX 64  /* messages in one array */

struct rpc_id {
	char text[RPC_ID_MAX + 1]; /* JSON; "" is no id */
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

struct rpc_message {
	enum rpc_kind kind;
	struct rpc_id id;    /* of requests and responses */
	struct str method;   /* not of a response */
	const struct json *params; /* an object, or NULL */
};

/* -1 with ERR_INVALID: V is no message. Its id is in *ret all the same, if it has one that can be used. */
int rpc_read(const struct json *v, struct rpc_message *ret, struct err *e);
/* false: neither a string nor an integer, or too long */
bool rpc_id_read(const struct json *v, struct rpc_id *ret);

/* {"jsonrpc":"2.0","id":ID,"result": and the closing bracket: the result is written between them. */
struct json_out rpc_result_open(struct buf *b, const struct rpc_id *id);
void rpc_result_close(struct json_out *o);
void rpc_error(struct buf *b, const struct rpc_id *id, enum rpc_code code, struct str message);
/* The same for a notification's params. */
struct json_out rpc_notify_open(struct buf *b, const char *method);
#define rpc_notify_close rpc_result_close

/* Lines that arrive in pieces. A line beyond the ceiling is dropped up to its end, and told of once. */
struct rpc_lines {
	struct buf held; /* its max is the ceiling */
	bool is_dropping;
};
/* without its end; empty if it is too long */
typedef void rpc_line_fn(struct str line, bool is_too_long, void *arg);

void rpc_lines_feed(struct rpc_lines *l, struct str piece, rpc_line_fn *fn, void *arg);
/* a last line without an end counts, too */
void rpc_lines_end(struct rpc_lines *l, rpc_line_fn *fn, void *arg);
