// SPDX-License-Identifier: Apache-2.0
#include "client/host_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "base/own.h"
#include "net/loop.h"

#include "base/banned.h"

#define STACK_BYTES ((size_t)256 * 1024) /* the resolver keeps answers of up to 64 KiB on it */

/* What thread and loop share. Who lets go of it last frees it. */
struct shared {
	atomic_int holders;
	int done_fd; /* written by the thread, once the rest is */
	atomic_bool is_done; /* the same for the eyes of the compiler, to whom a descriptor says nothing */
	int result;  /* of getaddrinfo() */
	char host[256], port[8];
	struct addr addresses[HOST_ADDRESSES_MAX];
	size_t n;
};

struct host_lookup {
	struct shared *shared;
	struct io io;
	host_lookup_fn *fn;
	void *arg;
};

static void shared_unref(struct shared *s)
{
	if (atomic_fetch_sub(&s->holders, 1) != 1)
		return;
	closep(&s->done_fd);
	free(s);
}
DEFINE_AUTO(struct shared *, shared_unref)

static void keep(struct shared *s, const struct addrinfo *found)
{
	for (; found && s->n < HOST_ADDRESSES_MAX; found = found->ai_next) {
		struct addr *a = &s->addresses[s->n];

		if (found->ai_addrlen > sizeof(a->in6))
			continue;
		memcpy(&a->sa, found->ai_addr, found->ai_addrlen);
		a->len = found->ai_addrlen;
		s->n++;
	}
}

/* The thread. It has no signals and, beside SHARED, nothing of anybody's. */
static void *look_up(void *arg)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct shared *s = arg;
	struct addrinfo *found = NULL;

	s->result = getaddrinfo(s->host, s->port, &hints, &found);
	if (s->result == 0) {
		keep(s, found);
		freeaddrinfo(found);
	}
	atomic_store(&s->is_done, true);
	(void)eventfd_write(s->done_fd, 1);
	shared_unref(s);
	return NULL;
}

static int start_thread(struct shared *s, struct err *e)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	if (pthread_attr_init(&attr) != 0)
		return err_no_memory(e);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_fetch_add(&s->holders, 1);
	rc = pthread_create(&thread, &attr, look_up, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	if (rc == 0)
		return 0;
	atomic_fetch_sub(&s->holders, 1);
	return err_sys(e, rc, "start a thread to look up '%s'", s->host);
}

void host_lookup_cancel(struct host_lookup *h)
{
	if (!h)
		return;
	io_del(&h->io);
	if (h->shared)
		shared_unref(h->shared);
	free(h);
}
DEFINE_AUTO(struct host_lookup *, host_lookup_cancel)

static void on_done(unsigned ready, void *arg)
{
	struct host_lookup *h = arg;
	AUTO(shared_unref) struct shared *s = take_ptr(&h->shared);
	host_lookup_fn *fn = h->fn;
	void *fn_arg = h->arg;
	struct err e = { 0 };

	(void)ready;
	(void)atomic_load(&s->is_done);
	io_del(&h->io); /* before its descriptor may go */
	free(h);
	if (s->n == 0)
		(void)err_set(&e, ERR_UNAVAILABLE, "look up '%s': %s", s->host,
			      s->result != 0 ? gai_strerror(s->result) : "it has no address");
	fn(s->addresses, s->n, s->n > 0 ? NULL : &e, fn_arg);
}

struct host_lookup *host_lookup_start(struct loop *l, const char *host, unsigned port, host_lookup_fn *fn, void *arg,
				      struct err *e)
{
	AUTO(host_lookup_cancel) struct host_lookup *h = calloc(1, sizeof(*h));
	struct shared *s = h ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	h->shared = s;
	h->fn = fn;
	h->arg = arg;
	atomic_init(&s->holders, 1);
	s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->done_fd < 0) {
		(void)err_sys(e, errno, "create eventfd");
		return NULL;
	}
	if ((size_t)snprintf(s->host, sizeof(s->host), "%s", host) >= sizeof(s->host)) {
		(void)err_set(e, ERR_INVALID, "a name of more than %zu bytes", sizeof(s->host) - 1);
		return NULL;
	}
	(void)snprintf(s->port, sizeof(s->port), "%u", port & 0xffff);
	if (io_add(&h->io, l, s->done_fd, IO_IN, on_done, h, "host lookup", e) < 0 || start_thread(s, e) < 0)
		return NULL;
	return take_ptr(&h);
}

size_t host_known(const char *host, unsigned port, struct addr out[HOST_ADDRESSES_MAX])
{
	struct addr v4 = { .len = sizeof(struct sockaddr_in), .in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) } };
	struct addr v6 = { .len = sizeof(struct sockaddr_in6), .in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) } };
	struct str name = str_of(host);

	if (inet_pton(AF_INET, host, &v4.in.sin_addr) == 1) {
		out[0] = v4;
		return 1;
	}
	if (inet_pton(AF_INET6, host, &v6.in6.sin6_addr) == 1) {
		out[0] = v6;
		return 1;
	}
	if (!str_eq_nocase(name, STR("localhost")))
		return 0;
	v4.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	v6.in6.sin6_addr = in6addr_loopback;
	out[0] = v4;
	out[1] = v6;
	return 2;
}
