// SPDX-License-Identifier: Apache-2.0
/* ingress/gateway.h - one request from outside: its target, its authorisation, and its forwarding.
 *
 * It is the ctx of the gateway's HTTP service. The objects that it uses are made by others and outlive it. */
#pragma once
#include <stdbool.h>

#include "access/route_token.h"
#include "base/own.h"
#include "base/random.h"
#include "ingress/metrics.h"
#include "net/http/server.h"
#include "net/log_limit.h"
#include "net/loop.h"

struct attempts;
struct err;
struct intents;
struct loop;
struct lookup;
struct passing;
struct provider;
struct trust;

enum gateway_mode {
	GATEWAY_HEADER, /* by header, or by the first label of the host */
	GATEWAY_URI,
};

struct gateway_spec {
	struct loop *loop;
	enum gateway_mode mode;
	struct provider *provider;
	struct intents *intents; /* NULL: none are reported */
	const struct trust *trust; /* proxies in front of us */
};

struct gateway {
	struct gateway_spec spec;
	struct route_keys keys; /* may be replaced at any time */
	struct lookup *lookup;
	struct attempts *attempts;
	struct passing *passing; /* requests in progress */
	struct http_service service;         /* for clients */
	struct http_service metrics_service; /* for operators */
	struct http_server *http;            /* the owner's, for its counts; NULL: not yet */
	struct metrics metrics;
	struct random_pool random;
	struct timer look;
	struct log_limit refused, failed, unknown; /* log lines that peers can cause */
};

int gateway_init(struct gateway *g, const struct gateway_spec *spec, struct err *e);
/* cuts what is in progress; after the HTTP servers are gone, fine when not initialised */
void gateway_done(struct gateway *g);
