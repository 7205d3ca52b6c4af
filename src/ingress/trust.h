// SPDX-License-Identifier: Apache-2.0
/* ingress/trust.h - proxies in front of the gateway whose statement about their client is trusted. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/str.h"
#include "net/addr.h"

struct err;
struct http_head;

#define TRUST_MAX 64

struct trust_net {
	unsigned char bytes[16]; /* IPv4 in its mapped form */
	unsigned bits;           /* of these */
};

struct trust {
	struct trust_net nets[TRUST_MAX];
	size_t n;
};

int trust_add(struct trust *t, struct str text, struct err *e); /* "10.0.0.0/8", "::1" */
bool trust_has(const struct trust *t, const struct sockaddr *sa);

/* Who the request is from: PEER, or, as long as those that say so are trusted, the last one in
 * X-Forwarded-For that is not. The port is of no meaning. True: PEER is trusted. */
bool trust_client(const struct trust *t, const struct sockaddr *peer, const struct http_head *head,
		  struct addr *ret);
