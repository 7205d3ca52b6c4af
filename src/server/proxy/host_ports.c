// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/host_ports.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/transport.h"
#include "server/config/port_range.h"
#include "server/http/listen.h"
#include "server/model/plane.h"
#include "sys/fd.h"

#include "base/banned.h"

#define BACKLOG 128
#define ACCEPTS_MAX 16 /* in one turn, per socket */
#define FDS_SHARE 8 /* of all descriptors, for the two of each stream */
#define REST_MS 100

struct published;

/* One connection: on its way in, or open. */
struct stream {
	struct list_node at;
	struct published *port;
	struct transport *outside; /* until the relay has it */
	struct plane_job job;
	bool is_dialling;
	struct relay *relay;
};

struct listener {
	struct published *port;
	int fd;
	struct io io;
};

struct published {
	struct list_node at;
	struct host_ports *of;
	struct row_port numbers;
	char id[ID_MAX + 1]; /* empty: nobody's yet */
	struct listener listeners[LISTEN_ADDRESSES_MAX];
	size_t n_listeners;
	struct list streams;
};

struct host_ports {
	struct plane *plane;
	struct listen_plan plan; /* of any port */
	unsigned first, last, next; /* of the range, and where the next one is looked for */
	struct list ports; /* of struct published */
	struct deferred sweep;
	unsigned n_streams, max_streams;
	struct timer rest; /* after there were no descriptors */
};

/* ---- streams ---- */

static void stream_unlink(struct stream *s)
{
	list_remove(&s->port->streams, &s->at);
	s->port->of->n_streams--;
}

static void stream_free(struct stream *s)
{
	stream_unlink(s);
	transport_close(s->outside);
	relay_cancel(s->relay);
	free(s);
}

/* While the runtime dials, it cannot be told to stop: the stream is left to its completion. */
static void stream_cut(struct stream *s)
{
	if (!s->is_dialling) {
		stream_free(s);
		return;
	}
	stream_unlink(s);
	s->port = NULL;
	transport_close(take_ptr(&s->outside));
}

static void on_relayed(const struct relay_result *result, void *arg)
{
	struct stream *s = arg;

	(void)result;
	s->relay = NULL;
	stream_free(s);
}

static void on_dialled(struct transport *t, const struct runtime_failure *failure, void *arg)
{
	struct stream *s = arg;
	struct relay_spec spec = { .a = s->outside, .b = t, .done = on_relayed, .arg = s };
	struct err e = { 0 };

	(void)failure;
	plane_job_end(&s->job);
	s->is_dialling = false;
	if (!s->port) { /* its sandbox has gone meanwhile */
		transport_close(t);
		free(s);
		return;
	}
	if (t)
		s->relay = relay_start(s->port->of->plane->spec.loop, &spec, &e);
	if (s->relay) {
		s->outside = NULL;
		return;
	}
	transport_close(t);
	stream_free(s); /* nobody listens there: the peer sees the end */
}

static void stream_drop(struct plane_job *job)
{
	struct stream *s = container_of(job, struct stream, job);

	s->is_dialling = false;
	if (s->port)
		stream_free(s);
	else
		free(s);
}

static void stream_start(struct published *p, int *fd, const struct sandbox *sb)
{
	struct runtime *rt = p->of->plane->spec.runtime;
	struct stream *s = calloc(1, sizeof(*s));
	struct err e = { 0 };

	if (!s)
		return;
	s->outside = transport_plain(*fd, &e);
	if (!s->outside) {
		free(s);
		return;
	}
	*fd = -1;
	s->port = p;
	list_prepend(&p->streams, &s->at);
	p->of->n_streams++;
	s->is_dialling = true;
	plane_job_begin(p->of->plane, &s->job, stream_drop);
	rt->ops->dial(rt, sb->row.id, p->numbers.inside, on_dialled, s);
}

static void want_all(struct host_ports *h, unsigned want)
{
	LIST_EACH (struct published, p, &h->ports, at)
		for (size_t i = 0; i < p->n_listeners; i++)
			if (p->listeners[i].io.loop)
				io_want(&p->listeners[i].io, want);
	if (want == 0)
		timer_in(&h->rest, REST_MS);
}

static void on_rested(void *arg)
{
	want_all(arg, IO_IN);
}

static void on_connection(unsigned ready, void *arg)
{
	const struct listener *d = arg;
	struct published *p = d->port;
	const struct plane *plane = p->of->plane;

	(void)ready;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		AUTO_FD fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct sandbox *sb = fd >= 0 ? sandboxes_find(plane->sandboxes, str_of(p->id)) : NULL;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
			want_all(p->of, 0); /* it would be reported in every turn */
		if (fd < 0)
			return;
		if (!sb || !sandbox_can_be_called(sb) || p->streams.n >= HOST_PORT_STREAMS_MAX ||
		    p->of->n_streams >= p->of->max_streams)
			continue; /* closed */
		if (plane->spec.renews_on_access)
			sandbox_touch(sb, plane->spec.renew_interval_s);
		stream_start(p, &fd, sb);
	}
}

/* ---- ports ---- */

static void published_free(struct published *p)
{
	while (p->streams.first)
		stream_cut(LIST_FIRST(&p->streams, struct stream, at));
	for (size_t i = 0; i < p->n_listeners; i++) {
		io_del(&p->listeners[i].io);
		closep(&p->listeners[i].fd);
	}
	list_remove(&p->of->ports, &p->at);
	free(p);
}

static int open_listeners(struct published *p, struct err *e)
{
	struct listen_plan plan = { .n = p->of->plan.n };
	int fds[LISTEN_ADDRESSES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < plan.n; i++) {
		plan.addrs[i] = p->of->plan.addrs[i];
		if (plan.addrs[i].sa.sa_family == AF_INET6)
			plan.addrs[i].in6.sin6_port = htons((uint16_t)p->numbers.host);
		else
			plan.addrs[i].in.sin_port = htons((uint16_t)p->numbers.host);
	}
	if (listen_open(&plan, BACKLOG, fds, &n, e) < 0)
		return -1;
	for (; p->n_listeners < n; p->n_listeners++)
		p->listeners[p->n_listeners] = (struct listener){ .port = p, .fd = fds[p->n_listeners] };
	for (size_t i = 0; i < n; i++)
		if (io_add(&p->listeners[i].io, p->of->plane->spec.loop, p->listeners[i].fd, IO_IN,
			   on_connection, &p->listeners[i], "published port", e) < 0)
			return -1;
	return 0;
}

/* NULL: E; EADDRINUSE if somebody has it. */
static struct published *publish(struct host_ports *h, struct row_port numbers, struct err *e)
{
	struct published *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->of = h;
	p->numbers = numbers;
	list_prepend(&h->ports, &p->at);
	if (open_listeners(p, e) == 0)
		return p;
	published_free(p);
	return NULL;
}

static bool is_ours(const struct host_ports *h, unsigned port)
{
	LIST_EACH (const struct published, p, &h->ports, at)
		if (p->numbers.host == port)
			return true;
	return false;
}

static int open_any(struct host_ports *h, struct row_port *port, struct err *e)
{
	unsigned n = h->last - h->first + 1;

	for (unsigned i = 0; i < n; i++) {
		unsigned at = h->first + (h->next - h->first + i) % n;
		struct err one = { 0 };

		port->host = at;
		if (is_ours(h, at))
			continue;
		if (publish(h, *port, &one)) {
			h->next = at < h->last ? at + 1 : h->first;
			return 0;
		}
		if (one.sys != EADDRINUSE && one.sys != EACCES) {
			*e = one;
			return -1;
		}
	}
	return err_set(e, ERR_LIMIT, "all ports of ingress.host_ports are in use");
}

static void on_sweep(void *arg)
{
	struct host_ports *h = arg;

	LIST_EACH (struct published, p, &h->ports, at)
		if (p->id[0] == '\0')
			published_free(p);
}

int host_ports_open(struct host_ports *h, struct row_port *ports, size_t n, struct fault *f)
{
	struct err e = { 0 };

	defer(&h->sweep, h->plane->spec.loop, on_sweep, h, "published ports");
	for (size_t i = 0; i < n; i++)
		if (open_any(h, &ports[i], &e) < 0)
			return fault_set(f, 503, NULL, "UNAVAILABLE", "extensions." HOST_PORTS_KEY ": %s", e.msg);
	return 0;
}

void host_ports_claim(struct host_ports *h, const struct sandbox *sb)
{
	for (size_t i = 0; i < sb->row.n_ports; i++)
		LIST_EACH (struct published, p, &h->ports, at)
			if (p->numbers.host == sb->row.ports[i].host && p->id[0] == '\0')
				memcpy(p->id, sb->row.id, strlen(sb->row.id) + 1);
}

void host_ports_adopt(struct host_ports *h, const struct sandbox *sb)
{
	for (size_t i = 0; i < sb->row.n_ports; i++) {
		struct err e = { 0 };

		if (!publish(h, sb->row.ports[i], &e))
			log_error("a published port of a sandbox cannot be opened again", LOG_S("id", sb->row.id),
				  LOG_U("port", sb->row.ports[i].host), LOG_ERR(&e));
	}
	host_ports_claim(h, sb);
}

void host_ports_gone(struct host_ports *h, const struct sandbox *sb)
{
	if (!h)
		return;
	LIST_EACH (struct published, p, &h->ports, at)
		if (strcmp(p->id, sb->row.id) == 0)
			published_free(p);
}

unsigned host_port_of(const struct sandbox *sb, unsigned port)
{
	for (size_t i = 0; i < sb->row.n_ports; i++)
		if (sb->row.ports[i].inside == port)
			return sb->row.ports[i].host;
	return 0;
}

/* ---- life ---- */

struct host_ports *host_ports_new(struct plane *p, const char *host, const char *range, struct err *e)
{
	struct host_ports *h = calloc(1, sizeof(*h));

	if (!h) {
		(void)err_no_memory(e);
		return NULL;
	}
	h->plane = p;
	if (!port_range_parse(str_of(range), &h->first, &h->last))
		(void)err_set(e, ERR_INVALID, "ingress.host_ports: must be FIRST-LAST, of %d to 65535", PORT_RANGE_MIN);
	else if (listen_resolve(host, h->first, &h->plan, e) == 0 &&
		 timer_init(&h->rest, p->spec.loop, on_rested, h, "published ports", e) == 0)
		h->next = h->first;
	h->max_streams = (unsigned)MIN(fd_limit() / FDS_SHARE / 2, (uint64_t)HOST_PORTS_STREAMS_MAX);
	if (h->next != 0)
		return h;
	free(h);
	return NULL;
}

void host_ports_free(struct host_ports *h)
{
	if (!h)
		return;
	defer_cancel(&h->sweep);
	timer_done(&h->rest);
	while (h->ports.first)
		published_free(LIST_FIRST(&h->ports, struct published, at));
	free(h);
}
