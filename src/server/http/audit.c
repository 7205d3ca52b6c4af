// SPDX-License-Identifier: Apache-2.0
#include "server/http/audit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/rfc3339.h"
#include "base/uuid.h"
#include "net/http/server.h"
#include "net/loop.h"
#include "server/http/service.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define LINE_MAX_BYTES 8192
#define PATH_SHOWN_MAX 512 /* bytes of a path; what follows the port of a proxied one is the client's affair */

struct audit {
	int fd;
	uint64_t size;
	uint64_t dropped;
	char *path, *old_path;
};

static int open_file(struct audit *a, struct err *e)
{
	struct stat st;
	int fd = open(a->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", a->path);
	closep(&a->fd);
	a->fd = fd;
	a->size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	return 0;
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	closep(&a->fd);
	free(a->path);
	free(a->old_path);
	free(a);
}

struct audit *audit_open(const char *dir, struct err *e)
{
	AUTO(audit_close) struct audit *a = calloc(1, sizeof(*a));

	if (!a) {
		(void)err_no_memory(e);
		return NULL;
	}
	a->fd = -1;
	if (asprintf(&a->path, "%s/audit.jsonl", dir) < 0)
		a->path = NULL;
	if (asprintf(&a->old_path, "%s/audit.jsonl.1", dir) < 0)
		a->old_path = NULL;
	if (!a->path || !a->old_path) {
		(void)err_no_memory(e);
		return NULL;
	}
	if (open_file(a, e) < 0)
		return NULL;
	return take_ptr(&a);
}

static void write_peer(struct json_out *o, const struct sockaddr *peer)
{
	char text[INET6_ADDRSTRLEN] = "local";
	const void *p = peer;

	if (peer->sa_family == AF_INET)
		(void)inet_ntop(AF_INET, &((const struct sockaddr_in *)p)->sin_addr, text, sizeof(text));
	else if (peer->sa_family == AF_INET6)
		(void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)p)->sin6_addr, text, sizeof(text));
	json_key(o, "peer"), json_cstr(o, text);
}

/* What is behind the port of policies is ours as well: who changed one is to be seen. */
static bool is_about_a_policy(const struct request *rq)
{
	return rq->rest.n > 0 && rq->params[1].p && str_is(rq->params[1], "18080");
}

/* The path as far as it names things of ours. */
static struct str shown_path(const struct request *rq)
{
	struct str path = service_logged_path(rq);
	size_t n = path.n;

	if (path.n == rq->path.n && rq->rest.n > 0 && rq->rest.n < n && !is_about_a_policy(rq))
		n -= rq->rest.n;
	return str_first(path, MIN(n, (size_t)PATH_SHOWN_MAX));
}

/* The sandbox that the path names, or that the call made. */
static void write_sandbox_id(struct json_out *o, const struct request *rq)
{
	struct str id = service_noted(rq);

	if (id.n == 0 && rq->route && str_starts(str_of(rq->route->path), STR("/sandboxes/:id")))
		id = rq->params[0];
	if (id_valid(id))
		json_key(o, "sandbox"), json_str(o, id);
}

static void write_line(struct audit *a, const struct request *rq, unsigned status, uint64_t body_bytes, struct buf *line)
{
	struct json_out o = json_out(line);
	char now[RFC3339_SIZE];

	(void)rfc3339_format_ms(clock_wall(), now);
	json_open(&o, '{');
	json_key(&o, "ts"), json_cstr(&o, now);
	json_key(&o, "request_id"), json_str(&o, rq->id);
	write_peer(&o, rq->peer);
	json_key(&o, "method"), json_str(&o, str_first(rq->head->method, 32));
	json_key(&o, "path"), json_str(&o, shown_path(rq));
	json_key(&o, "route"), rq->route ? json_cstr(&o, rq->route->path) : json_cstr(&o, "");
	write_sandbox_id(&o, rq);
	json_key(&o, "status"), json_uint(&o, status);
	json_key(&o, "bytes"), json_uint(&o, body_bytes);
	json_key(&o, "took_ms"), json_uint(&o, loop_now_ms(request_loop(rq)) - rq->began_ms);
	if (a->dropped > 0)
		json_key(&o, "dropped"), json_uint(&o, a->dropped);
	json_close(&o, '}');
	buf_add_char(line, '\n');
}

static void rotate(struct audit *a)
{
	if (a->size < AUDIT_FILE_MAX)
		return;
	(void)rename(a->path, a->old_path); /* if not, the file goes on growing and is tried again */
	(void)open_file(a, &(struct err){ 0 });
}

static void put(struct audit *a, const struct buf *line)
{
	ssize_t n = line->failed ? -1 : write(a->fd, line->p, line->n);

	if (n < 0 || (size_t)n != line->n) {
		a->dropped++;
		return;
	}
	a->dropped = 0;
	a->size += (uint64_t)n;
	rotate(a);
}

void audit_write(struct audit *a, const struct request *rq, unsigned status, uint64_t body_bytes)
{
	AUTO(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);

	write_line(a, rq, status, body_bytes, &line);
	put(a, &line);
}

void audit_left_out(struct audit *a, const char *what, uint64_t n)
{
	AUTO(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	struct json_out o = json_out(&line);
	char now[RFC3339_SIZE];

	(void)rfc3339_format_ms(clock_wall(), now);
	json_open(&o, '{');
	json_key(&o, "ts"), json_cstr(&o, now);
	json_key(&o, "event"), json_cstr(&o, "calls.left_out");
	json_key(&o, "what"), json_cstr(&o, what);
	json_key(&o, "calls"), json_uint(&o, n);
	if (a->dropped > 0)
		json_key(&o, "dropped"), json_uint(&o, a->dropped);
	json_close(&o, '}');
	buf_add_char(&line, '\n');
	put(a, &line);
}

static void write_text(struct json_out *o, const char *key, struct str text)
{
	if (text.n > 0)
		json_key(o, key), json_str(o, str_first(text, PATH_SHOWN_MAX));
}

void audit_denial(struct audit *a, const struct runtime_denial *d)
{
	AUTO(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	struct json_out o = json_out(&line);

	json_open(&o, '{');
	write_text(&o, "ts", d->at);
	json_key(&o, "event"), json_cstr(&o, "network.denied");
	write_text(&o, "sandbox", d->id);
	write_text(&o, "kind", d->kind);
	write_text(&o, "target", d->target);
	write_text(&o, "address", d->address);
	if (d->port > 0)
		json_key(&o, "port"), json_uint(&o, d->port);
	write_text(&o, "reason", d->reason);
	if (d->lost + a->dropped > 0)
		json_key(&o, "dropped"), json_uint(&o, d->lost + a->dropped);
	json_close(&o, '}');
	buf_add_char(&line, '\n');
	put(a, &line);
}
