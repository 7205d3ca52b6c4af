// SPDX-License-Identifier: Apache-2.0
/* bench/lib/client.h - an HTTP client that costs next to nothing: one blocking connection that is kept, one request at a
 * time, the whole answer. It trusts the server under test, and gives up on anything unexpected. */
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

#define CLIENT_ANSWER_MAX (4 * 1024 * 1024)
#define CLIENT_REQUEST_MAX 8192

struct client {
	int fd;
	char *bytes;      /* of the answer */
	size_t n;
	unsigned status;
	struct str body;  /* chunks as they came */
};

static inline _Noreturn void client_die(const char *what)
{
	(void)fprintf(stderr, "bench: client: %s\n", what);
	exit(1);
}

static inline void client_open(struct client *c, unsigned port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;

	*c = (struct client){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .bytes = malloc(CLIENT_ANSWER_MAX + 1) };
	if (c->fd < 0 || !c->bytes || connect(c->fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		client_die("cannot connect");
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static inline void client_close(struct client *c)
{
	(void)close(c->fd);
	free(c->bytes);
}

/* Where the answer ends, or 0: not yet. Sets status and body. */
static inline size_t client_end_of_answer(struct client *c)
{
	char *end = memmem(c->bytes, c->n, "\r\n\r\n", 4), *field;
	uint64_t length = 0;
	size_t head;

	if (!end)
		return 0;
	head = (size_t)(end - c->bytes) + 4;
	c->body = (struct str){ c->bytes + head, c->n - head };
	if (c->n < 12 || !str_to_u64((struct str){ c->bytes + 9, 3 }, 100, 599, &length))
		client_die("not an answer");
	c->status = (unsigned)length;
	field = memmem(c->bytes, head, "\r\nContent-Length: ", 18);
	if (field) {
		struct str digits = { field + 18, 0 };

		while (digits.p[digits.n] >= '0' && digits.p[digits.n] <= '9')
			digits.n++;
		if (!str_to_u64(digits, 0, CLIENT_ANSWER_MAX, &length))
			client_die("a strange length");
		return c->body.n >= length ? head + (size_t)length : 0;
	}
	if (memmem(c->bytes, head, "\r\nTransfer-Encoding: chunked", 28))
		return str_ends(c->body, STR("\r\n0\r\n\r\n")) ? c->n : 0;
	return head; /* 204 */
}

static inline void client_send(const struct client *c, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL);

		if (sent <= 0)
			client_die("cannot send");
		bytes += sent;
		n -= (size_t)sent;
	}
}

/* HEADERS: whole lines, or "". Returns the status. */
static inline unsigned client_call(struct client *c, const char *method, const char *path, const char *headers, const char *body)
{
	char request[CLIENT_REQUEST_MAX];
	int n = snprintf(request, sizeof(request),
			 "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", method,
			 path, headers, strlen(body), body);

	if (n < 0 || (size_t)n >= sizeof(request))
		client_die("request too long");
	client_send(c, request, (size_t)n);
	c->n = 0;
	do {
		ssize_t got = c->n < CLIENT_ANSWER_MAX ? recv(c->fd, c->bytes + c->n, CLIENT_ANSWER_MAX - c->n, 0) : 0;

		if (got <= 0)
			client_die("the connection ended");
		c->n += (size_t)got;
		c->bytes[c->n] = '\0';
	} while (client_end_of_answer(c) == 0);
	return c->status;
}

/* The string behind "KEY":" in the answer. */
static inline void client_string(const struct client *c, const char *key, char *out, size_t size)
{
	char pattern[64];
	const char *at, *end;

	(void)snprintf(pattern, sizeof(pattern), "\"%s\":\"", key);
	at = strstr(c->body.p, pattern);
	at = at ? at + strlen(pattern) : NULL;
	end = at ? strchr(at, '"') : NULL;
	if (!end || (size_t)(end - at) >= size)
		client_die("the answer lacks a field");
	memcpy(out, at, (size_t)(end - at));
	out[end - at] = '\0';
}

/* The number behind "KEY": in the answer's body. */
static inline uint64_t client_number(const struct client *c, const char *key)
{
	char pattern[64];
	const char *at;
	struct str digits = { 0 };
	uint64_t v;

	(void)snprintf(pattern, sizeof(pattern), "\"%s\":", key);
	at = strstr(c->body.p, pattern);
	digits.p = at ? at + strlen(pattern) : "";
	while (digits.p[digits.n] >= '0' && digits.p[digits.n] <= '9')
		digits.n++;
	if (!str_to_u64(digits, 0, UINT64_MAX, &v))
		client_die("the answer lacks a number");
	return v;
}
