// SPDX-License-Identifier: Apache-2.0
#include "egress/webhook.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "box/wire.h"
#include "egress/egress.h"
#include "egress/sockets.h"
#include "egress/upstream.h"
#include "net/http/client.h"
#include "net/http/url.h"
#include "net/tls.h"
#include "net/transport.h"

#include "base/banned.h"

#define HOST_MAX 256
#define URL_PATH_MAX 1024
#define ANSWER_MAX (64 * 1024) /* of the receiver's, which is not looked at */

struct event {
	char sandbox_id[WIRE_ID_SIZE];
	char name[HOST_NAME_LEN_MAX + 1];
	int64_t at_us;
};

struct webhook {
	struct egress *egress;
	bool is_tls;
	uint16_t port;
	char host[HOST_MAX]; /* a name or an address, without its port */
	char authority[HOST_MAX + 8];
	char target[URL_PATH_MAX];
	struct tls_client *tls;
	struct tls_target tls_target;
	struct event queue[WEBHOOK_QUEUE_MAX]; /* a ring */
	size_t first, n;
	unsigned tries; /* of the first */
	struct timer again, late;
	struct lookup *lookup;
	struct addr to; /* where its name was found */
	struct http_client *client;
	struct http_fetch *fetch;
};

static void send_first(struct webhook *w);

/* ---- one delivery ---- */

static void stop(struct webhook *w)
{
	upstream_cancel(take_ptr(&w->lookup));
	http_fetch_cancel(take_ptr(&w->fetch));
	http_client_free(take_ptr(&w->client));
}

static void next(struct webhook *w)
{
	w->first = (w->first + 1) % WEBHOOK_QUEUE_MAX;
	w->n--;
	w->tries = 0;
	timer_in(&w->again, 0); /* if there is one */
}

static void fail(struct webhook *w, const char *why)
{
	if (w->tries < WEBHOOK_RETRIES) {
		timer_in(&w->again, 1000U << w->tries++);
		return;
	}
	log_warn("cannot send a denied name to the webhook", LOG_S("name", w->queue[w->first].name),
		 LOG_S("error", why));
	w->egress->counts.webhook_lost++;
	next(w);
}

static void on_fetched(const struct http_answer *answer, const struct err *e, void *arg)
{
	struct webhook *w = arg;
	unsigned status = answer ? answer->head->status : 0;

	w->fetch = NULL; /* it has ended; its client goes with the next delivery */
	timer_cancel(&w->late);
	if (!answer || status >= 500) {
		fail(w, answer ? "it answers with a failure of its own" : e->msg);
		return;
	}
	if (status >= 300)
		log_warn("the webhook refuses a denied name", LOG_U("status", status));
	w->egress->counts.webhook_sent += status < 300;
	w->egress->counts.webhook_lost += status >= 300;
	next(w);
}

static void on_late(void *arg)
{
	struct webhook *w = arg;

	stop(w);
	fail(w, "it takes too long");
}

static void write_event(const struct event *ev, struct buf *b)
{
	struct json_out o = json_out(b);
	char text[RFC3339_SIZE];

	(void)rfc3339_format((struct timespec){ .tv_sec = timespec_from_us(ev->at_us).tv_sec }, text);
	json_open(&o, '{');
	json_key(&o, "hostname"), json_cstr(&o, ev->name);
	json_key(&o, "timestamp"), json_cstr(&o, text);
	json_key(&o, "source"), json_cstr(&o, "opensandbox-egress");
	json_key(&o, "sandboxId"), json_cstr(&o, ev->sandbox_id);
	json_close(&o, '}');
}

static void on_dialled(struct transport *t, const struct err *e, void *arg)
{
	http_dial_done(arg, t, e);
}

static int dial_begin(struct http_dial *d, void *arg, struct err *e)
{
	struct webhook *w = arg;
	const struct transport_maker maker = w->is_tls ? tls_client_maker(&w->tls_target) : (struct transport_maker){ 0 };
	AUTO_FD fd = sockets_make(w->egress->sockets, w->to.sa.sa_family, SOCK_STREAM, e);
	const struct dial_spec spec = { .fd = fd, .to = &w->to.sa, .to_len = w->to.len, .timeout_ms = WEBHOOK_TIMEOUT_MS,
					.maker = w->is_tls ? &maker : NULL };

	d->user = fd < 0 ? NULL : dial_start(w->egress->loop, &spec, on_dialled, d, e);
	if (!d->user)
		return -1;
	(void)take_fd(&fd);
	return 0;
}

static void dial_stop(struct http_dial *d, void *arg)
{
	(void)arg;
	dial_cancel(d->user);
}

static int post(struct webhook *w, const struct addr *to, struct err *e)
{
	static const struct http_dialer dialer = { .begin = dial_begin, .cancel = dial_stop };
	AUTO(buf_done) struct buf body = BUF_INIT(4096);
	const struct http_header type = { STR("Content-Type"), STR("application/json") };
	const struct http_request rq = { .method = STR("POST"), .target = str_of(w->target), .host = str_of(w->authority),
					 .headers = &type, .n_headers = 1, .body = (write_event(&w->queue[w->first], &body), buf_str(&body)),
					 .max_body = ANSWER_MAX };
	struct http_client_options options = HTTP_CLIENT_OPTIONS;

	w->to = *to;
	options.dialer = &dialer;
	options.dialer_arg = w;
	options.max_idle = 0;
	options.deadlines = (struct http_deadlines){ WEBHOOK_TIMEOUT_MS, WEBHOOK_TIMEOUT_MS, WEBHOOK_TIMEOUT_MS, WEBHOOK_TIMEOUT_MS };
	http_client_free(take_ptr(&w->client));
	w->client = http_client_new(w->egress->loop, &options, e);
	w->fetch = w->client ? http_fetch(w->client, &rq, on_fetched, w, e) : NULL;
	if (!w->fetch)
		return -1;
	timer_in(&w->late, WEBHOOK_TIMEOUT_MS); /* a receiver may answer byte by byte, which no deadline of the client's ends */
	return 0;
}

static void on_resolved(const struct dns_answer *answer, const struct err *e, void *arg)
{
	struct webhook *w = arg;
	const char *last = answer ? dns_chain(answer, w->host, NULL, NULL) : NULL;
	struct addr to = { .len = sizeof(struct sockaddr_in), .in = { .sin_family = AF_INET, .sin_port = htons(w->port) } };
	struct err mine = { 0 };

	w->lookup = NULL;
	for (size_t i = 0; last && i < answer->n; i++) {
		const struct dns_record *r = &answer->records[i];

		if (r->type != DNS_A || strcmp(r->owner, last) != 0)
			continue;
		memcpy(&to.in.sin_addr, r->rdata.p, 4);
		if (post(w, &to, &mine) < 0)
			fail(w, mine.msg);
		return;
	}
	fail(w, e ? e->msg : "its name has no address");
}

static void send_first(struct webhook *w)
{
	struct err e = { 0 };
	struct addr to;

	if (w->n == 0 || w->lookup || w->fetch)
		return;
	if (sockaddr_parse(str_of(w->authority), &to, &(struct err){ 0 }) == 0) { /* a numeric address */
		if (post(w, &to, &e) < 0)
			fail(w, e.msg);
		return;
	}
	w->lookup = lookup_start(w->egress->upstream, w->host, DNS_A, on_resolved, w, &e);
	if (!w->lookup)
		fail(w, e.msg);
}

static void on_again(void *arg)
{
	send_first(arg);
}

void webhook_denied(struct webhook *w, const char *sandbox_id, const char *name)
{
	struct event *ev;

	if (w->n == WEBHOOK_QUEUE_MAX) {
		if (w->egress->counts.webhook_lost++ % WEBHOOK_QUEUE_MAX == 0)
			log_warn("the webhook is too slow, denied names are lost");
		return;
	}
	ev = &w->queue[(w->first + w->n++) % WEBHOOK_QUEUE_MAX];
	*ev = (struct event){ .at_us = clock_wall_us() };
	(void)snprintf(ev->sandbox_id, sizeof(ev->sandbox_id), "%s", sandbox_id);
	(void)snprintf(ev->name, sizeof(ev->name), "%s", name);
	if (w->n == 1)
		timer_in(&w->again, 0);
}

/* ---- life ---- */

static int parse_url(struct webhook *w, const char *url, struct err *e)
{
	struct url_target t;
	struct str host, port;
	uint64_t v = 0;

	if (url_target_parse(str_of(url), &t, e) < 0)
		return -1;
	w->is_tls = str_eq_nocase(str_first(str_of(url), 5), STR("https"));
	v = w->is_tls ? 443 : 80;
	if (t.form != URL_ABSOLUTE || t.authority.n == 0 || t.authority.p[0] == '[')
		return err_set(e, ERR_INVALID, "a URL with a name or an IPv4 address is needed");
	if (str_cut(t.authority, ':', &host, &port) && !str_to_u64(port, 1, UINT16_MAX, &v))
		return err_set(e, ERR_INVALID, "'%.*s' is no port", STR_ARG(port));
	if (host_name(host, w->host, e) < 0)
		return -1;
	w->port = (uint16_t)v;
	(void)snprintf(w->authority, sizeof(w->authority), "%s:%u", w->host, w->port);
	if (snprintf(w->target, sizeof(w->target), "%.*s%s%.*s", STR_ARG(t.path), t.has_query ? "?" : "", STR_ARG(t.query)) >=
	    (int)sizeof(w->target))
		return err_set(e, ERR_LIMIT, "a URL that is too long");
	return 0;
}

struct webhook *webhook_new(struct egress *g, const char *url, struct err *e)
{
	struct webhook *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)err_no_memory(e);
		return NULL;
	}
	w->egress = g;
	if (parse_url(w, url, e) < 0 || timer_init(&w->again, g->loop, on_again, w, "webhook", e) < 0 ||
	    timer_init(&w->late, g->loop, on_late, w, "webhook late", e) < 0) {
		(void)err_wrap(e, "the webhook");
		webhook_free(w);
		return NULL;
	}
	if (w->is_tls) {
		w->tls = tls_client_new(&(struct tls_client_options){ 0 }, e);
		if (!w->tls) {
			webhook_free(w);
			return NULL;
		}
		w->tls_target = (struct tls_target){ .client = w->tls, .host = w->host };
	}
	return w;
}

void webhook_free(struct webhook *w)
{
	if (!w)
		return;
	stop(w);
	timer_done(&w->again);
	timer_done(&w->late);
	tls_client_free(w->tls);
	free(w);
}
