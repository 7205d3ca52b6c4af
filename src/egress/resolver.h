// SPDX-License-Identifier: Apache-2.0
/* egress/resolver.h - the resolver of all sandboxes, over UDP and TCP (W6, W7).
 *
 * A query is checked before anything is sent upstream. The addresses of its answer are opened before the
 * sandbox gets the answer; if that fails, the query fails (E15). */
#pragma once
#include <stdbool.h>

#include "base/own.h"

struct egress;
struct err;
struct resolver;
struct sandbox;

#define QUESTIONS_MAX 64      /* of one sandbox, on their way */
#define TCP_CLIENTS_MAX 16    /* of one sandbox */
#define TCP_CLIENTS_ALL 1024
#define TCP_CLIENT_IDLE_MS 10000
#define TTL_MAX (360 - 60)    /* of an answer: not longer than what it lets reach (learned.h) */

struct resolver *resolver_new(struct egress *g, struct err *e);
void resolver_free(struct resolver *r); /* no sandbox is left; NULL is fine */
/* The sockets that it listens on from now on: a datagram socket and a listener. Both are taken on success. */
int resolver_listen(struct resolver *r, int *udp, int *tcp, struct err *e);
bool resolver_is_listening(const struct resolver *r);
void resolver_drop(struct sandbox *s); /* all that it has asked */
