// SPDX-License-Identifier: Apache-2.0
/* Networks of the native runtime: policies on their way to the warden, and the way to egress, which keeps them and knows what came of
 * them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "access/policy.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/uuid.h"
#include "net/dial.h"
#include "net/http/client.h"
#include "net/transport.h"
#include "server/native/native_impl.h"
#include "sys/memfd.h"

#include "base/banned.h"

#define ASK_MS 10000
#define ANSWER_MAX (4 * RUNTIME_POLICY_MAX) /* of egress; some are refused */
#define TREE_MAX ((size_t)16 * 1024 * 1024)

/* ---- creates ---- */

enum wire_network native_network(const struct runtime_spec *spec)
{
	static const enum wire_network networks[] = {
		[RUNTIME_NET_NONE] = WIRE_NET_NONE, [RUNTIME_NET_OPEN] = WIRE_NET_OPEN, [RUNTIME_NET_POLICY] = WIRE_NET_POLICY,
	};

	return networks[spec->network];
}

int native_policy_make(const struct runtime_spec *spec, struct err *e)
{
	return memfd_sealed_bytes("policy", spec->policy, e);
}

/* What the warden says names files and programs of the host: it is for the log. */
bool native_is_network_fault(const struct native *n, const struct err *e, struct runtime_failure *f)
{
	if (e->sys != ENETDOWN)
		return false;
	f->code = "NETWORK_UNAVAILABLE";
	f->status = 503;
	if (n->rt.can.network_lacks)
		(void)snprintf(f->says, sizeof(f->says), "sandboxes have no network on this host: %s", n->rt.can.network_lacks);
	else
		(void)snprintf(f->says, sizeof(f->says), "the network of the sandbox could not be set up at the moment; if that lasts, "
			       "'opensandbox-server doctor' tells what is missing");
	return true;
}

/* ---- the way to egress ---- */

void native_dial_egress(struct call *c)
{
	if (!c->n->egress_path[0])
		(void)err_set(&c->failure, ERR_UNAVAILABLE, "there is no egress");
	else
		c->dialing = dial_unix(c->n->loop, c->n->egress_path, 0, native_dialed, c, &c->failure);
	if (!c->dialing)
		native_call_fail_later(c);
}

/* One question about a sandbox. */
struct egress_ask {
	struct egress_ask *prev, *next;
	struct native *n;
	struct http_client *client;
	const char *what; /* the last word of the target */
	int (*read)(const struct json *v, struct str body, struct buf *ret, struct err *e);
	runtime_text_fn *fn;
	void *arg;
	struct deferred later;
	struct err failure;
};

static void ask_free(struct egress_ask *q)
{
	*(q->prev ? &q->prev->next : &q->n->asks) = q->next;
	if (q->next)
		q->next->prev = q->prev;
	defer_cancel(&q->later);
	http_client_free(q->client);
	free(q);
}

static void ask_end(struct egress_ask *q, struct str text, const struct err *e)
{
	struct runtime_failure failure = { .code = "SANDBOX_QUERY_FAILED", .status = 503 };
	runtime_text_fn *fn = q->fn;
	void *arg = q->arg;

	if (e) {
		failure.err = *e;
		(void)err_wrap(&failure.err, "ask egress for the %s", q->what);
		(void)snprintf(failure.says, sizeof(failure.says), "the network %s of the sandbox cannot be read at the moment", q->what);
	}
	ask_free(q);
	fn(text, false, e ? &failure : NULL, arg);
}

/* Its own words for it, and nothing else of what it said. */
static int read_policy(const struct json *v, struct str body, struct buf *ret, struct err *e)
{
	const struct json *text = json_get(v, "policy");
	AUTO(policy_free) struct policy *p = NULL;

	(void)body;
	if (!text)
		return err_set(e, ERR_INVALID, "an answer without a policy");
	p = policy_from_json(text, POLICY_RULES_MAX, e);
	if (!p)
		return -1;
	policy_write(p, ret);
	return ret->failed ? err_set(e, ERR_LIMIT, "it has more than %zu bytes", RUNTIME_POLICY_MAX) : 0;
}

static int read_activity(const struct json *v, struct str body, struct buf *ret, struct err *e)
{
	(void)v;
	buf_add_str(ret, str_trim(body));
	return ret->failed ? err_no_memory(e) : 0;
}

static int read_answer(const struct egress_ask *q, const struct http_answer *answer, struct buf *ret, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	const struct json *v;

	if (answer->head->status == 404)
		return err_set(e, ERR_NOT_FOUND, "it has none");
	if (answer->head->status != 200)
		return err_set(e, ERR_UNAVAILABLE, "status %u", answer->head->status);
	v = json_parse(&a, answer->body, NULL, NULL, e);
	if (!v)
		return -1;
	return v->type == JSON_OBJECT ? q->read(v, answer->body, ret, e) : err_set(e, ERR_INVALID, "an answer that is no object");
}

static void on_answer(const struct http_answer *answer, const struct err *e, void *arg)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_POLICY_MAX);
	struct err why = { 0 };

	if (e)
		why = *e;
	else
		(void)read_answer(arg, answer, &text, &why);
	ask_end(arg, (struct str){ buf_z(&text), text.n }, why.code != ERR_NONE ? &why : NULL);
}

static void on_later(void *arg)
{
	struct egress_ask *q = arg;
	struct err e = q->failure;

	ask_end(q, (struct str){ "", 0 }, &e);
}

static int ask(struct egress_ask *q, const char *id, struct err *e)
{
	struct http_client_options o = HTTP_CLIENT_OPTIONS;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char target[ID_MAX + 32];
	struct http_request rq = { .method = STR("GET"), .host = STR("egress"), .max_body = ANSWER_MAX };

	if (!q->n->egress_path[0])
		return err_set(e, ERR_UNAVAILABLE, "there is no egress");
	if (snprintf(to.sun_path, sizeof(to.sun_path), "%s", q->n->egress_path) >= (int)sizeof(to.sun_path))
		return err_set(e, ERR_INVALID, "the path of its socket is too long");
	o.to = (struct sockaddr *)&to;
	o.to_len = sizeof(to);
	o.max_idle = 0;
	o.deadlines = (struct http_deadlines){ ASK_MS, ASK_MS, ASK_MS, ASK_MS };
	q->client = http_client_new(q->n->loop, &o, e);
	(void)snprintf(target, sizeof(target), "/sandboxes/%s/%s", id, q->what); /* an id: it fits */
	rq.target = str_of(target);
	return q->client && http_fetch(q->client, &rq, on_answer, q, e) ? 0 : -1;
}

static void ask_about(struct runtime *rt, const char *id, const struct egress_ask *about)
{
	struct native *n = native_of(rt);
	struct egress_ask *q = malloc(sizeof(*q));

	if (!q) {
		native_refuse(n, completion_text(about->fn, about->arg));
		return;
	}
	*q = *about;
	q->n = n;
	q->next = n->asks;
	if (q->next)
		q->next->prev = q;
	n->asks = q;
	if (ask(q, id, &q->failure) < 0)
		defer(&q->later, n->loop, on_later, q, "egress");
}

void native_policy(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg)
{
	ask_about(rt, id, &(struct egress_ask){ .what = "policy", .read = read_policy, .fn = fn, .arg = arg });
}

void native_activity(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg)
{
	ask_about(rt, id, &(struct egress_ask){ .what = "activity", .read = read_activity, .fn = fn, .arg = arg });
}

void native_network_done(struct native *n)
{
	while (n->asks)
		ask_free(n->asks);
}
