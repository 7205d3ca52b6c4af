// SPDX-License-Identifier: Apache-2.0
/* server/proxy/access.h - authentication for sandboxes with secureAccess, and the tokens in their
 * endpoints. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct fault;
struct json_out;
struct request;
struct route_token;
struct sandbox;

#define ACCESS_HEADER "OpenSandbox-Secure-Access"

/* Whether RQ, which came by ROUTE (NULL: no signed one), may go in. -1: F. A gateway of ours has asked
 * itself. */
int access_admit(const struct request *rq, const struct sandbox *sb, const struct route_token *route,
		 struct fault *f);

/* ---- endpoints ---- */

struct endpoint_form {
	unsigned port;
	bool by_server;   /* on the port of the API */
	bool is_signed;
	uint64_t expires; /* if so */
};

/* -1: F, it cannot be signed until then. */
int endpoint_check(const struct request *rq, const struct endpoint_form *form, struct fault *f);
/* The members of the answer: "endpoint" and, if there are any, "headers". */
void endpoint_write(const struct request *rq, const struct sandbox *sb, const struct endpoint_form *form,
		    struct json_out *o);
