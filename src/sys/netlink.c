// SPDX-License-Identifier: Apache-2.0
#include "sys/netlink.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "sys/netns.h"

#include "base/banned.h"

/* linux/netlink.h of Linux 4.12 and 4.20. */
#ifndef NLM_F_ACK_TLVS
#define NLM_F_CAPPED 0x100
#define NLM_F_ACK_TLVS 0x200
#endif
#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif
#define OPTION_CAP_ACK 10
#define OPTION_EXT_ACK 11
#define OPTION_STRICT 12
#define ERROR_ATTR_MSG 1

#define ALIGN4(n) (((n) + 3) & ~(size_t)3)

/* ---- the socket ---------------------------------------------------------------------------------------- */

int netlink_open(struct netlink *nl, int protocol, int netns, struct err *e)
{
	static const int options[] = { OPTION_CAP_ACK, OPTION_EXT_ACK, OPTION_STRICT };
	const struct timeval timeout = { .tv_sec = NETLINK_TIMEOUT_MS / 1000 };
	const int on = 1;
	int fd = netns_socket(netns, AF_NETLINK, SOCK_RAW, protocol, e);

	if (fd < 0)
		return err_wrap(e, "open netlink");
	/* Older kernels lack these: then answers are longer and wordless, and listings less strict. */
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		(void)setsockopt(fd, SOL_NETLINK, options[i], &on, sizeof(on));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0) {
		(void)err_sys(e, errno, "open netlink: set a timeout");
		(void)close(fd);
		return -1;
	}
	*nl = (struct netlink){ .fd = fd };
	return 0;
}

void netlink_done(struct netlink *nl)
{
	closep(&nl->fd);
	nl->fd = -1;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

void netlink_msg_init(struct netlink_msg *m)
{
	m->n = m->start = m->n_nests = m->n_msgs = 0;
	m->failed = false;
}

/* N bytes with zeroes up to the next multiple of 4; their place, or NULL. */
static void *append(struct netlink_msg *m, const void *p, size_t n)
{
	char *at = m->bytes + m->n;

	if (m->failed || n > sizeof(m->bytes) || ALIGN4(n) > sizeof(m->bytes) - m->n) {
		m->failed = true;
		return NULL;
	}
	memset(at, 0, ALIGN4(n));
	if (n > 0)
		memcpy(at, p, n);
	m->n += ALIGN4(n);
	return at;
}

static struct nlmsghdr *header_at(struct netlink_msg *m, size_t at)
{
	return (struct nlmsghdr *)(void *)(m->bytes + at);
}

static void end_message(struct netlink_msg *m)
{
	if (m->n_nests > 0)
		m->failed = true; /* an attribute of ours was left open */
	if (m->n_msgs > 0 && !m->failed)
		header_at(m, m->start)->nlmsg_len = (uint32_t)(m->n - m->start);
}

void netlink_begin(struct netlink_msg *m, uint16_t type, uint16_t flags, const void *head, size_t n)
{
	const struct nlmsghdr h = { .nlmsg_type = type, .nlmsg_flags = flags | NLM_F_REQUEST };

	end_message(m);
	m->start = m->n;
	m->n_msgs++;
	if (append(m, &h, sizeof(h)))
		(void)append(m, head, n);
}

void netlink_put_raw(struct netlink_msg *m, const void *p, size_t n)
{
	(void)append(m, p, n);
}

void netlink_put(struct netlink_msg *m, uint16_t type, const void *p, size_t n)
{
	struct nlattr a = { .nla_type = type };

	if (n > UINT16_MAX - sizeof(a)) {
		m->failed = true;
		return;
	}
	a.nla_len = (uint16_t)(sizeof(a) + n);
	if (append(m, &a, sizeof(a)))
		(void)append(m, p, n);
}

void netlink_put_u32(struct netlink_msg *m, uint16_t type, uint32_t v)
{
	netlink_put(m, type, &v, sizeof(v));
}

void netlink_put_z(struct netlink_msg *m, uint16_t type, const char *z)
{
	netlink_put(m, type, z, strlen(z) + 1);
}

void netlink_nest(struct netlink_msg *m, uint16_t type)
{
	if (m->n_nests == NETLINK_NESTS_MAX) {
		m->failed = true;
		return;
	}
	m->nests[m->n_nests++] = m->n;
	netlink_put(m, type | NLA_F_NESTED, NULL, 0);
}

void netlink_unnest(struct netlink_msg *m)
{
	struct nlattr *a;

	if (m->n_nests == 0 || m->failed) {
		m->failed = true;
		return;
	}
	a = (struct nlattr *)(void *)(m->bytes + m->nests[--m->n_nests]);
	a->nla_len = (uint16_t)((m->bytes + m->n) - (char *)a); /* a message is smaller than what 16 bits hold */
}

/* ---- reading ------------------------------------------------------------------------------------------- */

bool netlink_next(struct str *attrs, uint16_t *ret_type, struct str *ret_value)
{
	struct nlattr a;

	if (attrs->n < sizeof(a))
		return false;
	memcpy(&a, attrs->p, sizeof(a));
	if (a.nla_len < sizeof(a) || a.nla_len > attrs->n)
		return false;
	*ret_type = a.nla_type & NLA_TYPE_MASK;
	*ret_value = (struct str){ attrs->p + sizeof(a), a.nla_len - sizeof(a) };
	*attrs = str_skip(*attrs, ALIGN4(a.nla_len));
	return true;
}

bool netlink_find(struct str attrs, uint16_t type, struct str *ret)
{
	struct str value;
	uint16_t t;

	while (netlink_next(&attrs, &t, &value)) {
		if (t != type)
			continue;
		*ret = value;
		return true;
	}
	return false;
}

/* The words behind the number: after it come the header of our request, the whole request unless it was capped,
 * and then attributes. */
static int refusal(const struct nlmsghdr *h, struct str body, int sys, struct err *e)
{
	struct str text = { 0 };
	struct nlmsghdr request;
	size_t skip = sizeof(int32_t) + sizeof(request);

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || body.n < skip)
		return err_sys(e, sys, "netlink");
	memcpy(&request, body.p + sizeof(int32_t), sizeof(request));
	if (!(h->nlmsg_flags & NLM_F_CAPPED) && request.nlmsg_len > sizeof(request))
		skip += ALIGN4((size_t)request.nlmsg_len) - sizeof(request);
	if (!netlink_find(str_skip(body, skip), ERROR_ATTR_MSG, &text) || text.n == 0)
		return err_sys(e, sys, "netlink");
	text.n = strnlen(text.p, text.n);
	return err_sys(e, sys, "netlink: %s", SHOWN(text));
}

/* One message of the answer. 1 at the end of a dump. */
static int take_message(struct netlink_answer *a, const struct nlmsghdr *h, struct str body, struct err *e)
{
	int32_t code = 0;

	if (h->nlmsg_flags & NLM_F_DUMP_INTR)
		a->was_interrupted = true;
	if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE) {
		if (body.n >= sizeof(code))
			memcpy(&code, body.p, sizeof(code));
		else if (h->nlmsg_type == NLMSG_ERROR)
			return err_set(e, ERR_IO, "netlink: acknowledgement cut short");
		if (code < 0)
			return refusal(h, body, code == INT32_MIN ? EIO : -code, e);
		a->acks += h->nlmsg_type == NLMSG_ERROR;
		return h->nlmsg_type == NLMSG_DONE;
	}
	if (h->nlmsg_type < NLMSG_MIN_TYPE || !a->fn)
		return 0;
	if (a->rows++ >= NETLINK_ROWS_MAX)
		return err_set(e, ERR_LIMIT, "netlink: more than %d rows", NETLINK_ROWS_MAX);
	return a->fn(h->nlmsg_type, body, a->arg, e) < 0 ? -1 : 0;
}

int netlink_parse(struct netlink_answer *a, struct str datagram, struct err *e)
{
	while (datagram.n >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr h;
		struct str body;
		int r;

		memcpy(&h, datagram.p, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > datagram.n)
			return err_set(e, ERR_IO, "netlink: message cut short");
		body = (struct str){ datagram.p + sizeof(h), h.nlmsg_len - sizeof(h) };
		datagram = str_skip(datagram, ALIGN4((size_t)h.nlmsg_len));
		if (h.nlmsg_seq - a->first >= a->count)
			continue; /* what is left of an earlier request that ended with an error */
		r = take_message(a, &h, body, e);
		if (r != 0)
			return r;
	}
	return 0;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

/* Numbers the messages, sends them at once, and says how many acknowledgements are due. */
static int send_bytes(struct netlink *nl, char *bytes, size_t n, struct netlink_answer *a, size_t *ret_acks, struct err *e)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	size_t acks = 0;
	ssize_t sent;

	a->first = nl->seq + 1;
	for (size_t at = 0; at < n;) {
		struct nlmsghdr *h = (struct nlmsghdr *)(void *)(bytes + at);

		h->nlmsg_seq = ++nl->seq;
		acks += (h->nlmsg_flags & NLM_F_ACK) != 0;
		at += ALIGN4(h->nlmsg_len);
	}
	a->count = nl->seq + 1 - a->first;
	do
		sent = sendto(nl->fd, bytes, n, 0, (const struct sockaddr *)&kernel, sizeof(kernel));
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return err_sys(e, errno, "netlink: send");
	*ret_acks = acks;
	return 0;
}

static int send_all(struct netlink *nl, struct netlink_msg *m, struct netlink_answer *a, size_t *ret_acks, struct err *e)
{
	end_message(m);
	if (m->failed || m->n_msgs == 0)
		return err_set(e, ERR_LIMIT, "netlink: request of more than %d bytes", NETLINK_MSG_MAX);
	return send_bytes(nl, m->bytes, m->n, a, ret_acks, e);
}

void netlink_collect(struct netlink_msg *m, struct buf *bytes)
{
	end_message(m);
	if (m->failed)
		bytes->failed = true;
	else
		(void)buf_add(bytes, m->bytes, m->n);
	netlink_msg_init(m);
}

/* One datagram of the kernel's; whoever else writes to our address is not heard. */
static int receive(struct netlink *nl, char *bytes, size_t cap, struct str *ret, struct err *e)
{
	struct sockaddr_nl from;
	socklen_t len;
	ssize_t n;

	do {
		len = sizeof(from);
		n = recvfrom(nl->fd, bytes, cap, MSG_TRUNC, (struct sockaddr *)&from, &len);
	} while ((n < 0 && errno == EINTR) || (n >= 0 && from.nl_pid != 0));
	if (n < 0 && errno == EAGAIN)
		return err_set(e, ERR_TIMEOUT, "netlink: no answer within %d ms", NETLINK_TIMEOUT_MS);
	if (n < 0)
		return err_sys(e, errno, "netlink: receive");
	if ((size_t)n > cap)
		return err_set(e, ERR_LIMIT, "netlink: answer of more than %zu bytes", cap);
	*ret = (struct str){ bytes, (size_t)n };
	return 0;
}

/* Until there are as many acknowledgements, or, for a dump, until its end. */
static int converse(struct netlink *nl, struct netlink_answer *a, size_t acks, bool is_dump, struct err *e)
{
	AUTO(free) char *bytes = malloc(NETLINK_ANSWER_MAX);
	struct str datagram = { 0 };
	int r = 0;

	if (!bytes)
		return err_no_memory(e);
	while (is_dump ? r == 0 : a->acks < acks) {
		if (receive(nl, bytes, NETLINK_ANSWER_MAX, &datagram, e) < 0)
			return -1;
		r = netlink_parse(a, datagram, e);
		if (r < 0)
			return -1;
	}
	return 0;
}

int netlink_request(struct netlink *nl, struct netlink_msg *m, struct err *e)
{
	return netlink_ask(nl, m, NULL, NULL, e);
}

int netlink_request_bytes(struct netlink *nl, struct buf *bytes, struct err *e)
{
	struct netlink_answer a = { 0 };
	size_t acks = 0;

	if (bytes->failed)
		return err_set(e, ERR_LIMIT, "netlink: request of more than %zu bytes", bytes->max);
	if (bytes->n == 0)
		return 0;
	if (send_bytes(nl, bytes->p, bytes->n, &a, &acks, e) < 0)
		return -1;
	return converse(nl, &a, acks, false, e);
}

int netlink_ask(struct netlink *nl, struct netlink_msg *m, netlink_row_fn fn, void *arg, struct err *e)
{
	struct netlink_answer a = { .fn = fn, .arg = arg };
	size_t acks = 0;

	if (send_all(nl, m, &a, &acks, e) < 0)
		return -1;
	return converse(nl, &a, acks, false, e);
}

int netlink_dump(struct netlink *nl, struct netlink_msg *m, netlink_row_fn fn, void *arg, struct err *e)
{
	struct netlink_answer a = { .fn = fn, .arg = arg };
	size_t acks = 0;

	if (m->n_msgs != 1)
		return err_set(e, ERR_INVALID, "netlink: a listing is one message");
	header_at(m, m->start)->nlmsg_flags |= NLM_F_DUMP;
	if (send_all(nl, m, &a, &acks, e) < 0 || converse(nl, &a, 0, true, e) < 0)
		return -1;
	if (a.was_interrupted)
		return err_sys(e, EAGAIN, "netlink: the table changed meanwhile");
	return 0;
}
