// SPDX-License-Identifier: Apache-2.0
/* ingress/run.h - the gateway from its first socket to its last answer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingress/gateway.h"

struct err;

#define RUN_DRAIN_MS 10000

struct run_spec {
	const char *listen;  /* "ADDRESS:PORT", or NULL: PORT on all interfaces */
	unsigned port;
	const char *metrics; /* "ADDRESS:PORT" for operators; NULL: nowhere */
	enum gateway_mode mode;
	const char *user;
	const char *const *servers;
	size_t n_servers;
	const char *server_key_file, *server_ca_file, *gateway_socket;
	const char *const *proxies; /* in front, that are trusted */
	size_t n_proxies;
	const char *tls_cert, *tls_key;    /* NULL: plain */
	const char *keys, *keys_file;      /* of signed routes; of one id the file's counts */
	bool tells_intents;
	const char *redis_dsn, *redis_queue;
	uint64_t queue_max, interval_s;
};

/* Runs until SIGTERM or SIGINT: then no more connections are taken, requests in progress get RUN_DRAIN_MS,
 * and it returns 0; a second signal ends it at once, which is -1. SIGHUP reads certificate, keys and the
 * servers' key anew and looks their names up; what cannot be read stays as it was. Rights are given up before
 * the first request. The calling process has one thread and has called signals_prepare(). */
int run(const struct run_spec *spec, struct err *e);
