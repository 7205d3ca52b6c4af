// SPDX-License-Identifier: Apache-2.0
/* access/gateway_socket.h - what a gateway and the server of the same host say to each other about connections into sandboxes.
 *
 * Fixed messages over a SEQPACKET socket (sys/passing.h). A gateway says hello with the API key. Then it asks for connections: each
 * question has one answer with its serial and, if that is DOOR_OPEN, a connected socket. That a sandbox is used is
 * told and not answered. Ports that need a token of the server's have no door. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/uuid.h"

#define DOOR_VERSION 1
#define DOOR_KEY_MAX 1024
#define DOOR_DIALS_MAX 128 /* questions of one gateway that are not answered: both sides' sockets hold as many */

enum door_kind {
	DOOR_HELLO = 1, /* text: the key, or empty */
	DOOR_DIAL,      /* text: the sandbox */
	DOOR_USED,      /* the same */
};

struct door_ask {
	uint32_t version, kind;
	uint64_t serial;
	uint32_t port;
	char text[DOOR_KEY_MAX + 1]; /* NUL-terminated; what is behind it is not sent */
};

enum door_status {
	DOOR_OPEN,    /* and a socket */
	DOOR_NOWHERE, /* no such sandbox, or none that can be called */
	DOOR_NOBODY,  /* nothing listens there */
	DOOR_REFUSED, /* not by this way */
};

struct door_answer {
	uint64_t serial;
	uint32_t status;
	uint32_t unused;
};

#define DOOR_HEAD offsetof(struct door_ask, text)

static inline size_t door_ask_size(const struct door_ask *ask)
{
	return DOOR_HEAD + str_of(ask->text).n + 1;
}
