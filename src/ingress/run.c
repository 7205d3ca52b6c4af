// SPDX-License-Identifier: Apache-2.0
#include "ingress/run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "ingress/confine.h"
#include "ingress/intents.h"
#include "ingress/provider.h"
#include "ingress/trust.h"
#include "net/addr.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/transport.h"
#include "sys/fd.h"
#include "sys/limits.h"
#include "sys/secret_file.h"
#include "sys/signals.h"

#include "base/banned.h"

#define BACKLOG 4096
#define SLOW_CALLBACK_MS 100
#define KEYS_FILE_MAX ((size_t)256 * 1024)
#define FDS_RESERVED 128
#define METRICS_CONNECTIONS 64

struct running {
	const struct run_spec *spec;
	struct loop *loop;
	struct gateway gateway;
	struct trust trust;
	bool has_gateway;
	struct provider *provider;
	struct intents *intents;
	struct tls_server *tls;
	struct http_server *http, *metrics;
	int listener, metrics_listener;
	struct io signal_io;
	int signal_fd;
	bool is_stopping, is_forced;
};

/* ---- sockets ---- */

static int listen_on(const struct addr *a, struct err *e)
{
	AUTO_FD fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[ADDR_TEXT_MAX];
	int on = 1, off = 0;

	(void)sockaddr_format(&a->sa, a->len, text);
	if (fd < 0)
		return err_sys(e, errno, "listen on %s", text);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* if not, a restart has to wait */
	if (a->sa.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, &a->sa, a->len) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, errno, "listen on %s", text);
	return take_fd(&fd);
}

/* All interfaces are one socket, for both kinds of addresses where there are both. */
static int listen_everywhere(unsigned port, struct err *e)
{
	struct addr any6 = { .len = sizeof(any6.in6), .in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) } };
	struct addr any4 = { .len = sizeof(any4.in), .in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) } };
	int fd = listen_on(&any6, e);

	if (fd >= 0 || (e->sys != EAFNOSUPPORT && e->sys != EADDRNOTAVAIL))
		return fd;
	*e = (struct err){ 0 };
	return listen_on(&any4, e);
}

static int open_listener(const char *text, unsigned port, struct err *e)
{
	struct addr a;

	if (!text)
		return listen_everywhere(port, e);
	return sockaddr_parse(str_of(text), &a, e) < 0 ? -1 : listen_on(&a, e);
}

/* ---- keys ---- */

static int load_keys(const struct run_spec *spec, struct route_keys *ret, struct err *e)
{
	AUTO(route_keys_done) struct route_keys keys = { 0 };
	AUTO(buf_done) struct buf text = BUF_INIT(KEYS_FILE_MAX + 64);
	struct str rest, line;

	if (spec->keys && route_keys_parse(&keys, str_of(spec->keys), e) < 0)
		return err_wrap(e, "--secure-access-keys");
	if (spec->keys_file && fd_read_file(AT_FDCWD, spec->keys_file, KEYS_FILE_MAX, &text, e) < 0)
		return -1;
	rest = buf_str(&text);
	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		line = str_trim(line);
		if (line.n > 0 && line.p[0] != '#' && route_keys_parse(&keys, line, e) < 0)
			return err_wrap(e, "'%s'", spec->keys_file);
	}
	if (text.p)
		secret_wipe(text.p, text.n);
	route_keys_done(ret);
	*ret = keys;
	keys = (struct route_keys){ 0 };
	return 0;
}

/* What others could do with our keys; it is no reason not to run. */
static void note_files(const struct run_spec *s)
{
	const struct {
		const char *option, *path;
	} files[] = {
		{ "--server-key-file", s->server_key_file },
		{ "--secure-access-keys-file", s->keys_file },
		{ "--tls-key", s->tls_key },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		enum secret_file_fault fault = files[i].path ? secret_file_look(files[i].path, SECRET_FILE_SHARED) : SECRET_FILE_FINE;
		char text[SECRET_FILE_TEXT_MAX], line[SECRET_FILE_TEXT_MAX + 64];

		if (fault == SECRET_FILE_FINE)
			continue;
		secret_file_say(fault, files[i].path, SECRET_FILE_SHARED, text);
		(void)snprintf(line, sizeof(line), "%s: %s", files[i].option, text);
		log_warn("the configuration needs a look", LOG_S("what", line));
	}
}

/* ---- signals ---- */

static void on_drained(void *arg)
{
	struct running *r = arg;

	loop_stop(r->loop);
}

static void stop(struct running *r, int signo)
{
	if (r->is_stopping) {
		r->is_forced = true;
		loop_stop(r->loop);
		return;
	}
	r->is_stopping = true;
	log_info("stopping", LOG_S("signal", strsignal(signo)), LOG_U("requests", http_server_counts(r->http).busy));
	http_server_drain(r->http, RUN_DRAIN_MS, on_drained, r);
}

static void reload(struct running *r)
{
	struct err e = { 0 };

	if (load_keys(r->spec, &r->gateway.keys, &e) < 0)
		log_warn("the keys could not be read anew, keeping the old ones", LOG_ERR(&e));
	e = (struct err){ 0 };
	if (r->tls && tls_server_reload(r->tls, &e) < 0)
		log_warn("the certificate could not be read anew, keeping the old one", LOG_ERR(&e));
	e = (struct err){ 0 };
	if (r->provider->ops->reload(r->provider, &e) < 0)
		log_warn("the servers could not be looked up anew, keeping what is known", LOG_ERR(&e));
	note_files(r->spec);
	log_info("reloaded");
}

static void on_signal(unsigned ready, void *arg)
{
	struct running *r = arg;
	struct err e = { 0 };
	int signo, rc;

	(void)ready;
	while ((rc = signals_read(r->signal_fd, &signo, NULL, &e)) > 0) {
		if (signo == SIGHUP)
			reload(r);
		else
			stop(r, signo);
	}
	if (rc < 0)
		log_error("signals cannot be read", LOG_ERR(&e));
}

static int start_signals(struct running *r, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);

	if (signals_block(&set, e) < 0)
		return -1;
	r->signal_fd = signals_open(&set, e);
	if (r->signal_fd < 0)
		return -1;
	return io_add(&r->signal_io, r->loop, r->signal_fd, IO_IN, on_signal, r, "signals", e);
}

/* ---- start and end ---- */

/* Everything that reads files or needs a right. */
static int prepare(struct running *r, struct err *e)
{
	const struct run_spec *s = r->spec;
	struct tls_server_options tls = { .cert_path = s->tls_cert, .key_path = s->tls_key };
	struct servers_spec servers = { r->loop, s->servers, s->n_servers, s->server_key_file,
					s->server_ca_file, s->gateway_socket };

	r->listener = open_listener(s->listen, s->port, e);
	if (r->listener < 0)
		return -1;
	if (s->metrics) {
		r->metrics_listener = open_listener(s->metrics, 0, e);
		if (r->metrics_listener < 0)
			return -1;
	}
	if (s->tls_cert) {
		r->tls = tls_server_new(&tls, e);
		if (!r->tls)
			return -1;
	}
	r->provider = provider_servers(&servers, e);
	return r->provider ? 0 : -1;
}

static int start_intents(struct running *r, struct err *e)
{
	const struct run_spec *s = r->spec;
	struct intents_spec spec = { r->loop, s->redis_dsn, s->redis_queue, s->queue_max, s->interval_s * 1000 };

	if (!s->tells_intents)
		return 0;
	r->intents = intents_new(&spec, e);
	return r->intents ? 0 : -1;
}

/* Each request that is passed on has a second descriptor. */
static struct http_limits limits_now(void)
{
	struct http_limits l = HTTP_LIMITS;
	uint64_t fds = fd_limit();

	l.connections = (unsigned)MIN((uint64_t)l.connections, fds > FDS_RESERVED ? (fds - FDS_RESERVED) / 2 : 1);
	return l;
}

static int start_http(struct running *r, struct err *e)
{
	struct http_limits limits = limits_now(), few = HTTP_LIMITS;
	struct transport_maker maker = { 0 };

	few.connections = METRICS_CONNECTIONS;
	if (r->tls)
		maker = tls_server_maker(r->tls);
	r->http = http_server_new(r->loop, &r->gateway.service, &limits, e);
	if (!r->http || http_server_listen(r->http, &r->listener, &maker, e) < 0)
		return -1;
	r->gateway.http = r->http;
	if (r->metrics_listener < 0)
		return 0;
	r->metrics = http_server_new(r->loop, &r->gateway.metrics_service, &few, e);
	return !r->metrics || http_server_listen(r->metrics, &r->metrics_listener, NULL, e) < 0 ? -1 : 0;
}

static int start(struct running *r, struct err *e)
{
	struct gateway_spec spec = { .loop = r->loop, .mode = r->spec->mode, .trust = &r->trust };

	for (size_t i = 0; i < r->spec->n_proxies; i++)
		if (trust_add(&r->trust, str_of(r->spec->proxies[i]), e) < 0)
			return -1;
	if (prepare(r, e) < 0 || start_intents(r, e) < 0)
		return -1;
	note_files(r->spec);
	spec.provider = r->provider;
	spec.intents = r->intents;
	r->has_gateway = true;
	if (gateway_init(&r->gateway, &spec, e) < 0 || load_keys(r->spec, &r->gateway.keys, e) < 0)
		return -1;
	if (start_signals(r, e) < 0 || confine_gateway(r->spec->user, e) < 0 || start_http(r, e) < 0)
		return -1;
	log_info("listening", LOG_S("mode", r->spec->mode == GATEWAY_URI ? "uri" : "header"), LOG_U("port", r->spec->port),
		 LOG_S("scheme", r->tls ? "https" : "http"), LOG_U("servers", r->spec->n_servers), LOG_U("keys", r->gateway.keys.n));
	return 0;
}

static void running_done(struct running *r)
{
	http_server_free(r->http);
	http_server_free(r->metrics);
	if (r->has_gateway)
		gateway_done(&r->gateway);
	intents_free(r->intents);
	provider_free(r->provider);
	tls_server_free(r->tls);
	closep(&r->listener);
	closep(&r->metrics_listener);
	io_del(&r->signal_io);
	closep(&r->signal_fd);
	loop_free(r->loop);
}
DEFINE_AUTO_DONE(struct running, running_done)

static void on_slow(const char *name, uint64_t ms, void *arg)
{
	(void)arg;
	log_warn("the event loop was held up", LOG_S("by", name), LOG_MS("held", ms));
}

int run(const struct run_spec *spec, struct err *e)
{
	AUTO(running_done) struct running r = { .spec = spec, .listener = -1, .metrics_listener = -1, .signal_fd = -1 };

	limits_raise(RLIMIT_NOFILE);
	r.loop = loop_new(e);
	if (!r.loop)
		return -1;
	loop_set_slow(r.loop, SLOW_CALLBACK_MS, on_slow, NULL);
	if (start(&r, e) < 0 || loop_run(r.loop, e) < 0)
		return -1;
	log_info("stopped");
	return r.is_forced ? err_set(e, ERR_UNAVAILABLE, "stopped by a second signal, requests in progress were cut") : 0;
}
