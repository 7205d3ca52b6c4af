// SPDX-License-Identifier: Apache-2.0
#include "sys/netns.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/namespace.h"
#include "sys/path.h"

#include "base/banned.h"

int netns_call(int netns, netns_fn fn, void *arg, struct err *e)
{
	AUTO_FD home = -1;
	int r;

	if (netns < 0)
		return fn(arg, e);
	home = namespace_of_self(NAMESPACE_NET, e);
	if (home < 0 || namespace_enter(netns, NAMESPACE_NET, e) < 0)
		return -1;
	r = fn(arg, e);
	namespace_come_back(home, NAMESPACE_NET);
	return r;
}

int netns_make(struct err *e)
{
	AUTO_FD home = -1;
	int fd;

	home = namespace_of_self(NAMESPACE_NET, e);
	if (home < 0)
		return -1;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(e, errno, "make a network namespace");
	fd = namespace_of_self(NAMESPACE_NET, e);
	namespace_come_back(home, NAMESPACE_NET);
	return fd;
}

/* ---- inside -------------------------------------------------------------------------------------------- */

struct socket_args {
	int domain, type, protocol;
};

static int make_socket(void *arg, struct err *e)
{
	const struct socket_args *s = arg;
	int fd = socket(s->domain, s->type | SOCK_CLOEXEC, s->protocol);

	return fd < 0 ? err_sys(e, errno, "make a socket") : fd;
}

int netns_socket(int netns, int domain, int type, int protocol, struct err *e)
{
	struct socket_args s = { domain, type, protocol };

	return netns_call(netns, make_socket, &s, e);
}

struct set_args {
	int proc;
	const struct netns_setting *settings;
	size_t n;
};

static int write_one(int dir, const struct netns_setting *s, struct err *e)
{
	AUTO_FD fd = -1;
	size_t len = strlen(s->value);
	ssize_t n;

	if (len > NETNS_SETTING_MAX)
		return err_set(e, ERR_LIMIT, "value of more than %d bytes", NETNS_SETTING_MAX);
	fd = root_open_beneath(dir, s->path, O_WRONLY, 0, e);
	if (fd < 0)
		return -1;
	n = write(fd, s->value, len);
	return n == (ssize_t)len ? 0 : err_sys(e, n < 0 ? errno : EIO, "write '%s'", s->value);
}

/* The directory is opened inside: what is below sys/net depends on who looks. */
static int write_settings(void *arg, struct err *e)
{
	const struct set_args *s = arg;
	AUTO_FD dir = -1;

	dir = s->proc < 0 ? open("/proc/sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC) :
			    openat(s->proc, "sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, errno, "open '/proc/sys/net'");
	for (size_t i = 0; i < s->n; i++)
		if (write_one(dir, &s->settings[i], e) < 0)
			return err_wrap(e, "set 'net/%s'", s->settings[i].path);
	return 0;
}

int netns_set(int netns, int proc, const struct netns_setting *settings, size_t n, struct err *e)
{
	struct set_args s = { proc, settings, n };

	return netns_call(netns, write_settings, &s, e);
}
