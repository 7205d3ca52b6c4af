// SPDX-License-Identifier: Apache-2.0
/* Writing the head of a request, from parts that are checked: nothing in them can end a line. */
#include "net/http/client_impl.h"

#include "base/banned.h"

#define METHOD_MAX 32

/* These describe the message or the connection and not the request: they are written here or not at all. */
static bool is_ours(struct str name)
{
	static const char *const ours[] = {
		"connection", "content-length", "expect",  "host",    "keep-alive", "proxy-connection",
		"te",         "trailer",        "transfer-encoding", "upgrade",
	};

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (str_eq_nocase(name, str_of(ours[i])))
			return true;
	return false;
}

static bool is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
			return false;
	return s.n > 0;
}

static bool is_method(const struct http_request *rq, const char *name)
{
	return str_is(rq->method, name);
}

static int check_line(const struct http_request *rq, struct err *e)
{
	if (!http_is_token(rq->method) || rq->method.n > METHOD_MAX || is_method(rq, "CONNECT"))
		return err_set(e, ERR_INVALID, "a method that cannot be sent");
	if (!is_visible(rq->target) || (rq->target.p[0] != '/' && !str_is(rq->target, "*")))
		return err_set(e, ERR_INVALID, "a request target that is not an escaped path");
	if (rq->target.n > HTTP_LINE_MAX - METHOD_MAX - sizeof("  HTTP/1.1\r\n"))
		return err_set(e, ERR_LIMIT, "a request target of %zu bytes", rq->target.n);
	if (!is_visible(rq->host))
		return err_set(e, ERR_INVALID, "a host that cannot stand in a header");
	if (rq->upgrade && !http_is_token(str_of(rq->upgrade)))
		return err_set(e, ERR_INVALID, "a protocol name that cannot stand in a header");
	return 0;
}

static int write_headers(struct buf *out, const struct http_request *rq, struct err *e)
{
	for (size_t i = 0; i < rq->n_headers; i++) {
		const struct http_header *h = &rq->headers[i];

		if (!http_is_token(h->name) || !http_is_field_value(h->value))
			return err_set(e, ERR_INVALID, "header %zu of a request has bytes that cannot be sent", i + 1);
		if (is_ours(h->name))
			return err_set(e, ERR_INVALID, "header '%.*s' is written by the client itself",
				       (int)MIN(h->name.n, (size_t)64), h->name.p);
		buf_addf(out, "%.*s: %.*s\r\n", STR_ARG(h->name), STR_ARG(h->value));
	}
	return 0;
}

static void write_framing(struct buf *out, const struct http_request *rq)
{
	if (rq->source && rq->length == HTTP_UNSIZED)
		buf_addf(out, "Transfer-Encoding: chunked\r\n");
	else if (rq->source)
		buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)rq->length);
	else if (rq->body.n > 0 || is_method(rq, "POST") || is_method(rq, "PUT") || is_method(rq, "PATCH"))
		buf_addf(out, "Content-Length: %zu\r\n", rq->body.n);
}

int call_write_head(struct http_call *call, const struct http_request *rq, bool closes, struct err *e)
{
	static const char *const idempotent[] = { "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE" };
	struct buf *out = &call->out;

	call->is_head = is_method(rq, "HEAD");
	for (size_t i = 0; i < ARRAY_LEN(idempotent); i++)
		call->is_idempotent |= is_method(rq, idempotent[i]);
	if (check_line(rq, e) < 0)
		return -1;
	if (rq->source && rq->length != HTTP_UNSIZED && rq->length > HTTP_LENGTH_MAX)
		return err_set(e, ERR_LIMIT, "a body of more than 2^53 bytes");
	if (rq->n_headers > HTTP_HEADERS_MAX - 4) /* room for ours */
		return err_set(e, ERR_LIMIT, "%zu headers in a request", rq->n_headers);
	buf_addf(out, "%.*s %.*s HTTP/1.1\r\nHost: %.*s\r\n", STR_ARG(rq->method), STR_ARG(rq->target), STR_ARG(rq->host));
	if (rq->upgrade)
		buf_addf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", rq->upgrade);
	else if (closes)
		buf_addf(out, "Connection: close\r\n");
	if (write_headers(out, rq, e) < 0)
		return -1;
	write_framing(out, rq);
	buf_addf(out, "\r\n");
	if (out->n > HTTP_HEAD_MAX)
		return err_set(e, ERR_LIMIT, "a request head of more than %d bytes", HTTP_HEAD_MAX);
	if (rq->body.n > HTTP_CLIENT_BODY_MAX)
		return err_set(e, ERR_LIMIT, "a request body of %zu bytes", rq->body.n);
	buf_add_str(out, rq->body);
	return out->failed ? err_no_memory(e) : 0;
}
