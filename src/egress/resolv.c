// SPDX-License-Identifier: Apache-2.0
#include "egress/resolv.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fd.h"

#include "base/banned.h"

#define DNS_PORT 53
#define ADDRESS_MAX 64 /* characters */

/* With a port, which is not 0. */
static bool is_address(struct str text, struct addr *ret)
{
	struct addr a = { 0 };

	if (sockaddr_parse(text, &a, &(struct err){ 0 }) < 0 || a.sa.sa_family == AF_UNIX || a.in.sin_port == 0)
		return false;
	*ret = a;
	return true;
}

int resolv_address(struct str text, struct addr *ret, struct err *e)
{
	char padded[ADDRESS_MAX + 16];

	if (text.n > ADDRESS_MAX)
		return err_set(e, ERR_INVALID, "'%.*s' is no address", ADDRESS_MAX, text.p);
	if (is_address(text, ret))
		return 0;
	(void)snprintf(padded, sizeof(padded), "%.*s:%d", STR_ARG(text), DNS_PORT);
	if (is_address(str_of(padded), ret))
		return 0;
	(void)snprintf(padded, sizeof(padded), "[%.*s]:%d", STR_ARG(text), DNS_PORT);
	if (is_address(str_of(padded), ret))
		return 0;
	return err_set(e, ERR_INVALID, "'%.*s' is no address of a resolver", STR_ARG(text));
}

static bool is_loopback(const struct addr *a)
{
	return a->sa.sa_family == AF_INET ? (ntohl(a->in.sin_addr.s_addr) >> 24) == 127 : IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

void resolv_add(struct addr *out, size_t *n, size_t max, const struct addr *a)
{
	for (size_t i = 0; i < *n; i++)
		if (out[i].len == a->len && memcmp(&out[i].sa, &a->sa, a->len) == 0)
			return;
	if (*n < max)
		out[(*n)++] = *a;
}

static void add_lines(struct str text, bool of_loopback, struct addr *out, size_t *n, size_t max)
{
	struct str line, word, address;
	struct addr a = { 0 };

	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		if (!str_take_word(&line, &word, 32) || !str_is(word, "nameserver") || !str_take_word(&line, &address, ADDRESS_MAX))
			continue;
		if (resolv_address(address, &a, &(struct err){ 0 }) == 0 && is_loopback(&a) == of_loopback)
			resolv_add(out, n, max, &a);
	}
}

size_t resolv_parse(struct str text, struct addr *out, size_t max)
{
	size_t n = 0;

	add_lines(text, false, out, &n, max);
	add_lines(text, true, out, &n, max);
	return n;
}

int resolv_read(struct addr *out, size_t max, size_t *ret_n, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(RESOLV_CONF_MAX);

	if (fd_read_file(AT_FDCWD, RESOLV_CONF, RESOLV_CONF_MAX, &b, e) < 0)
		return -1;
	*ret_n = resolv_parse(buf_str(&b), out, max);
	return 0;
}
