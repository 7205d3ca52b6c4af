// SPDX-License-Identifier: Apache-2.0
/* sys/netns.h - network namespaces as descriptors. Each call enters the namespace and returns. If the return
 * fails, the process ends, because it must not continue in a foreign network. */
#pragma once
#include <stddef.h>

struct err;

/* A new one, owned by our user namespace; lo is down. It lives as long as something refers to it. */
int netns_make(struct err *e);

/* A socket that was born in NETNS and stays there, whoever holds it; -1 is our own namespace.
 * Close-on-exec. */
int netns_socket(int netns, int domain, int type, int protocol, struct err *e);

/* A setting below /proc/sys/net: "ipv4/ip_unprivileged_port_start". A name with a '.' in it (a link's) is
 * fine. */
struct netns_setting {
	const char *path, *value;
};

#define NETNS_SETTING_MAX 128 /* bytes of a value */

/* Writes them in this order, up to the first that fails. Needs openat2(), and PROC, the root of a mounted
 * proc, or -1: that at /proc. The kernel keeps the names that were looked up there for as long as the network
 * lives, one chain for each name of one proc: on a host of thousands of networks each should be set through a
 * proc of its own. */
int netns_set(int netns, int proc, const struct netns_setting *settings, size_t n, struct err *e);

/* FN's result, called inside. It must not leave the namespace. */
typedef int (*netns_fn)(void *arg, struct err *e);
int netns_call(int netns, netns_fn fn, void *arg, struct err *e);
