// SPDX-License-Identifier: Apache-2.0
#include "net/resolve.h"

#include <netdb.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "net/addr.h"

#include "base/banned.h"

int resolve_host(const char *host, unsigned port, struct addr *ret, struct err *e)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found = NULL;
	char text[8];
	int rc;

	(void)snprintf(text, sizeof(text), "%u", port);
	rc = getaddrinfo(host, text, &hints, &found);
	if (rc != 0)
		return err_set(e, ERR_UNAVAILABLE, "look up '%s': %s", host, gai_strerror(rc));
	*ret = (struct addr){ .len = MIN(found->ai_addrlen, (socklen_t)sizeof(ret->in6)) };
	memcpy(&ret->sa, found->ai_addr, ret->len);
	freeaddrinfo(found);
	return 0;
}
