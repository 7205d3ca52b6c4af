// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/gateway_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "access/gateway_socket.h"
#include "base/err.h"
#include "base/log.h"
#include "net/log_limit.h"
#include "net/loop.h"
#include "net/transport.h"
#include "server/http/auth.h"
#include "server/model/plane.h"
#include "server/proxy/proxy.h"
#include "sys/passing.h"

#include "base/banned.h"

#define BACKLOG 16
#define AGAIN_MS 100

/* The connection of one gateway. */
struct gateway_connection {
	struct gateway_socket *of;
	struct gateway_connection *prev, *next;
	int fd;
	struct io io;
	struct timer hello; /* runs until the gateway has authenticated */
	bool is_known;
	struct dial *dials;
	unsigned n_dials;
};

/* A requested connection that the runtime is opening. */
struct dial {
	struct plane_job job;
	struct gateway_connection *connection; /* NULL: closed meanwhile */
	struct dial *prev, *next;
	uint64_t serial;
};

struct gateway_socket {
	struct plane *plane;
	const struct auth *auth;
	int listener;
	struct io io;
	struct timer again; /* accept again after EMFILE or ENOMEM */
	struct log_limit refused; /* limits log lines of unauthenticated peers */
	struct gateway_connection *connections;
	unsigned n_connections;
};

/* ---- the socket ---- */

static int remove_stale(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' exists and is no socket", path);
	return unlink(path) < 0 ? err_sys(e, errno, "remove '%s'", path) : 0;
}

int gateway_socket_listen(const char *path, struct err *e)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (fd < 0)
		return err_sys(e, errno, "make the gateway socket");
	if (strlen(path) >= sizeof(to.sun_path))
		return err_set(e, ERR_INVALID,
			       "ingress.gateway_socket: a socket's path has at most %zu bytes",
				       sizeof(to.sun_path) - 1);
	memcpy(to.sun_path, path, strlen(path) + 1);
	if (remove_stale(path, e) < 0)
		return err_wrap(e, "ingress.gateway_socket");
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return err_sys(e, errno, "ingress.gateway_socket: bind '%s'", path);
	/* Open to all users: a peer must authenticate with the API key, and can only get connections. */
	if (chmod(path, 0666) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, errno, "ingress.gateway_socket: listen at '%s'", path);
	return take_fd(&fd);
}

/* ---- gateways ---- */

static void connection_drop(struct gateway_connection *c)
{
	for (struct dial *dl = c->dials; dl; dl = dl->next)
		dl->connection = NULL;
	*(c->prev ? &c->prev->next : &c->of->connections) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->of->n_connections--;
	io_del(&c->io);
	timer_done(&c->hello);
	closep(&c->fd);
	free(c);
}

/* False: the connection was dropped. The socket buffer holds a reply to every request that may be open, so a
 * full one means that the gateway does not read. */
static bool answer(struct gateway_connection *c, uint64_t serial, enum gateway_status status, const int *fd)
{
	struct gateway_reply a = { .serial = serial, .status = status };
	struct err e = { 0 };

	if (passing_send(c->fd, &a, sizeof(a), fd, fd != NULL, &e) == 1)
		return true;
	log_warn("gateway does not read its replies, closing its connection", LOG_ERR(&e));
	connection_drop(c);
	return false;
}

/* ---- connections ---- */

static void dial_free(struct dial *dl)
{
	if (dl->connection) {
		*(dl->prev ? &dl->prev->next : &dl->connection->dials) = dl->next;
		if (dl->next)
			dl->next->prev = dl->prev;
		dl->connection->n_dials--;
	}
	free(dl);
}

static void dial_drop(struct plane_job *job)
{
	dial_free(container_of(job, struct dial, job));
}

static void on_dialled(struct transport *t, const struct runtime_failure *failure, void *arg)
{
	struct dial *dl = arg;
	struct gateway_connection *c = dl->connection;
	uint64_t serial = dl->serial;

	(void)failure;
	plane_job_end(&dl->job);
	dial_free(dl);
	if (c)
		(void)answer(c, serial, t && t->is_plain ? GATEWAY_OK : GATEWAY_NO_LISTENER, t &&
			     t->is_plain ? &t->fd : NULL);
	transport_close(t); /* the gateway has a descriptor of its own */
}

static bool dial_begin(struct gateway_connection *c, struct sandbox *sb, unsigned port, uint64_t serial)
{
	struct plane *plane = c->of->plane;
	struct runtime *rt = plane->spec.runtime;
	struct dial *dl = calloc(1, sizeof(*dl));

	if (!dl)
		return answer(c, serial, GATEWAY_REFUSED, NULL);
	*dl = (struct dial){ .connection = c, .serial = serial, .next = c->dials };
	if (dl->next)
		dl->next->prev = dl;
	c->dials = dl;
	c->n_dials++;
	plane_job_begin(plane, &dl->job, dial_drop);
	rt->ops->dial(rt, sb->row.id, port, on_dialled, dl);
	return true;
}

static bool on_dial(struct gateway_connection *c, const struct gateway_request *rq, struct sandbox *sb)
{
	if (!sb || !sandbox_can_be_called(sb))
		return answer(c, rq->serial, GATEWAY_NO_SANDBOX, NULL);
	if (guarded_port_find(rq->port) || rq->port < 1 || rq->port > 65535 ||
	    c->n_dials >= GATEWAY_DIALS_MAX)
		return answer(c, rq->serial, GATEWAY_REFUSED, NULL);
	return dial_begin(c, sb, rq->port, rq->serial);
}

/* ---- requests ---- */

static bool on_hello(struct gateway_connection *c, const struct gateway_request *rq)
{
	if (rq->kind != GATEWAY_HELLO || rq->version != GATEWAY_VERSION || !auth_is_key(c->of->auth,
											str_of(rq->text))) {
		if (log_limit_admits(&c->of->refused, c->of->plane->spec.loop))
			log_warn("gateway refused: wrong API key or protocol version");
		connection_drop(c);
		return false;
	}
	c->is_known = true;
	timer_cancel(&c->hello);
	return answer(c, rq->serial, GATEWAY_OK, NULL);
}

/* False: the connection was dropped. */
static bool on_message(struct gateway_connection *c, const struct gateway_request *rq)
{
	const struct plane_spec *spec = &c->of->plane->spec;
	struct sandbox *sb;

	if (!c->is_known)
		return on_hello(c, rq);
	sb = sandboxes_find(c->of->plane->sandboxes, str_of(rq->text));
	if (rq->kind == GATEWAY_DIAL)
		return on_dial(c, rq, sb);
	if (rq->kind == GATEWAY_USED && sb && spec->renews_on_access)
		sandbox_touch(sb, spec->renew_interval_s);
	return true;
}

static void on_request(unsigned ready, void *arg)
{
	struct gateway_connection *c = arg;

	(void)ready;
	for (;;) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct gateway_request rq = { 0 };
		struct err e = { 0 };
		int rc = passing_recv(c->fd, &rq, sizeof(rq), 0, &got, &e);
		bool is_good;

		if (rc == PASSING_NONE)
			return;
		is_good = rc == PASSING_MESSAGE && got.n > GATEWAY_REQUEST_HEAD &&
			((char *)&rq)[got.n - 1] == '\0';
		if (!is_good) {
			connection_drop(c);
			return;
		}
		if (!on_message(c, &rq))
			return;
	}
}

static void on_silent(void *arg)
{
	connection_drop(arg);
}

static int connection_new(struct gateway_socket *gs, int *fd, struct err *e)
{
	struct loop *l = gs->plane->spec.loop;
	struct gateway_connection *c = calloc(1, sizeof(*c));

	if (!c)
		return err_no_memory(e);
	*c = (struct gateway_connection){ .of = gs, .fd = take_fd(fd), .next = gs->connections };
	if (c->next)
		c->next->prev = c;
	gs->connections = c;
	gs->n_connections++;
	if (timer_init(&c->hello, l, on_silent, c, "gateway", e) < 0 ||
	    io_add(&c->io, l, c->fd, IO_IN, on_request, c, "gateway", e) < 0) {
		connection_drop(c);
		return -1;
	}
	timer_in(&c->hello, GATEWAY_HELLO_MS);
	return 0;
}

static void on_connect(unsigned ready, void *arg)
{
	struct gateway_socket *gs = arg;
	struct err e = { 0 };
	AUTO_FD fd = accept4(gs->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)ready;
	if (fd < 0) {
		/* EMFILE, ENOMEM: retry later instead of spinning */
		if (errno != EAGAIN && errno != ECONNABORTED) {
			io_want(&gs->io, 0);
			timer_in(&gs->again, AGAIN_MS);
		}
		return;
	}
	if (gs->n_connections == GATEWAY_CONNECTIONS_MAX)
		(void)err_set(&e, ERR_LIMIT, "%d gateways are connected already", GATEWAY_CONNECTIONS_MAX);
	else if (connection_new(gs, &fd, &e) == 0)
		return;
	if (log_limit_admits(&gs->refused, gs->plane->spec.loop))
		log_warn("cannot accept a gateway, ignoring", LOG_ERR(&e));
}

static void on_again(void *arg)
{
	struct gateway_socket *gs = arg;

	io_want(&gs->io, IO_IN);
}

/* ---- life ---- */

struct gateway_socket *gateway_socket_new(struct plane *p, const struct auth *auth, int *listener,
					  struct err *e)
{
	AUTO(gateway_socket_free) struct gateway_socket *gs = calloc(1, sizeof(*gs));

	if (!gs) {
		(void)err_no_memory(e);
		return NULL;
	}
	*gs = (struct gateway_socket){ .plane = p, .auth = auth, .listener = -1,
				       .refused = LOG_LIMIT(LOG_LEVEL_WARN, "refused gateways") };
	if (timer_init(&gs->again, p->spec.loop, on_again, gs, "gateway socket", e) < 0)
		return NULL;
	if (io_add(&gs->io, p->spec.loop, *listener, IO_IN, on_connect, gs, "gateway socket", e) < 0)
		return NULL;
	gs->listener = take_fd(listener);
	return take_ptr(&gs);
}

void gateway_socket_free(struct gateway_socket *gs)
{
	if (!gs)
		return;
	while (gs->connections)
		connection_drop(gs->connections);
	io_del(&gs->io);
	timer_done(&gs->again);
	log_limit_done(&gs->refused);
	closep(&gs->listener);
	free(gs);
}
