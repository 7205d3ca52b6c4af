// SPDX-License-Identifier: Apache-2.0
#include "server/boot/serve.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/log.h"
#include "base/quantity.h"
#include "net/loop.h"
#include "net/pulse.h"
#include "net/tls.h"
#include "net/transport.h"
#include "server/api/api.h"
#include "server/api/parts.h"
#include "server/boot/log_file.h"
#include "server/boot/version.h"
#include "server/http/listen.h"
#include "server/http/service.h"
#include "server/model/plane.h"
#include "server/proxy/gateway_socket.h"
#include "server/proxy/renewals.h"
#include "server/runtime/kind.h"
#include "server/runtime/runtime.h"
#include "sys/boot.h"
#include "sys/signals.h"

#include "base/banned.h"

#define SLOW_CALLBACK_MS 100
#define LOG_CHECK_MS 5000

/* Shares of the descriptors: connections to the API, proxied ones, and where those lead. */
#define API_SHARE 3
#define PROXY_SHARE 1
#define ALL_SHARES (API_SHARE + 2 * PROXY_SHARE)

/* One port: what is served there, and by whom. */
struct front {
	struct service service;
	struct http_server *http; /* NULL: not served */
	struct serve_port *port;
};

struct serving {
	const struct config *config;
	struct loop *loop;
	struct front api, proxy; /* the latter only with a plane */
	unsigned draining;       /* of them */
	struct tls_server *tls;  /* NULL: plain */
	struct runtime *runtime; /* NULL: there are no sandboxes, and then no plane either */
	struct plane *plane;
	struct renewals *renewals; /* NULL: there is no queue of them */
	struct gateway_socket *gateway_socket; /* NULL: not configured */
	char boot_id[BOOT_ID_SIZE];
	struct log_file log;
	struct timer log_timer;
	struct pulse pulse;
	bool is_rotation_broken;
	struct io signal_io;
	int signal_fd;
	bool is_stopping, is_forced;
};

/* ---- limits ---- */

#define FDS_RESERVED 256 /* for everything but connections */

/* Raises the soft descriptor limit to the hard one. The connections that there can be: WANTED, or less. */
static int serve_connection_limit(unsigned wanted, unsigned *ret_connections, struct err *e)
{
	struct rlimit r;
	rlim_t room;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_sys(e, errno, "read the descriptor limit");
	if (r.rlim_cur < r.rlim_max) {
		struct rlimit raised = { r.rlim_max, r.rlim_max };

		if (setrlimit(RLIMIT_NOFILE, &raised) == 0) /* else what there is must do */
			r = raised;
	}
	if (r.rlim_cur <= FDS_RESERVED)
		return err_set(e, ERR_LIMIT, "the descriptor limit (%llu) is too low: more than %d are needed",
			       (unsigned long long)r.rlim_cur, FDS_RESERVED);
	room = r.rlim_cur - FDS_RESERVED;
	*ret_connections = room < wanted ? (unsigned)room : wanted;
	return 0;
}

/* SHARE of ALL_SHARES: what is left when everything is connected at once. */
static int make_limits(const struct config *c, unsigned share, struct http_limits *ret, struct err *e)
{
	const struct config_limits *l = &c->limits;
	struct http_limits limits = HTTP_LIMITS;
	unsigned all = 0;

	if (serve_connection_limit((unsigned)l->connections * ALL_SHARES, &all, e) < 0)
		return -1;
	limits.connections = MIN(MAX(all / ALL_SHARES * share, 1U), (unsigned)l->connections);
	if (limits.connections < (unsigned)l->connections)
		log_info("fewer connections than configured: descriptor limit", LOG_U("connections", limits.connections),
			 LOG_D("configured", l->connections));
	limits.per_address = (unsigned)l->connections_per_address;
	limits.streams = (unsigned)l->streams;
	limits.head_ms = (unsigned)l->head_seconds * 1000;
	limits.body_idle_ms = (unsigned)l->body_idle_seconds * 1000;
	limits.reader_ms = (unsigned)l->reader_seconds * 1000;
	limits.silent_ms = (unsigned)l->silent_seconds * 1000;
	limits.keep_alive_ms = (unsigned)c->server.timeout_keep_alive * 1000;
	*ret = limits;
	return 0;
}

/* ---- sockets ---- */

static int open_port(const struct config *c, int64_t port, struct serve_port *ret, struct err *e)
{
	if (listen_resolve(c->server.host, (unsigned)port, &ret->plan, e) < 0)
		return -1;
	return listen_open(&ret->plan, (int)c->server.backlog, ret->fds, &ret->n, e);
}

int serve_listen(const struct config *c, struct serve_sockets *ret, struct err *e)
{
	const char *path = c->ingress.gateway_socket;

	*ret = (struct serve_sockets){ .gateway_socket = -1 };
	if (open_port(c, c->server.port, &ret->api, e) == 0 && open_port(c, c->server.proxy_port, &ret->proxy, e) == 0) {
		ret->gateway_socket = path && path[0] ? gateway_socket_listen(path, e) : -1;
		if (ret->gateway_socket >= 0 || !path || !path[0])
			return 0;
	}
	serve_sockets_done(ret);
	return -1;
}

static void close_port(struct serve_port *p)
{
	for (; p->n > 0; p->n--)
		closep(&p->fds[p->n - 1]);
}

void serve_sockets_done(struct serve_sockets *s)
{
	close_port(&s->api);
	close_port(&s->proxy);
	closep(&s->gateway_socket);
	s->gateway_socket = -1;
}

/* ---- the key ---- */

static void forget_key(struct config *c)
{
	if (c->server.api_key)
		secret_wipe((void *)(uintptr_t)c->server.api_key, strlen(c->server.api_key));
	c->server.api_key = NULL;
}

int serve_auth(struct config *c, const char *const *env, struct auth *ret, struct err *e)
{
	const char *insecure = config_env(env, "OPENSANDBOX_INSECURE_SERVER");
	struct auth_policy policy = {
		.api_key = c->server.api_key,
		.allow_none = c->server.unsafe_no_auth || (insecure && strcmp(insecure, "YES") == 0),
		.allow_weak = c->server.unsafe_weak_key,
	};
	struct listen_plan plan;

	if (listen_resolve(c->server.host, (unsigned)c->server.port, &plan, e) < 0)
		return -1;
	policy.is_loopback = plan.is_loopback;
	if (auth_init(ret, &policy, e) < 0)
		return -1;
	forget_key(c);
	return 0;
}

/* ---- what happens while it runs ---- */

static void on_slow(const char *name, uint64_t ms, void *arg)
{
	(void)arg;
	log_warn("the event loop was held up", LOG_S("by", name), LOG_MS("held", ms));
}

static void on_log_timer(void *arg)
{
	struct serving *s = arg;
	struct err e = { 0 };

	if (log_file_rotate_if_large(&s->log, &e) < 0 && !s->is_rotation_broken) {
		s->is_rotation_broken = true; /* once is enough: it will not mend itself */
		log_warn("the log could not be rotated, ignoring", LOG_ERR(&e));
	}
	timer_in(&s->log_timer, LOG_CHECK_MS);
}

static void on_drained(void *arg)
{
	struct serving *s = arg;

	if (--s->draining == 0)
		loop_stop(s->loop);
}

static void drain(struct serving *s, struct front *f)
{
	if (!f->http)
		return;
	s->draining++;
	http_server_drain(f->http, (unsigned)s->config->limits.drain_seconds * 1000, on_drained, s);
}

static void stop(struct serving *s, int signo)
{
	if (s->is_stopping) {
		s->is_forced = true;
		loop_stop(s->loop);
		return;
	}
	s->is_stopping = true;
	log_info("stopping", LOG_S("signal", strsignal(signo)), LOG_U("requests", http_server_counts(s->api.http).busy));
	drain(s, &s->api);
	drain(s, &s->proxy);
}

/* What an operator changes while we run: the log was moved away, the certificate was renewed. */
static void reload(struct serving *s)
{
	struct err e = { 0 };

	if (log_file_reopen(&s->log, &e) < 0)
		log_warn("the log could not be opened anew, ignoring", LOG_ERR(&e));
	if (s->tls && tls_server_reload(s->tls, &e) < 0)
		log_warn("the certificate could not be read anew, keeping the old one", LOG_ERR(&e));
}

static void on_signal(unsigned ready, void *arg)
{
	struct serving *s = arg;
	struct err e = { 0 };
	int signo, rc;

	(void)ready;
	while ((rc = signals_read(s->signal_fd, &signo, NULL, &e)) > 0) {
		if (signo == SIGHUP)
			reload(s);
		else
			stop(s, signo);
	}
	if (rc < 0)
		log_error("signals cannot be read", LOG_ERR(&e));
}

/* ---- start and end ---- */

static int start_signals(struct serving *s, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);

	if (signals_block(&set, e) < 0)
		return -1;
	s->signal_fd = signals_open(&set, e);
	if (s->signal_fd < 0)
		return -1;
	return io_add(&s->signal_io, s->loop, s->signal_fd, IO_IN, on_signal, s, "signals", e);
}

static int start_tls(struct serving *s, struct err *e)
{
	struct tls_server_options o = { .cert_path = s->config->server.tls_cert, .key_path = s->config->server.tls_key };

	if (!o.cert_path)
		return 0;
	s->tls = tls_server_new(&o, e);
	return s->tls ? 0 : -1;
}

static int start_listening(struct serving *s, struct front *f, struct err *e)
{
	struct transport_maker maker = { 0 };

	if (s->tls)
		maker = tls_server_maker(s->tls);
	for (size_t i = 0; f->http && i < f->port->n; i++)
		if (http_server_listen(f->http, &f->port->fds[i], &maker, e) < 0)
			return -1;
	return 0;
}

static void log_start(const struct front *f, const char *what, bool is_secure)
{
	for (size_t i = 0; f->http && i < f->port->plan.n; i++) {
		const struct addr *a = &f->port->plan.addrs[i];
		char text[ADDR_TEXT_MAX];

		log_info("listening", LOG_S("address", sockaddr_format(&a->sa, a->len, text)),
			 LOG_S("serves", what), LOG_S("scheme", is_secure ? "https" : "http"),
			 LOG_S("version", OPENSANDBOX_VERSION));
	}
}

/* ---- sandboxes ---- */

static void report_fault(const struct serve_spec *spec, enum store_fault fault)
{
	static const int statuses[] = {
		[STORE_FAILED] = SERVE_FAILED, [STORE_DAMAGED] = SERVE_DAMAGED, [STORE_LOCKED] = SERVE_RUNNING,
	};

	*spec->ret_status = statuses[fault];
}

/* The one place where a runtime comes in. What it finds from before is settled before the first request. */
static int start_plane(struct serving *s, const struct serve_spec *spec, struct err *e)
{
	const struct config *c = s->config;
	struct plane_spec plane = {
		.parts = &api_parts, .loop = s->loop, .state_dir = spec->state_dir, .boot_id = s->boot_id, .host = c->server.host,
		.eip = c->server.eip, .proxy_port = (unsigned)c->server.proxy_port,
		.max_timeout_s = c->server.max_sandbox_timeout_seconds, .ceilings = config_ceilings(c), .renews_on_access = c->renew_intent.enabled,
		.renew_interval_s = c->renew_intent.min_interval_seconds, .host_paths = c->storage.allowed_host_paths,
		.network = RUNTIME_NET_OPEN,
		.max_rules = (size_t)c->egress.max_rules,
		.ingress = &c->ingress,
	};
	const struct runtime_start start = { .loop = s->loop, .config = c, .state_dir = spec->state_dir, .has_network = spec->has_network,
					     .network_lacks = spec->network_lacks };
	enum store_fault fault = STORE_FAILED;

	if (!spec->kind)
		return 0;
	if (quantity_storage(str_of(c->storage.volume_default_size), &plane.volume_bytes, e) < 0)
		return err_wrap(e, "storage.volume_default_size");
	s->runtime = spec->kind->make(&start, e);
	if (!s->runtime || boot_id_read(s->boot_id, e) < 0)
		return -1;
	plane.runtime = s->runtime;
	s->plane = plane_open(&plane, &fault, e);
	if (!s->plane) {
		report_fault(spec, fault);
		return -1;
	}
	if (plane_recover(s->plane, e) == 0)
		return 0;
	if (e->code == ERR_INVALID)
		report_fault(spec, STORE_DAMAGED);
	return -1;
}

static int start_renewals(struct serving *s, struct err *e)
{
	const struct config_renew_intent *c = &s->config->renew_intent;

	if (!s->plane || !c->enabled || !c->redis.enabled)
		return 0;
	s->renewals = renewals_new(s->plane, c, e);
	return s->renewals ? 0 : -1;
}

static int start_gateway_socket(struct serving *s, const struct serve_spec *spec, struct err *e)
{
	if (!s->plane || spec->sockets->gateway_socket < 0)
		return 0;
	s->gateway_socket = gateway_socket_new(s->plane, spec->auth, &spec->sockets->gateway_socket, e);
	return s->gateway_socket ? 0 : -1;
}

/* ---- all together ---- */

static int start_front(struct serving *s, struct front *f, const struct service_spec *spec, const struct http_limits *limits,
		       struct err *e)
{
	service_init(&f->service, spec);
	f->http = http_server_new(s->loop, &f->service.http, limits, e);
	return f->http ? 0 : -1;
}

static int start_fronts(struct serving *s, const struct serve_spec *spec, struct err *e)
{
	struct service_spec service = {
		.auth = *spec->auth,
		.requests_per_key = (unsigned)s->config->limits.requests_per_key,
		.requests = (unsigned)s->config->server.limit_concurrency,
		.routes = s->plane ? api_sandbox_routes : api_routes,
		.find_asset = spec->find_asset,
		.plane = s->plane,
		.audit = s->plane ? parts_audit : NULL,
		.audit_left_out = s->plane ? parts_audit_left_out : NULL,
	};
	struct http_limits limits;

	if (!spec->auth->has_key)
		log_warn("there is no API key: every process of this machine has full access");
	if (make_limits(s->config, API_SHARE, &limits, e) < 0 || start_front(s, &s->api, &service, &limits, e) < 0)
		return -1;
	if (!s->plane)
		return 0;
	if (make_limits(s->config, PROXY_SHARE, &limits, e) < 0)
		return -1;
	service.routes = api_proxy_routes;
	service.is_proxy_origin = true;
	return start_front(s, &s->proxy, &service, &limits, e);
}

static int start(struct serving *s, const struct serve_spec *spec, struct err *e)
{
	int ready;

	if (start_plane(s, spec, e) < 0 || start_renewals(s, e) < 0 || start_fronts(s, spec, e) < 0)
		return -1;
	if (start_signals(s, e) < 0 || start_listening(s, &s->api, e) < 0 ||
	    start_listening(s, &s->proxy, e) < 0 || start_gateway_socket(s, spec, e) < 0)
		return -1;
	if (timer_init(&s->log_timer, s->loop, on_log_timer, s, "log rotation", e) < 0)
		return -1;
	timer_in(&s->log_timer, LOG_CHECK_MS);
	log_start(&s->api, "api", s->tls != NULL);
	log_start(&s->proxy, "proxy", s->tls != NULL);
	ready = spec->ready_fd;
	return ready < 0 ? 0 : pulse_start(&s->pulse, s->loop, &ready, e);
}

static void serving_done(struct serving *s)
{
	http_server_free(s->api.http);
	http_server_free(s->proxy.http);
	renewals_free(s->renewals);
	gateway_socket_free(s->gateway_socket);
	service_done(&s->api.service);
	service_done(&s->proxy.service);
	plane_close(s->plane);
	runtime_free(s->runtime);
	tls_server_free(s->tls);
	timer_done(&s->log_timer);
	pulse_done(&s->pulse);
	io_del(&s->signal_io);
	closep(&s->signal_fd);
	loop_free(s->loop);
	log_file_done(&s->log);
}
DEFINE_AUTO_DONE(struct serving, serving_done)

static void log_notes(const struct config *c)
{
	struct str rest = str_of(c->notes ? c->notes : ""), line;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		log_warn("the configuration needs a look", LOG_STR("what", line));
	}
}

int serve(const struct serve_spec *spec, struct err *e)
{
	AUTO(serving_done) struct serving s = { .config = spec->config, .signal_fd = -1, .log = LOG_FILE_INIT, .pulse = PULSE_INIT,
						.api.port = &spec->sockets->api, .proxy.port = &spec->sockets->proxy };

	*spec->ret_status = SERVE_FAILED;
	if (log_file_open(&s.log, &spec->config->log, e) < 0)
		return -1;
	log_notes(spec->config);
	s.loop = loop_new(e);
	if (!s.loop)
		return -1;
	loop_set_slow(s.loop, SLOW_CALLBACK_MS, on_slow, NULL);
	if (start_tls(&s, e) < 0 || spec->drop_rights(spec->drop_arg, e) < 0)
		return -1;
	if (start(&s, spec, e) < 0 || loop_run(s.loop, e) < 0)
		return -1;
	log_info("stopped");
	return s.is_forced ? err_set(e, ERR_UNAVAILABLE, "stopped by a second signal, requests in progress were cut") : 0;
}
