// SPDX-License-Identifier: Apache-2.0
/* net/addr.h - numeric socket addresses as text: "127.0.0.1:8080", "[::1]:80", "unix:/run/x.sock",
 * "unix:@name".
 *
 * No names are looked up here. */
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/str.h"

struct err;

struct addr {
	socklen_t len;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
};

/* "unix:@name" is the abstract namespace. A port may be 0, for listening on any. ERR_INVALID. */
int sockaddr_parse(struct str text, struct addr *ret_addr, struct err *e);
int sockaddr_unix(const char *path, struct addr *ret_addr, struct err *e); /* a path in the file system */

/* The address alone, without a port, as others write it in headers; "" for a unix socket. Returns OUT. */
#define ADDR_HOST_MAX 46
const char *sockaddr_host(const struct sockaddr *sa, char out[ADDR_HOST_MAX]);
/* The text of an address, for logs; returns OUT. Bytes of an abstract name that are not printable become
 * '?'. */
#define ADDR_TEXT_MAX 128
const char *sockaddr_format(const struct sockaddr *sa, socklen_t len, char out[ADDR_TEXT_MAX]);
