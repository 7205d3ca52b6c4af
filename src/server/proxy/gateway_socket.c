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

/* A gateway. */
struct caller {
	struct door *door;
	struct caller *prev, *next;
	int fd;
	struct io io;
	struct timer hello; /* until it has said who it is */
	bool is_known;
	struct knock *knocks;
	unsigned n_knocks;
};

/* A question that waits for the runtime. */
struct knock {
	struct plane_job job;
	struct caller *caller; /* NULL: gone */
	struct knock *prev, *next;
	uint64_t serial;
};

struct door {
	struct plane *plane;
	const struct auth *auth;
	int listener;
	struct io io;
	struct timer again; /* until there may be descriptors again */
	struct log_limit strangers; /* whoever may open the socket can knock as often as they like */
	struct caller *callers;
	unsigned n_callers;
};

/* ---- the socket ---- */

static int make_way(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is there and is no socket", path);
	return unlink(path) < 0 ? err_sys(e, errno, "remove '%s'", path) : 0;
}

int door_listen(const char *path, struct err *e)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (fd < 0)
		return err_sys(e, errno, "make a door for gateways");
	if (strlen(path) >= sizeof(to.sun_path))
		return err_set(e, ERR_INVALID, "ingress.door: a socket's path has at most %zu bytes", sizeof(to.sun_path) - 1);
	memcpy(to.sun_path, path, strlen(path) + 1);
	if (make_way(path, e) < 0)
		return err_wrap(e, "ingress.door");
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return err_sys(e, errno, "ingress.door: bind '%s'", path);
	/* Whoever comes has to have the key, and connections are all that is to be had. */
	if (chmod(path, 0666) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, errno, "ingress.door: listen at '%s'", path);
	return take_fd(&fd);
}

/* ---- callers ---- */

static void caller_drop(struct caller *c)
{
	for (struct knock *k = c->knocks; k; k = k->next)
		k->caller = NULL;
	*(c->prev ? &c->prev->next : &c->door->callers) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->door->n_callers--;
	io_del(&c->io);
	timer_done(&c->hello);
	closep(&c->fd);
	free(c);
}

/* False: it is gone. The socket has room for an answer to each question that may be open, so one that has none is broken. */
static bool answer(struct caller *c, uint64_t serial, enum door_status status, const int *fd)
{
	struct door_answer a = { .serial = serial, .status = status };
	struct err e = { 0 };

	if (passing_send(c->fd, &a, sizeof(a), fd, fd != NULL, &e) == 1)
		return true;
	log_warn("a gateway does not take its answers, dropping it", LOG_ERR(&e));
	caller_drop(c);
	return false;
}

/* ---- connections ---- */

static void knock_free(struct knock *k)
{
	if (k->caller) {
		*(k->prev ? &k->prev->next : &k->caller->knocks) = k->next;
		if (k->next)
			k->next->prev = k->prev;
		k->caller->n_knocks--;
	}
	free(k);
}

static void knock_drop(struct plane_job *job)
{
	knock_free(container_of(job, struct knock, job));
}

static void on_dialled(struct transport *t, const struct runtime_failure *failure, void *arg)
{
	struct knock *k = arg;
	struct caller *c = k->caller;
	uint64_t serial = k->serial;

	(void)failure;
	plane_job_end(&k->job);
	knock_free(k);
	if (c)
		(void)answer(c, serial, t && t->is_plain ? DOOR_OPEN : DOOR_NOBODY, t && t->is_plain ? &t->fd : NULL);
	transport_close(t); /* the gateway has its own number for it */
}

static bool dial(struct caller *c, struct sandbox *sb, unsigned port, uint64_t serial)
{
	struct plane *plane = c->door->plane;
	struct runtime *rt = plane->spec.runtime;
	struct knock *k = calloc(1, sizeof(*k));

	if (!k)
		return answer(c, serial, DOOR_REFUSED, NULL);
	*k = (struct knock){ .caller = c, .serial = serial, .next = c->knocks };
	if (k->next)
		k->next->prev = k;
	c->knocks = k;
	c->n_knocks++;
	plane_job_begin(plane, &k->job, knock_drop);
	rt->ops->dial(rt, sb->row.id, port, on_dialled, k);
	return true;
}

static bool on_dial(struct caller *c, const struct door_ask *ask, struct sandbox *sb)
{
	if (!sb || !sandbox_can_be_called(sb))
		return answer(c, ask->serial, DOOR_NOWHERE, NULL);
	if (guarded_port_find(ask->port) || ask->port < 1 || ask->port > 65535 || c->n_knocks >= DOOR_DIALS_MAX)
		return answer(c, ask->serial, DOOR_REFUSED, NULL);
	return dial(c, sb, ask->port, ask->serial);
}

/* ---- questions ---- */

static bool on_hello(struct caller *c, const struct door_ask *ask)
{
	if (ask->kind != DOOR_HELLO || ask->version != DOOR_VERSION || !auth_is_key(c->door->auth, str_of(ask->text))) {
		if (log_limit_admits(&c->door->strangers, c->door->plane->spec.loop))
			log_warn("somebody at the door for gateways has no key, or speaks another language");
		caller_drop(c);
		return false;
	}
	c->is_known = true;
	timer_cancel(&c->hello);
	return answer(c, ask->serial, DOOR_OPEN, NULL);
}

/* False: it is gone. */
static bool on_ask(struct caller *c, const struct door_ask *ask)
{
	const struct plane_spec *spec = &c->door->plane->spec;
	struct sandbox *sb;

	if (!c->is_known)
		return on_hello(c, ask);
	sb = sandboxes_find(c->door->plane->sandboxes, str_of(ask->text));
	if (ask->kind == DOOR_DIAL)
		return on_dial(c, ask, sb);
	if (ask->kind == DOOR_USED && sb && spec->renews_on_access)
		sandbox_touch(sb, spec->renew_interval_s);
	return true;
}

static void on_caller(unsigned ready, void *arg)
{
	struct caller *c = arg;

	(void)ready;
	for (;;) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct door_ask ask = { 0 };
		struct err e = { 0 };
		int rc = passing_recv(c->fd, &ask, sizeof(ask), 0, &got, &e);
		bool is_good;

		if (rc == PASSING_NONE)
			return;
		is_good = rc == PASSING_MESSAGE && got.n > DOOR_HEAD && ((char *)&ask)[got.n - 1] == '\0';
		if (!is_good) {
			caller_drop(c);
			return;
		}
		if (!on_ask(c, &ask))
			return;
	}
}

static void on_silent(void *arg)
{
	caller_drop(arg);
}

static int caller_new(struct door *d, int *fd, struct err *e)
{
	struct loop *l = d->plane->spec.loop;
	struct caller *c = calloc(1, sizeof(*c));

	if (!c)
		return err_no_memory(e);
	*c = (struct caller){ .door = d, .fd = take_fd(fd), .next = d->callers };
	if (c->next)
		c->next->prev = c;
	d->callers = c;
	d->n_callers++;
	if (timer_init(&c->hello, l, on_silent, c, "gateway", e) < 0 || io_add(&c->io, l, c->fd, IO_IN, on_caller, c, "gateway", e) < 0) {
		caller_drop(c);
		return -1;
	}
	timer_in(&c->hello, DOOR_HELLO_MS);
	return 0;
}

static void on_knocking(unsigned ready, void *arg)
{
	struct door *d = arg;
	struct err e = { 0 };
	AUTO_FD fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)ready;
	if (fd < 0) {
		if (errno != EAGAIN && errno != ECONNABORTED) { /* no descriptors, no memory: they wait with us, and not in circles */
			io_want(&d->io, 0);
			timer_in(&d->again, AGAIN_MS);
		}
		return;
	}
	if (d->n_callers == DOOR_PEERS_MAX)
		(void)err_set(&e, ERR_LIMIT, "there are %d already", DOOR_PEERS_MAX);
	else if (caller_new(d, &fd, &e) == 0)
		return;
	if (log_limit_admits(&d->strangers, d->plane->spec.loop))
		log_warn("a gateway could not be let in", LOG_ERR(&e));
}

static void on_again(void *arg)
{
	struct door *d = arg;

	io_want(&d->io, IO_IN);
}

/* ---- life ---- */

struct door *door_new(struct plane *p, const struct auth *auth, int *listener, struct err *e)
{
	AUTO(door_free) struct door *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	*d = (struct door){ .plane = p, .auth = auth, .listener = -1, .strangers = LOG_LIMIT(LOG_LEVEL_WARN, "gateways that were sent away") };
	if (timer_init(&d->again, p->spec.loop, on_again, d, "door", e) < 0)
		return NULL;
	if (io_add(&d->io, p->spec.loop, *listener, IO_IN, on_knocking, d, "door", e) < 0)
		return NULL;
	d->listener = take_fd(listener);
	return take_ptr(&d);
}

void door_free(struct door *d)
{
	if (!d)
		return;
	while (d->callers)
		caller_drop(d->callers);
	io_del(&d->io);
	timer_done(&d->again);
	log_limit_done(&d->strangers);
	closep(&d->listener);
	free(d);
}
