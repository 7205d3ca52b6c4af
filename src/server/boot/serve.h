// SPDX-License-Identifier: Apache-2.0
/* server/boot/serve.h - the server from its first socket to its last answer. */
#pragma once
#include "server/config/config.h"
#include "server/http/auth.h"
#include "server/http/listen.h"

struct asset;
struct err;
struct runtime_kind;

enum { /* what the program exits with when serving failed */
	SERVE_FAILED = 1,
	SERVE_DAMAGED = 3, /* the database */
	SERVE_RUNNING = 4, /* another server has the state directory */
};

/* Where clients come in: the API's port, and that of the endpoint proxy. */
struct serve_port {
	struct listen_plan plan;
	int fds[LISTEN_ADDRESSES_MAX];
	size_t n;
};

struct serve_sockets {
	struct serve_port api, proxy;
	int gateway_socket; /* -1: none */
};

int serve_listen(const struct config *c, struct serve_sockets *ret, struct err *e);
void serve_sockets_done(struct serve_sockets *s);

/* The key as a digest; it is wiped from the configuration. ERR_INVALID for what may not be served without one. */
int serve_auth(struct config *c, const char *const *env, struct auth *ret, struct err *e);

struct serve_spec {
	const struct config *config;
	const struct auth *auth;
	const struct asset *(*find_asset)(const char *name);
	const struct runtime_kind *kind; /* what sandboxes run on. NULL: there are none, and their routes do not exist */
	struct serve_sockets *sockets; /* taken one by one */
	const char *state_dir; /* of the server's own files */
	bool has_network; /* see runtime/kind.h */
	const char *network_lacks; /* see runtime.h */
	int (*drop_rights)(void *arg, struct err *e); /* called once log, certificate and key are open */
	void *drop_arg;
	int ready_fd;    /* taken; gets a byte once requests are answered, and from then on those of net/pulse.h. -1: none */
	/* For the supervisor: done once, instead of serving; without sockets. NULL: serve(). */
	int (*job)(const struct serve_spec *spec, struct err *e);
	int *ret_status; /* set on failure */
};

/* Runs until SIGTERM or SIGINT: then no more connections are taken, requests in progress get limits.drain_seconds,
 * and it returns 0. A second signal ends it at once, which is -1 with ERR_UNAVAILABLE. SIGHUP opens the log and
 * reads the certificate anew.
 * Nothing is left half-started when it fails. The calling process must have one thread and have called
 * signals_prepare(). */
int serve(const struct serve_spec *spec, struct err *e);
