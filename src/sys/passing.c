// SPDX-License-Identifier: Apache-2.0
#include "sys/passing.h"

#include <assert.h>
#include <string.h>
#include <sys/un.h>

#include "base/err.h"

#include "base/banned.h"

/* Room for the descriptors and the sender; the union aligns it. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * PASSING_FDS_MAX) + CMSG_SPACE(sizeof(struct ucred))];
};

int passing_pair(int ret_fds[2], struct err *e)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fds) < 0)
		return err_sys(e, errno, "create a socket pair");
	return 0;
}

int passing_connect(const char *path, struct err *e)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	AUTO_FD fd = -1;
	size_t n = strlen(path);

	if (n >= sizeof(to.sun_path))
		return err_set(e, ERR_INVALID, "connect to '%s': longer than %zu bytes", path,
			       sizeof(to.sun_path) - 1);
	memcpy(to.sun_path, path, n);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "create a socket");
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return err_sys(e, errno, "connect to '%s'", path);
	return take_fd(&fd);
}

int passing_want_sender(int fd, struct err *e)
{
	const int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "ask for the senders of messages");
	return 0;
}

void passed_done(struct passed *p)
{
	for (size_t i = 0; i < p->n_fds; i++)
		closep(&p->fds[i]);
	*p = PASSED_INIT;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

int passing_send(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds, struct err *e)
{
	union control control = { .bytes = { 0 } };
	struct iovec iov = { .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t r;

	if (n == 0 || n_fds > PASSING_FDS_MAX)
		return err_set(e, ERR_INVALID, "send a message of %zu bytes and %zu descriptors", n, n_fds);
	/* sendmsg() only reads, but its struct is not const. The casts: libcs differ in the types of lengths. */
	memcpy(&iov.iov_base, &bytes, sizeof(bytes));
	if (n_fds > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = (__typeof__(msg.msg_controllen))CMSG_SPACE(sizeof(int) * n_fds);
		c = &control.align;
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = (__typeof__(c->cmsg_len))CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	do
		r = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EAGAIN)
		return 0;
	return r < 0 ? err_sys(e, errno, "send a message") : 1;
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

static size_t rights_of(const struct cmsghdr *c)
{
	if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	return (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
}

static int right_at(struct cmsghdr *c, size_t i)
{
	int fd;

	memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
	return fd;
}

/* Takes what came along into *ret. Every descriptor beyond MAX is closed at once: when no sender is asked for,
 * its room in the control buffer lets a few more in than PASSING_FDS_MAX. */
static size_t take_control(struct msghdr *msg, size_t max, struct passed *ret)
{
	size_t seen = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		for (size_t i = 0; i < rights_of(c); i++, seen++) {
			int fd = right_at(c, i);

			if (ret->n_fds < max)
				ret->fds[ret->n_fds++] = fd;
			else
				closep(&fd);
		}
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
		    c->cmsg_len >= CMSG_LEN(sizeof(ret->sender))) {
			memcpy(&ret->sender, CMSG_DATA(c), sizeof(ret->sender));
			ret->has_sender = true;
		}
	}
	return seen;
}

static int refuse(struct passed *ret, struct err *e, const char *what, size_t max)
{
	passed_done(ret);
	return err_set(e, ERR_LIMIT, "receive a message: more than %zu %s", max, what);
}

/* The control buffer always has room for PASSING_FDS_MAX. When the kernel delivered fewer and says that some are
 * missing, it ran out of free numbers here (or a security module held one back, which looks the same). */
static int refuse_fds(struct passed *ret, struct err *e, size_t seen, size_t max)
{
	if (seen > max || seen >= PASSING_FDS_MAX)
		return refuse(ret, e, "descriptors", max);
	passed_done(ret);
	return err_sys(e, EMFILE, "receive a message: its descriptors were lost");
}

int passing_recv(int fd, void *bytes, size_t cap, size_t max_fds, struct passed *ret, struct err *e)
{
	union control control;
	struct iovec iov = { .iov_base = bytes, .iov_len = cap };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	size_t seen;
	ssize_t r;

	assert(max_fds <= PASSING_FDS_MAX);
	*ret = PASSED_INIT;
	do
		r = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EAGAIN)
		return PASSING_NONE;
	if (r < 0)
		return err_sys(e, errno, "receive a message");
	seen = take_control(&msg, max_fds, ret);
	if (seen > max_fds || (msg.msg_flags & MSG_CTRUNC))
		return refuse_fds(ret, e, seen, max_fds);
	if (msg.msg_flags & MSG_TRUNC)
		return refuse(ret, e, "bytes", cap);
	if (r == 0) { /* the end, or an empty message, which no sender of ours makes */
		passed_done(ret);
		return PASSING_END;
	}
	ret->n = (size_t)r;
	return PASSING_MESSAGE;
}
