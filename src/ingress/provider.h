// SPDX-License-Identifier: Apache-2.0
/* ingress/provider.h - providers find sandboxes: a table of functions, one table for each kind of backend. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"

struct arena;
struct err;
struct http_client;
struct http_header;
struct http_request;
struct sandbox_port;
struct loop;
struct provider;
struct search;

#define PROVIDER_TOKEN_MAX 255
#define PROVIDER_WHY_MAX 160
#define PROVIDER_HEADERS_MAX 4 /* that a provider adds to a request */

enum found {
	FOUND_READY,
	FOUND_NOT_READY, /* there is one, but requests cannot go there */
	FOUND_NOWHERE,
	FOUND_FAILED,    /* the search failed */
};

struct finding {
	enum found found;
	char token[PROVIDER_TOKEN_MAX + 1]; /* that a request needs; empty: none */
	unsigned place, detail;             /* the provider's own */
	char why[PROVIDER_WHY_MAX];         /* unless it is ready */
};

/* How a request goes; the way is the provider's own, NULL: it keeps no account of it. */
struct led {
	struct http_client *client;
	struct sandbox_port *way;
};

typedef void finding_fn(const struct finding *f, void *arg);

struct provider_ops {
	/* Leads to one call of FN, from the loop, unless it is cancelled. NULL: E. ID is id_valid(). */
	struct search *(*find)(struct provider *p, const char *id, finding_fn *fn, void *arg, struct err *e);
	void (*cancel)(struct search *s);
	/* Completes OUT, whose headers have room for PROVIDER_HEADERS_MAX more and whose target is the
	 * sandbox's own, for a request to PORT of the sandbox ID; and how it goes, until it has left. */
	int (*lead)(struct provider *p, const struct finding *f, const char *id, unsigned port,
		    struct arena *a,
		    struct http_request *out, struct http_header *headers, struct led *ret, struct err *e);
	void (*used)(struct sandbox_port *way); /* it still moves bytes */
	void (*left)(struct sandbox_port *way);
	/* What an operator has changed. On failure everything is as it was. */
	int (*reload)(struct provider *p, struct err *e);
	void (*free)(struct provider *p);
};

/* The head of every provider; its own state follows. */
struct provider {
	const struct provider_ops *ops;
};

static inline void provider_free(struct provider *p)
{
	if (p)
		p->ops->free(p);
}
DEFINE_AUTO(struct provider *, provider_free)

/* ---- servers of ours ---- */

#define SERVERS_MAX 16

struct servers_spec {
	struct loop *loop;
	const char *const *urls; /* http://HOST[:PORT] or https://... */
	size_t n;
	const char *key_file; /* the API key of all of them; NULL: they have none */
	const char *ca_file;  /* for https; NULL: the system's */
	const char *gateway_socket; /* of the first server (access/gateway_socket.h); NULL: none */
};

/* Names are looked up here and with each reload: this may block. */
struct provider *provider_servers(const struct servers_spec *spec, struct err *e);
