// SPDX-License-Identifier: Apache-2.0
/* access/gateway_socket.h - protocol between a gateway and a server of the same host, for connections into
 * sandboxes.
 *
 * Fixed messages over a SEQPACKET socket (sys/passing.h). The gateway first sends HELLO with the API key.
 * Each DIAL request has one reply with its serial; with status GATEWAY_OK a connected socket comes along.
 * USED (the sandbox is in use) has no reply. Ports that need a token of the server (execd, egress) are
 * refused. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/uuid.h"

#define GATEWAY_VERSION 1
#define GATEWAY_KEY_MAX 1024
#define GATEWAY_DIALS_MAX 128 /* open requests of one gateway; the socket buffers of both sides hold that many */

enum gateway_request_kind {
	GATEWAY_HELLO = 1, /* text: the API key, or empty */
	GATEWAY_DIAL,      /* text: the sandbox's id */
	GATEWAY_USED,      /* text: the sandbox's id */
};

struct gateway_request {
	uint32_t version, kind;
	uint64_t serial;
	uint32_t port;
	char text[GATEWAY_KEY_MAX + 1]; /* NUL-terminated; bytes after the NUL are not sent */
};

enum gateway_status {
	GATEWAY_OK,          /* with a connected socket */
	GATEWAY_NO_SANDBOX,  /* unknown, or not running */
	GATEWAY_NO_LISTENER, /* nothing listens at that port */
	GATEWAY_REFUSED,     /* use the proxy instead */
};

struct gateway_reply {
	uint64_t serial;
	uint32_t status;
	uint32_t unused;
};

#define GATEWAY_REQUEST_HEAD offsetof(struct gateway_request, text)

static inline size_t gateway_request_size(const struct gateway_request *rq)
{
	return GATEWAY_REQUEST_HEAD + str_of(rq->text).n + 1;
}
