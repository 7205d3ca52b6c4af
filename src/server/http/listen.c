// SPDX-License-Identifier: Apache-2.0
#include "server/http/listen.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "server/http/auth.h"

#include "base/banned.h"

int listen_resolve(const char *host, unsigned port, struct listen_plan *ret_plan, struct err *e)
{
	const struct addrinfo hints = {
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	struct listen_plan plan = { .is_loopback = true };
	struct addrinfo *list = NULL;
	char service[16];
	int rc;

	(void)snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, &list);
	if (rc != 0)
		return err_set(e, ERR_INVALID, "server.host: look up '%s': %s", host, gai_strerror(rc));
	for (const struct addrinfo *ai = list; ai && plan.n < LISTEN_ADDRESSES_MAX; ai = ai->ai_next) {
		struct addr *a = &plan.addrs[plan.n];

		if (ai->ai_addrlen > sizeof(a->un))
			continue;
		memcpy(&a->sa, ai->ai_addr, ai->ai_addrlen);
		a->len = ai->ai_addrlen;
		plan.is_loopback = plan.is_loopback && auth_is_loopback_addr(&a->sa);
		plan.n++;
	}
	freeaddrinfo(list);
	if (plan.n == 0)
		return err_set(e, ERR_INVALID, "server.host: '%s' has no address", host);
	*ret_plan = plan;
	return 0;
}

static int open_one(const struct addr *a, int backlog, bool v6_only, struct err *e)
{
	AUTO_FD fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	char text[ADDR_TEXT_MAX];
	int on = 1, only = v6_only;

	(void)sockaddr_format(&a->sa, a->len, text);
	if (fd < 0)
		return err_sys(e, errno, "listen on %s", text);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "listen on %s: SO_REUSEADDR", text);
	if (a->sa.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) < 0)
		return err_sys(e, errno, "listen on %s: IPV6_V6ONLY", text);
	if (bind(fd, &a->sa, a->len) < 0 || listen(fd, backlog) < 0)
		return err_sys(e, errno, "listen on %s", text);
	return take_fd(&fd);
}

int listen_open(const struct listen_plan *plan, int backlog, int fds[LISTEN_ADDRESSES_MAX], size_t *ret_n,
		struct err *e)
{
	struct err first = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++) {
		struct err one = { 0 };
		int fd = open_one(&plan->addrs[i], backlog, plan->n > 1, &one);

		if (fd >= 0) {
			fds[n++] = fd;
			continue;
		}
		if (first.code == ERR_NONE)
			first = one;
		if (one.sys == EADDRNOTAVAIL || one.sys == EAFNOSUPPORT)
			continue;
		first = one;
		while (n > 0)
			(void)close(fds[--n]);
		break;
	}
	if (n == 0) {
		*e = first;
		return -1;
	}
	*ret_n = n;
	return 0;
}
