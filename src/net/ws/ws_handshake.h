// SPDX-License-Identifier: Apache-2.0
/* net/ws/ws_handshake.h - the opening handshake of a WebSocket, both sides (RFC 6455 section 4). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define WS_KEY_LEN 24
#define WS_ACCEPT_LEN 28

/* The values of a GET request's headers, empty where absent. A header that may be repeated comes joined by ",
 * ". */
struct ws_request {
	struct str connection, upgrade, version, key;
};

enum ws_handshake {
	WS_HANDSHAKE_NONE,    /* not a WebSocket request */
	WS_HANDSHAKE_OK,      /* answer 101 with ws_accept() */
	WS_HANDSHAKE_BAD,     /* 400 */
	WS_HANDSHAKE_VERSION, /* 426 with "Sec-WebSocket-Version: 13" */
};

enum ws_handshake ws_handshake_check(const struct ws_request *rq);

bool ws_key_valid(struct str key); /* 16 bytes in base64 */
void ws_key_make(const uint8_t bytes[16], char out[WS_KEY_LEN + 1]);
void ws_accept(struct str key, char out[WS_ACCEPT_LEN + 1]); /* Sec-WebSocket-Accept for that key */
bool ws_accept_matches(struct str key, struct str accept);   /* the server's answer belongs to our key */

/* The first offered protocol that is in SUPPORTED (NULL-terminated, case matters), as a view of OFFERED. */
bool ws_protocol_choose(struct str offered, const char *const *supported, struct str *ret_protocol);
