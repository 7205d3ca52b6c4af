// SPDX-License-Identifier: Apache-2.0
/* server/boot/admin.h - the commands' way to the server that runs with the same configuration: its own API, with its own key. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"
#include "net/addr.h"
#include "net/tls.h"

struct config;
struct err;
struct http_client;
struct http_header;
struct loop;

struct admin {
	struct loop *loop;
	struct http_client *client;
	struct tls_target tls; /* its client is NULL: plain */
	struct buf host, key;
	struct addr to;
};

int admin_open(struct admin *a, const struct config *c, struct err *e);
void admin_close(struct admin *a);
DEFINE_AUTO_DONE(struct admin, admin_close)

/* Where a body comes from: bytes written to OUT, 0 at the end, -1. */
typedef long admin_read_fn(char *out, size_t max, void *arg, struct err *e);
/* Where an answer with a status below 300 goes. -1: stop. */
typedef int admin_take_fn(struct str piece, void *arg, struct err *e);

struct admin_call {
	const char *method, *target, *type; /* the latter of the body, or NULL */
	struct str body;
	admin_read_fn *read; /* instead of it */
	uint64_t length;     /* of what that gives; UINT64_MAX: not known */
	admin_take_fn *take; /* NULL: the answer is dropped */
	void *arg;
};

/* Until it is over. An answer that is an error becomes one, with the server's words. */
int admin_run(struct admin *a, const struct admin_call *call, struct err *e);
