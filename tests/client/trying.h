// SPDX-License-Identifier: Apache-2.0
/* For programs that call the library against a real server: each operation is waited for, or driven by poll(2), as `call` says.
 * The first thing that is not as it should be ends the program with 1. */
#pragma once
#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/opensandbox.h"

static struct osb_client *client;
static struct osb_call *call; /* NULL: operations are waited for */
static bool is_done;

static inline void on_done(struct osb_call *c, void *arg)
{
	(void)c;
	*(bool *)arg = true;
}

static inline void turn(int most_ms)
{
	struct pollfd p = { .fd = osb_client_fd(client), .events = POLLIN };
	int ms = osb_client_timeout_ms(client);

	if (poll(&p, 1, most_ms >= 0 && (ms < 0 || ms > most_ms) ? most_ms : ms) < 0 || osb_client_dispatch(client, 0) < 0)
		err(1, "poll");
}

/* What an operation that was begun ended with. */
static inline int drive(int begun)
{
	if (!call)
		return begun;
	if (begun < 0)
		errx(1, "an operation that calls back returned -1: %s", osb_client_error(client)->message);
	while (!is_done)
		turn(-1);
	return osb_call_error(call)->kind == OSB_OK ? 0 : -1;
}

static inline const struct osb_error *error(void)
{
	return call ? osb_call_error(call) : osb_client_error(client);
}

#define TRY(operation) (is_done = false, drive(operation))
#define MUST(operation) \
	do { \
		if (TRY(operation) < 0) \
			errx(1, "line %d: %s: %s (%s, %d, %s)", __LINE__, #operation, error()->message, error()->code, error()->http_status, \
			     error()->request_id); \
	} while (0)
#define CHECK(fact) \
	do { \
		if (!(fact)) \
			errx(1, "line %d: not so: %s", __LINE__, #fact); \
	} while (0)
#define FAILS(operation, kind_, status) \
	do { \
		if (TRY(operation) == 0) \
			errx(1, "line %d: it works: %s", __LINE__, #operation); \
		if (error()->kind != (kind_) || error()->http_status != (status)) \
			errx(1, "line %d: %s: kind %d, status %d: %s", __LINE__, #operation, error()->kind, error()->http_status, error()->message); \
	} while (0)

static inline bool same(const char *a, const char *b)
{
	return a && strcmp(a, b) == 0;
}

static inline void show(const char *what, const void *result)
{
	char *json = osb_to_json(result);

	CHECK(json);
	printf("%s %s\n", what, json);
	free(json);
}

static inline void kill_and_free(struct osb_sandbox *s)
{
	char id[128];

	(void)snprintf(id, sizeof(id), "%s", osb_sandbox_id(s));
	osb_sandbox_free(s);
	MUST(osb_sandbox_kill(client, id, call));
}

static inline uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Runs EVERYTHING twice: waiting, and called back. argv: DOMAIN KEY. */
static inline int try_both(int argc, char **argv, void (*everything)(void))
{
	struct osb_options options = OSB_OPTIONS;
	struct osb_error e;

	if (argc != 3)
		errx(2, "usage: %s DOMAIN KEY", argv[0]);
	options.domain = argv[1];
	options.api_key = argv[2];
	options.use_server_proxy = getenv("USE_SERVER_PROXY");
	options.ca_file = getenv("CA_FILE"); /* then the domain says https:// */
	client = osb_client_new(&options, &e);
	if (!client)
		errx(1, "%s", e.message);
	everything();
	printf("waiting: ok\n");
	call = osb_call_new(client);
	CHECK(call);
	osb_call_on_done(call, on_done, &is_done);
	everything();
	osb_call_free(call);
	osb_client_free(client);
	printf("calling back: ok\n");
	return 0;
}
