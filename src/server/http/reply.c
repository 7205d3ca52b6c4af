// SPDX-License-Identifier: Apache-2.0
#include "server/http/reply.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "base/rfc3339.h"
#include "net/http/url.h"

#include "base/banned.h"

#define SANDBOX_BODY_MAX ((size_t)4 * 1024 * 1024)

/* ---- faults ---- */

int reply_fault(struct reply *rp, const struct fault *f)
{
	char seconds[16];

	if (f->retry_s > 0) {
		(void)snprintf(seconds, sizeof(seconds), "%u", f->retry_s);
		(void)reply_header(rp, "Retry-After", str_of(seconds));
	}
	return reply_error(rp, f->status, f->code, "%s", f->message);
}

int reply_no_sandbox(const struct request *rq, struct reply *rp)
{
	struct fault f;

	(void)fault_set(&f, 404, plane_of(rq)->spec.runtime->code_prefix, "SANDBOX_NOT_FOUND", "sandbox '%s' not found",
			SHOWN(rq->params[0]));
	return reply_fault(rp, &f);
}

bool request_can(const struct request *rq, struct reply *rp, enum capability c)
{
	struct fault f;

	if (capability_check(plane_of(rq)->spec.runtime, c, NULL, &f) == 0)
		return true;
	(void)reply_fault(rp, &f);
	return false;
}

struct sandbox *request_sandbox(const struct request *rq, struct reply *rp)
{
	struct sandbox *sb = sandboxes_find(plane_of(rq)->sandboxes, rq->params[0]);

	if (!sb)
		(void)reply_no_sandbox(rq, rp);
	return sb;
}

/* ---- parameters ---- */

static int bind_values(struct request *rq, struct reply *rp, const struct json *v, const struct field *fields, void *out,
		       const char *where, struct err *e)
{
	struct decode d = { .arena = rq->arena };
	struct err bad = { 0 };

	if (decode(&d, v, fields, out, &bad) == 0)
		return 0;
	if (bad.code != ERR_INVALID) {
		*e = bad;
		return -1;
	}
	(void)service_reply_problems(rp, &d, where);
	return 1;
}

static struct json *add_value(struct request *rq, struct json *object, const struct field *f, struct str text)
{
	struct json *v = arena_alloc(rq->arena, sizeof(*v));
	bool b;

	if (!v)
		return NULL;
	if (f->kind == FIELD_BOOL && url_parse_bool(text, &b))
		*v = (struct json){ .type = JSON_BOOL, .key = str_of(f->name), .b = b };
	else
		*v = (struct json){ .type = JSON_STRING, .key = str_of(f->name), .s = text };
	json_append(object, v);
	return v;
}

int request_query(struct request *rq, struct reply *rp, const struct field *fields, void *out, struct err *e)
{
	struct json object = { .type = JSON_OBJECT };
	struct query q;

	if (query_parse(rq->query, rq->arena, &q, e) < 0)
		return -1;
	for (const struct field *f = fields; f->name; f++) {
		const struct query_pair *p = query_get(&q, f->name);

		if (p && !add_value(rq, &object, f, p->value))
			return err_no_memory(e);
	}
	return bind_values(rq, rp, &object, fields, out, "query", e);
}

struct port_path {
	int64_t port;
};

int request_port(struct request *rq, struct reply *rp, unsigned *ret_port, struct err *e)
{
	static const struct field fields[] = {
		FIELD(struct port_path, port, FIELD_INT, "port", .required = true),
		{ 0 },
	};
	struct json object = { .type = JSON_OBJECT };
	struct port_path path = { 0 };
	struct fault f;
	int rc;

	if (!add_value(rq, &object, &fields[0], rq->params[1]))
		return err_no_memory(e);
	rc = bind_values(rq, rp, &object, fields, &path, "path", e);
	if (rc != 0)
		return rc;
	if (path.port >= 1 && path.port <= 65535) {
		*ret_port = (unsigned)path.port;
		return 0;
	}
	(void)fault_set(&f, 400, plane_of(rq)->spec.runtime->code_prefix, "INVALID_PORT", "port: must be 1 to 65535");
	(void)reply_fault(rp, &f);
	return 1;
}

/* ---- objects ---- */

void write_time(struct json_out *o, const char *key, int64_t us)
{
	char text[RFC3339_SIZE];

	(void)rfc3339_format(timespec_from_us(us), text);
	json_key(o, key), json_cstr(o, text);
}

static void write_list(struct json_out *o, const char *key, const struct string_list *l)
{
	json_key(o, key), json_open(o, '[');
	for (size_t i = 0; i < l->n; i++)
		json_cstr(o, l->items[i]);
	json_close(o, ']');
}

static void write_map(struct json_out *o, const char *key, const struct string_map *m)
{
	json_key(o, key), json_open(o, '{');
	for (size_t i = 0; i < m->n; i++)
		json_key(o, m->items[i].key), json_cstr(o, m->items[i].value);
	json_close(o, '}');
}

/* What all answers have. A member without a value is left out: to some clients null is a mistake. */
static void write_common(struct json_out *o, const struct sandbox_row *r)
{
	json_key(o, "id"), json_cstr(o, r->id);
	json_key(o, "status"), json_open(o, '{');
	json_key(o, "state"), json_cstr(o, sandbox_state_name(r->state));
	json_key(o, "reason"), json_cstr(o, r->reason);
	json_key(o, "message"), json_cstr(o, r->message);
	write_time(o, "lastTransitionAt", r->changed_us);
	json_close(o, '}');
	if (r->os) {
		json_key(o, "platform"), json_open(o, '{');
		json_key(o, "os"), json_cstr(o, r->os);
		json_key(o, "arch"), json_cstr(o, r->arch);
		json_close(o, '}');
	}
	if (r->metadata.n > 0)
		write_map(o, "metadata", &r->metadata);
	if (r->expires_us != 0)
		write_time(o, "expiresAt", r->expires_us);
	write_time(o, "createdAt", r->created_us);
}

void write_sandbox(struct json_out *o, const struct sandbox *sb)
{
	json_open(o, '{');
	write_common(o, &sb->row);
	if (sb->row.snapshot) {
		json_key(o, "snapshotId"), json_cstr(o, sb->row.snapshot);
	} else {
		json_key(o, "image"), json_open(o, '{');
		json_key(o, "uri"), json_cstr(o, sb->row.image);
		json_close(o, '}');
	}
	write_list(o, "entrypoint", &sb->row.entrypoint);
	json_close(o, '}');
}

void write_created(struct json_out *o, const struct sandbox *sb, const struct string_list *entrypoint)
{
	json_open(o, '{');
	write_common(o, &sb->row);
	write_list(o, "entrypoint", entrypoint->n > 0 ? entrypoint : &sb->row.entrypoint); /* one from a pool has its own */
	json_close(o, '}');
}

int reply_sandbox(struct reply *rp, unsigned status, const struct sandbox *sb)
{
	AUTO(buf_done) struct buf body = BUF_INIT(SANDBOX_BODY_MAX);
	struct json_out o = json_out(&body);

	write_sandbox(&o, sb);
	return reply_json(rp, status, &body);
}

int reply_created(struct request *rq, struct reply *rp, const struct sandbox *sb, const struct string_list *entrypoint)
{
	AUTO(buf_done) struct buf body = BUF_INIT(SANDBOX_BODY_MAX);
	struct json_out o = json_out(&body);
	char location[sizeof("/v1/sandboxes/") + ID_MAX];

	(void)snprintf(location, sizeof(location), "/v1/sandboxes/%s", sb->row.id);
	(void)reply_header(rp, "Location", str_of(location));
	service_note(rq, sb->row.id);
	write_created(&o, sb, entrypoint);
	return reply_json(rp, 202, &body);
}

/* ---- waiting ---- */

static void waiting_reply_hangup(void *arg)
{
	struct waiting_reply *p = arg;

	p->rq = NULL; /* what was begun goes on */
}

struct waiting_reply *waiting_reply_new(struct request *rq, struct reply *rp, unsigned status, struct err *e)
{
	struct waiting_reply *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	*p = (struct waiting_reply){ .rq = rq, .rp = rp, .status = status };
	(void)reply_hold(rp, waiting_reply_hangup, p);
	return p;
}

static void waiting_reply_answer(const struct waiting_reply *p, const struct sandbox *sb)
{
	AUTO(buf_done) struct buf body = BUF_INIT(SANDBOX_BODY_MAX);
	struct json_out o = json_out(&body);

	switch (p->shows) {
	case REPLY_SHOWS_EMPTY:
		(void)reply_empty(p->rp, p->status);
		return;
	case REPLY_SHOWS_SANDBOX:
		write_sandbox(&o, sb);
		break;
	case REPLY_SHOWS_CREATED:
		(void)reply_created(p->rq, p->rp, sb, p->entrypoint);
		return;
	case REPLY_SHOWS_EXPIRY:
		json_open(&o, '{');
		write_time(&o, "expiresAt", sb->row.expires_us);
		json_close(&o, '}');
		break;
	}
	(void)reply_json(p->rp, p->status, &body);
}

void waiting_reply_done(struct sandbox *sb, const struct fault *f, void *arg)
{
	struct waiting_reply *p = arg;

	if (p->rq && f) {
		service_note(p->rq, ""); /* what could not be made is nobody's */
		(void)reply_fault(p->rp, f);
	} else if (p->rq) {
		waiting_reply_answer(p, sb);
	}
	free(p);
}
