// SPDX-License-Identifier: Apache-2.0
/* server/http/auth.h - authentication: the API key, the paths that need none, and the protection of a server
 * without a key.
 *
 * Decisions are made from the raw head, before routing and before the body is read. Only a digest of the key
 * is stored. Without a key the server listens on loopback addresses only. A browser could be made to call it
 * by a foreign page, so Host must name a loopback address, and Origin, if present, this server. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "base/sha256.h"
#include "base/str.h"

struct err;
struct http_head;
struct route;

#define AUTH_HEADER "OPEN-SANDBOX-API-KEY"
#define AUTH_KEY_MIN 22 /* characters: 128 bits in base64 */

struct auth {
	bool has_key;
	unsigned char digest[SHA256_SIZE];
};

struct auth_policy {
	const char *api_key; /* NULL: none */
	bool allow_none;     /* an unsafe_ switch allows to run without one */
	bool allow_weak;     /* an unsafe_ switch allows a short one */
	bool is_loopback;    /* every address that will be listened on is one */
};

/* Refuses (ERR_DENIED) what the policy does not allow. */
int auth_init(struct auth *a, const struct auth_policy *policy, struct err *e);

enum auth_verdict {
	AUTH_OK,
	AUTH_EXEMPT,  /* needs no key */
	AUTH_MISSING, /* 401 MISSING_API_KEY */
	AUTH_INVALID, /* 401 INVALID_API_KEY */
	AUTH_HOST,    /* 403: without a key, another name for this server */
	AUTH_ORIGIN,  /* 403: without a key, a page of another origin */
};

/* PATH is the raw path of the request's target. ROUTES say what is open to everybody (ROUTE_PUBLIC). */
enum auth_verdict auth_check(const struct auth *a, const struct route *routes, const struct http_head *head,
			     struct str path,
			     bool is_secure);

/* OPTIONS with Origin and Access-Control-Request-Method */
bool auth_is_preflight(const struct http_head *head);

/* [/v1]/sandboxes/{id}/proxy/{digits}[/...], by whole raw segments: what is escaped, ".", ".." or empty up to
 * the port does not match. */
bool auth_is_proxy_path(struct str path);

/* /{id}/{port}/{expires}/{signature}[/...]: what the port of the endpoint proxy serves to whoever has been
 * given it. */
bool auth_is_signed_path(struct str path);

/* Whether the request has the key, or none is needed. */
bool auth_has_key(const struct auth *a, const struct http_head *head);

/* The same of what came by another way than a request. */
bool auth_is_key(const struct auth *a, struct str given);

/* a Host header: localhost, 127.0.0.0/8 or [::1], with any port */
bool auth_is_loopback_name(struct str host);
bool auth_is_loopback_addr(const struct sockaddr *sa);
bool auth_is_own_origin(struct str origin, struct str host, bool is_secure);
