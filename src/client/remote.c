// SPDX-License-Identifier: Apache-2.0
#include "client/remote.h"

#include <netinet/tcp.h>
#include <stdio.h>

#include "base/err.h"
#include "client/client_impl.h"
#include "client/host_lookup.h"
#include "net/dial.h"
#include "net/http/client.h"
#include "net/tls.h"
#include "net/transport.h"

#include "base/banned.h"

#define IDLE_MS 30000
#define ADDRESS_MS_MIN 1000 /* for each address, however many there are */
/* Streams may be silent for as long as they like; whether the other side still exists is the kernel's to find out. */
#define KEEP_IDLE_S 30
#define KEEP_INTERVAL_S 10
#define KEEP_PROBES 3

struct remote {
	struct osb_client *client;
	struct remote *prev, *next;
	unsigned refs;
	bool is_tls;
	unsigned port;
	char host[REMOTE_HOST_MAX + 1];
	char authority[REMOTE_HOST_MAX + 16];
	struct http_client *http;
	struct tls_target tls;
	struct host_lookup *lookup;
	struct addr addresses[HOST_ADDRESSES_MAX];
	size_t n_addresses;
	uint64_t good_until_ms;
	struct attempt *attempts; /* connections in the making */
};

/* One connection in the making, for a call of the HTTP client. */
struct attempt {
	struct remote *remote;
	struct attempt *prev, *next;
	struct http_dial *handle;
	struct dial *dial;
	struct addr addresses[HOST_ADDRESSES_MAX]; /* as they were when it began */
	size_t n, at;                              /* at: the next to try */
	struct err last;
};

/* ---- connecting ---- */

static void attempt_free(struct attempt *a)
{
	*(a->prev ? &a->prev->next : &a->remote->attempts) = a->next;
	if (a->next)
		a->next->prev = a->prev;
	dial_cancel(a->dial);
	free(a);
}

static void attempt_end(struct attempt *a, struct transport *t, const struct err *e)
{
	struct http_dial *handle = a->handle;
	struct err copy = e ? *e : (struct err){ 0 };

	attempt_free(a);
	http_dial_done(handle, t, t ? NULL : &copy);
}

static void keep_alive(int fd)
{
	int on = 1, idle = KEEP_IDLE_S, interval = KEEP_INTERVAL_S, probes = KEEP_PROBES;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* The address that works comes first from now on. */
static void prefer(struct remote *r, const struct addr *good)
{
	size_t i = 0;

	while (i < r->n_addresses && (r->addresses[i].len != good->len || memcmp(&r->addresses[i].sa, &good->sa, good->len) != 0))
		i++;
	if (i == r->n_addresses)
		return;
	r->addresses[i] = r->addresses[0];
	r->addresses[0] = *good;
}

static void attempt_next(struct attempt *a);

static void on_dialed(struct transport *t, const struct err *e, void *arg)
{
	struct attempt *a = arg;

	a->dial = NULL;
	if (!t) {
		a->last = *e;
		attempt_next(a);
		return;
	}
	keep_alive(t->fd);
	prefer(a->remote, &a->addresses[a->at - 1]);
	attempt_end(a, t, NULL);
}

static void attempt_next(struct attempt *a)
{
	struct remote *r = a->remote;
	struct transport_maker maker = r->is_tls ? tls_client_maker(&r->tls) : (struct transport_maker){ 0 };
	unsigned share_ms = a->n > 1 ? r->client->request_timeout_ms / (unsigned)a->n : r->client->request_timeout_ms;

	while (!a->dial && a->at < a->n) {
		const struct addr *to = &a->addresses[a->at++];
		struct dial_spec spec = { .fd = -1, .to = &to->sa, .to_len = to->len, .maker = r->is_tls ? &maker : NULL,
					  .timeout_ms = MAX(share_ms, (unsigned)ADDRESS_MS_MIN) };

		a->dial = dial_start(r->client->loop, &spec, on_dialed, a, &a->last);
	}
	if (a->dial)
		return;
	r->good_until_ms = 0; /* a name may have other addresses by now */
	attempt_end(a, NULL, &a->last);
}

static void attempt_start(struct attempt *a)
{
	a->n = a->remote->n_addresses;
	memcpy(a->addresses, a->remote->addresses, sizeof(a->addresses));
	attempt_next(a);
}

static void on_looked_up(const struct addr *addresses, size_t n, const struct err *e, void *arg)
{
	struct remote *r = arg;

	r->lookup = NULL;
	r->n_addresses = n;
	if (n > 0)
		memcpy(r->addresses, addresses, n * sizeof(*addresses));
	r->good_until_ms = n > 0 ? loop_now_ms(r->client->loop) + REMOTE_REMEMBERS_MS : 0;
	for (struct attempt *a = r->attempts, *next; a; a = next) {
		next = a->next;
		if (a->dial)
			continue;
		if (n > 0)
			attempt_start(a);
		else
			attempt_end(a, NULL, e);
	}
}

static int find_addresses(struct remote *r, struct err *e)
{
	if (r->n_addresses > 0 && loop_now_ms(r->client->loop) < r->good_until_ms)
		return 0;
	if (r->lookup)
		return 0;
	r->n_addresses = host_known(r->host, r->port, r->addresses);
	r->good_until_ms = UINT64_MAX;
	if (r->n_addresses > 0)
		return 0;
	r->good_until_ms = 0;
	r->lookup = host_lookup_start(r->client->loop, r->host, r->port, on_looked_up, r, e);
	return r->lookup ? 0 : -1;
}

static int dial_begin(struct http_dial *d, void *arg, struct err *e)
{
	struct remote *r = arg;
	struct attempt *a;

	if (find_addresses(r, e) < 0)
		return -1;
	a = calloc(1, sizeof(*a));
	if (!a)
		return err_no_memory(e);
	a->remote = r;
	a->handle = d;
	a->next = r->attempts;
	if (a->next)
		a->next->prev = a;
	r->attempts = a;
	d->user = a;
	if (!r->lookup)
		attempt_start(a);
	return 0;
}

static void dial_cancelled(struct http_dial *d, void *arg)
{
	(void)arg;
	attempt_free(d->user);
}

static const struct http_dialer dialer = { .begin = dial_begin, .cancel = dial_cancelled };

/* ---- remotes ---- */

static void remote_unlink(struct remote *r)
{
	*(r->prev ? &r->prev->next : &r->client->remotes) = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->prev = r->next = NULL;
}

static void remote_link(struct remote *r)
{
	r->next = r->client->remotes;
	if (r->next)
		r->next->prev = r;
	r->client->remotes = r;
}

static void remote_free(struct remote *r)
{
	http_client_free(r->http); /* and with its calls their attempts */
	host_lookup_cancel(r->lookup);
	remote_unlink(r);
	free(r);
}

/* The spare ones beyond the first KEEP; the list begins with the one that became spare last. */
static void drop_spare(struct osb_client *c, size_t keep)
{
	for (struct remote *r = c->remotes, *next; r; r = next) {
		next = r->next;
		if (r->refs > 0)
			continue;
		if (keep == 0)
			remote_free(r);
		else
			keep--;
	}
}

/* One that nobody refers to any more stays for a while, with its connections: REMOTES_SPARE of them, those used last. The next
 * sandbox is often behind the same one. */
static void remote_unref(struct remote *r)
{
	if (!r || --r->refs > 0)
		return;
	remote_unlink(r);
	remote_link(r);
	drop_spare(r->client, REMOTES_SPARE);
}

void remotes_free(struct osb_client *c)
{
	drop_spare(c, 0);
}

static int need_tls(struct osb_client *c, struct err *e)
{
	const struct tls_client_options options = { .ca_path = c->ca_file, .is_insecure = c->is_insecure };

	if (!c->tls)
		c->tls = tls_client_new(&options, e);
	return c->tls ? 0 : -1;
}

static int remote_open(struct remote *r, struct err *e)
{
	struct osb_client *c = r->client;
	struct http_client_options options = HTTP_CLIENT_OPTIONS;

	if (r->is_tls && need_tls(c, e) < 0)
		return -1;
	r->tls = (struct tls_target){ .client = c->tls, .host = r->host };
	options.dialer = &dialer;
	options.dialer_arg = r;
	options.max_idle = c->max_idle;
	options.idle_ms = IDLE_MS;
	options.deadlines = (struct http_deadlines){ c->request_timeout_ms, c->request_timeout_ms, c->request_timeout_ms,
						     c->request_timeout_ms };
	r->http = http_client_new(c->loop, &options, e);
	return r->http ? 0 : -1;
}

static void write_authority(struct remote *r)
{
	bool is_v6 = strchr(r->host, ':');
	int n = snprintf(r->authority, sizeof(r->authority), is_v6 ? "[%s]" : "%s", r->host);

	if (r->port != (r->is_tls ? 443U : 80U))
		(void)snprintf(r->authority + n, sizeof(r->authority) - (size_t)n, ":%u", r->port);
}

static struct remote *remote_get(struct osb_client *c, const struct address *a, bool is_tls, struct err *e)
{
	unsigned port = a->port ? a->port : is_tls ? 443 : 80;
	struct remote *r = c->remotes;

	while (r && (r->is_tls != is_tls || r->port != port || !str_eq_nocase(str_of(r->host), str_of(a->host))))
		r = r->next;
	if (r) {
		r->refs++;
		return r;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	r->client = c;
	r->refs = 1;
	r->is_tls = is_tls;
	r->port = port;
	memcpy(r->host, a->host, sizeof(r->host));
	write_authority(r);
	remote_link(r);
	if (remote_open(r, e) < 0) {
		remote_free(r);
		return NULL;
	}
	return r;
}

struct http_client *remote_http(struct remote *r)
{
	return r->http;
}

struct str remote_authority(const struct remote *r)
{
	return str_of(r->authority);
}

/* ---- endpoints ---- */

void endpoint_done(struct endpoint *ep)
{
	for (size_t i = 0; i < ep->n_headers; i++) {
		free((char *)(uintptr_t)ep->headers[i].name.p);
		secret_wipe((char *)(uintptr_t)ep->headers[i].value.p, ep->headers[i].value.n);
		free((char *)(uintptr_t)ep->headers[i].value.p);
	}
	free(ep->headers);
	free(ep->prefix);
	remote_unref(ep->remote);
	*ep = (struct endpoint){ 0 };
}

static int add_header(struct endpoint *ep, const struct osb_pair *p, struct err *e)
{
	static const char *const ours[] = { "connection", "content-length", "content-type", "expect", "host", "keep-alive", "te",
					    "trailer", "transfer-encoding", "upgrade", "x-request-id" };
	struct str name = str_of(p->key), value = str_of(p->value);
	struct http_header *h;

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (str_eq_nocase(name, str_of(ours[i])))
			return err_set(e, ERR_INVALID, "header '%s' is not for an endpoint to set", ours[i]);
	if (!p->key || !p->value || !http_is_token(name) || !http_is_field_value(value))
		return err_set(e, ERR_INVALID, "a header that cannot be sent");
	h = &ep->headers[ep->n_headers++]; /* counted before it is whole: endpoint_done() takes NULL */
	h->name = (struct str){ strdup(p->key), name.n };
	h->value = (struct str){ strdup(p->value), value.n };
	if (h->name.p && h->value.p)
		return 0;
	h->value.n = h->value.p ? h->value.n : 0;
	return err_no_memory(e);
}

int endpoint_init(struct endpoint *ep, struct osb_client *c, const char *text, const struct osb_map *headers, struct err *e)
{
	struct endpoint fresh = { 0 };
	struct address a;
	size_t n = headers ? headers->n : 0;

	if (address_parse(str_of(text), &a, e) < 0)
		return err_wrap(e, "endpoint");
	if (n > ENDPOINT_HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "an endpoint with %zu headers", n);
	fresh.remote = remote_get(c, &a, a.has_scheme ? a.is_tls : c->is_tls, e);
	if (!fresh.remote)
		return -1;
	fresh.prefix = strdup(a.path);
	fresh.headers = calloc(n + 1, sizeof(*fresh.headers));
	if (!fresh.prefix || !fresh.headers) {
		endpoint_done(&fresh);
		return err_no_memory(e);
	}
	for (size_t i = 0; i < n; i++)
		if (add_header(&fresh, &headers->items[i], e) < 0) {
			endpoint_done(&fresh);
			return -1;
		}
	*ep = fresh;
	return 0;
}
