// SPDX-License-Identifier: Apache-2.0
/* net/tls.h - TLS 1.2 and 1.3 as transports.
 *
 * The handshake is driven by the first sends and receives of the transport's owner, under the owner's timers.
 * A transport keeps what it needs of its server or client alive, so these may be freed before it. After
 * EAGAIN a caller must offer the same bytes again, followed by others if it likes: OpenSSL has sealed them
 * already. */
#pragma once
#include <stdbool.h>

#include "base/own.h"

struct err;
struct tls_client;
struct tls_server;
struct transport;
struct transport_maker;

/* ---- servers ---- */

struct tls_server_options { /* paths of PEM files, copied */
	const char *cert_path; /* the certificate and what leads from it to its root */
	const char *key_path;
	/* clients must show a certificate by one of these; NULL: none is asked for */
	const char *client_ca_path;
};

struct tls_server *tls_server_new(const struct tls_server_options *options, struct err *e);
void tls_server_free(struct tls_server *s); /* NULL is fine */
DEFINE_AUTO(struct tls_server *, tls_server_free)

/* Reads the files again. On failure the old ones stay in use; connections that stand are not touched. */
int tls_server_reload(struct tls_server *s, struct err *e);

/* For http_server_listen(). S must outlive the listener. */
struct transport_maker tls_server_maker(struct tls_server *s);

/* ---- clients ---- */

struct tls_client_options {
	const char *ca_path;   /* PEM file of the roots to trust; NULL: the system's */
	const char *cert_path; /* to show to servers that ask, with its key; NULL: none */
	const char *key_path;
	bool is_insecure; /* takes any certificate: for a user who asked for just that */
};

struct tls_client *tls_client_new(const struct tls_client_options *options, struct err *e);
void tls_client_free(struct tls_client *c); /* NULL is fine */
DEFINE_AUTO(struct tls_client *, tls_client_free)

/* Who the other side must be. Owned by the caller, alive as long as its maker is in use. */
struct tls_target {
	struct tls_client *client;
	const char *host; /* a name or a numeric address, without a port */
};
struct transport_maker tls_client_maker(struct tls_target *target); /* for struct dial_spec and the HTTP client */
