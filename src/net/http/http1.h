// SPDX-License-Identifier: Apache-2.0
/* net/http/http1.h - the HTTP/1.1 codec: heads, chunked bodies, and nothing lenient about either (RFC 9112).
 *
 * Pure: bytes in, views of those bytes out. What could be read in two ways is refused: CRLF only, exactly one
 * Host, one Content-Length or one "chunked", no folding, no blanks before a colon, no control bytes. Request
 * targets are in origin form (or "*"): there is no second place that names a host. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

#define HTTP_HEADERS_MAX 100
#define HTTP_LINE_MAX (32 * 1024)   /* request or status line */
#define HTTP_BLOCK_MAX (32 * 1024)  /* header fields */
#define HTTP_HEAD_MAX (HTTP_LINE_MAX + HTTP_BLOCK_MAX)
#define HTTP_LENGTH_MAX (1ULL << 53) /* of a body: what every peer can count exactly */

enum http_framing {
	HTTP_NO_BODY,
	HTTP_LENGTH,
	HTTP_CHUNKED,
	HTTP_UNTIL_CLOSE, /* responses only */
};

struct http_header {
	struct str name, value; /* as written; the value without blanks around it */
};

struct http_head {
	struct str method, target; /* of a request */
	unsigned status;           /* of a response */
	unsigned minor;            /* HTTP/1.minor */
	enum http_framing framing;
	uint64_t length;           /* with HTTP_LENGTH */
	bool keep_alive;           /* the peer can take another message after this one */
	bool expects_continue;
	bool has_upgrade;          /* Connection: upgrade and an Upgrade header */
	struct str host;
	size_t size; /* bytes up to and with the empty line */
	size_t n_headers;
	struct http_header headers[HTTP_HEADERS_MAX];
};

/* How far a head has been looked at while it arrives: each byte is scanned once. Zero it for each message. */
struct http_scan {
	size_t at;         /* bytes seen */
	size_t line_start; /* of the line being looked at */
	size_t first_line; /* its length, once complete */
	bool is_complete;  /* the empty line has been seen */
};

struct http_fault {
	unsigned status; /* to answer with */
	const char *why;
};

/* Whether the head is complete: what the two below begin with, for who wants to know before making room for
 * one. */
int http_scan(struct http_scan *s, struct str in, struct http_fault *f);

/* IN is everything received so far, from the start of the head. 1: *h is complete and its views point into
 * IN; 0: more is needed; -1: *f gives the reason. */
int http_request_head(struct http_scan *s, struct str in, struct http_head *h, struct http_fault *f);
int http_response_head(struct http_scan *s, struct str in, bool is_head_request, struct http_head *h,
		       struct http_fault *f);

const struct http_header *http_find(const struct http_head *h, const char *name); /* the first, or NULL */
struct str http_value(const struct http_head *h, const char *name);               /* of the first, or empty */
/* Of the connection and not of the message (RFC 9110 section 7.6.1), or what frames the message: not for
 * proxies to pass. */
bool http_is_hop_by_hop(const struct http_head *h, struct str name);
bool http_list_has(struct str list, const char *token); /* "a, b" as in Connection; case-insensitive */

/* Chunked bodies, decoded in place. Zero the struct for each body. */
struct http_chunked {
	int state;
	unsigned digits, extension, trailer; /* bytes seen of each, against their ceilings */
	uint64_t left;                       /* of the current chunk */
};

enum http_chunk {
	HTTP_CHUNK_BAD = -1,
	HTTP_CHUNK_MORE,
	HTTP_CHUNK_DATA, /* *ret_data is a piece of the body */
	HTTP_CHUNK_END,  /* the body and its trailers are complete; the rest of *in is not part of it */
};

/* Advances *in over what it understood. Trailers are checked and dropped. */
enum http_chunk http_chunk_next(struct http_chunked *c, struct str *in, struct str *ret_data,
				const char **ret_why);

/* Writing. */
const char *http_reason(unsigned status);
bool http_is_token(struct str s);       /* a method or header name */
bool http_is_field_value(struct str s); /* no control bytes but HTAB, no blanks at the ends */
#define HTTP_REQUEST_ID_MAX 128
bool http_is_request_id(struct str s); /* visible ASCII and blanks: fit for a header and a log */
