// SPDX-License-Identifier: Apache-2.0
/* client/remote.h - targets of requests: remotes (scheme, host and port, with their pooled connections), and
 * endpoints on them.
 *
 * There is one remote for each scheme, host and port: sandboxes behind the server's proxy share the server's
 * connections. Every address of a name is tried in turn; addresses are cached for REMOTE_REMEMBERS_MS. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "net/http/http1.h"

struct err;
struct http_client;
struct osb_client;
struct osb_map;
struct remote;

#define REMOTE_REMEMBERS_MS 60000
#define REMOTES_SPARE 8
#define REMOTE_HOST_MAX 253
#define ENDPOINT_HEADERS_MAX 32
#define ENDPOINT_TEXT_MAX 4096 /* of an address with its path */

/* "[scheme://]host[:port][/path]": an address as people and servers write it. */
struct address {
	bool has_scheme, is_tls;
	char host[REMOTE_HOST_MAX + 1]; /* without brackets */
	unsigned port;                  /* 0: the scheme's */
	char path[ENDPOINT_TEXT_MAX];   /* "" or "/a/b", without a slash at the end */
};
int address_parse(struct str text, struct address *ret, struct err *e); /* ERR_INVALID */

void remotes_free(struct osb_client *c); /* the spare ones */
struct http_client *remote_http(struct remote *r);
struct str remote_authority(const struct remote *r); /* for Host */

/* A place on a remote, with what must be sent along to it. */
struct endpoint {
	struct remote *remote;
	char *prefix; /* of every path: "" or "/sandboxes/x/proxy/44772" */
	struct http_header *headers;
	size_t n_headers;
};
/* As the server describes one; HEADERS may be NULL. What cannot stand in a request, or would frame one, is
 * refused. */
int endpoint_init(struct endpoint *ep, struct osb_client *c, const char *text, const struct osb_map *headers,
		  struct err *e);
void endpoint_done(struct endpoint *ep); /* fine on zeroes */
