// SPDX-License-Identifier: Apache-2.0
/* fetch/registry.h - one registry, or a mirror of it: authentication and requests.
 *
 * Credentials are sent to the registry itself, and to its token realm if that is in the same domain or named
 * by the operator; tokens to the registry only. Neither is sent to the target of a redirect. */
#pragma once
#include <stdbool.h>

#include "base/own.h"
#include "fetch/http.h"

#define REDIRECTS_MAX 5
#define TRIES_MAX 5         /* in a row, without any progress */
#define PAUSE_MS 500U       /* before the second of them, doubled with each */
#define AUTHORIZATION_MAX ((size_t)32 * 1024)

struct registry {
	struct session session;
	const struct order *order;
	bool has_credentials;     /* that may be sent there */
	char root[URL_MAX];       /* "https://host:port/v2/" */
	struct target at;         /* of it */
	struct buf authorization; /* value of the header; empty: not asked for yet */
};

/* HOST is asked as OWNER's mirror, or is it itself. Finds out how it is spoken to, and is let in. */
struct registry_spec {
	const struct order *order;
	struct asker *asker;
	const struct own_addresses *own;
	const char *host;
	bool is_mirror;
	uint64_t deadline_ms;
};
int registry_open(struct registry *r, const struct registry_spec *spec, struct err *e);
void registry_close(struct registry *r);
DEFINE_AUTO_DONE(struct registry, registry_close)

/* A request that is followed through redirects, challenges and failures that pass. */
struct call {
	struct transfer t;
	struct registry *r;
	char path[512]; /* below /v2/ */
	unsigned redirects, tries;
	bool was_challenged;
	uint64_t again_ms; /* with CALL_PAUSED */
};

void call_init(struct call *c, struct registry *r, const char *path);
void call_done(struct call *c);
DEFINE_AUTO_DONE(struct call, call_done)

int call_begin(struct call *c, struct err *e);

enum call_step {
	CALL_FAILED = -1, /* E */
	CALL_GOES_ON,
	CALL_PAUSED, /* to be begun again at again_ms */
	CALL_OVER,   /* there is an answer: 2xx, or 404 */
};
/* Once its transfer is over. */
enum call_step call_step(struct call *c, struct err *e);
int call_follow(struct call *c, struct err *e); /* begin, and step until it is over */
