// SPDX-License-Identifier: Apache-2.0
/* client/client_impl.h - the client and its calls, for the files of this folder. client/op.h explains how to
 * write an operation. */
#pragma once
#include <stdatomic.h>

#include "base/arena.h"
#include "base/random.h"
#include "client/op.h"
#include "client/opensandbox.h"
#include "client/remote.h"
#include "net/loop.h"

struct tls_client;

/* How other threads reach a client. Each of its calls has a hold on it: a thread that cancels one while the
 * client is freed has its descriptor in hands, and that number must not be another file by then. */
struct wake {
	atomic_uint holders;
	int fd; /* an eventfd: some call is cancelled */
};

struct osb_call {
	struct osb_client *client; /* NULL: it was freed */
	struct osb_call *prev, *next;
	osb_done_fn *fn;
	void *arg;
	unsigned deadline_ms;
	char request_id[128]; /* "": one is made up */
	atomic_bool is_cancelled;
	struct wake *wake; /* NULL: the client's own call, which cannot be cancelled */
	bool is_dead; /* osb_call_free() came while something was under way */
	struct osb_error error;
	struct op op;
};

struct osb_client {
	struct loop *loop;
	struct arena arena; /* of the options */
	unsigned request_timeout_ms, max_idle;
	bool use_server_proxy, is_tls;
	const char *user_agent;
	const char *ca_file;
	bool is_insecure;
	struct endpoint server; /* with the API key (the first header, if has_key) and what the options add */
	struct endpoint root;   /* the same, without /v1 */
	bool has_key;
	struct remote *remotes;
	struct tls_client *tls; /* made when first needed */
	struct osb_call *calls;
	struct osb_call own;    /* of operations that have no call */
	struct osb_sandbox *sandboxes;
	struct osb_pty *ptys;
	struct osb_error error; /* of the last operation that waited */
	struct random_pool random; /* for request ids */
	struct wake *wake;
	struct io wake_io;
	bool is_turning;        /* a call back may be running: nobody waits inside one */
	bool is_closing;
};

void wake_unref(struct wake *w); /* NULL is fine */

/* One turn of the loop; ERR is what the loop says. */
int client_turn(struct osb_client *c, int wait_ms, struct err *e);
