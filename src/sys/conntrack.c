// SPDX-License-Identifier: Apache-2.0
#include "sys/conntrack.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "sys/netlink.h"

#include "base/banned.h"

#define MESSAGE(type) (NFNL_SUBSYS_CTNETLINK << 8 | (type))
#define FILTER_SOURCE 1U /* of the kernel's flags for CTA_FILTER_ORIG_FLAGS */
#define FLOW_BYTES 128   /* what names one to the kernel, at most */
#define LIST_TRIES 4

static const struct nfgenmsg ipv4 = { .nfgen_family = AF_INET, .version = NFNETLINK_V0 };

/* What is to end, as the kernel named it: its tuple and its number, which no later connection has. */
struct ending {
	uint32_t source;
	conntrack_fn *fn;
	void *arg;
	struct buf names; /* a length and as many bytes of attributes, each */
	size_t n;
};

static uint32_t address_of(struct str tuple, uint16_t type)
{
	struct str ip, v;
	uint32_t a = 0;

	if (netlink_find(tuple, CTA_TUPLE_IP, &ip) && netlink_find(ip, type, &v) && v.n == sizeof(a))
		memcpy(&a, v.p, sizeof(a));
	return a;
}

static uint32_t mark_of(struct str attrs)
{
	struct str v;
	uint32_t mark = 0;

	if (netlink_find(attrs, CTA_MARK, &v) && v.n == sizeof(mark))
		memcpy(&mark, v.p, sizeof(mark));
	return ntohl(mark);
}

static void read_port(struct str tuple, struct conntrack_flow *f)
{
	struct str proto, v;
	uint16_t port;

	if (!netlink_find(tuple, CTA_TUPLE_PROTO, &proto))
		return;
	if (netlink_find(proto, CTA_PROTO_NUM, &v) && v.n == 1)
		f->protocol = (uint8_t)v.p[0];
	if (netlink_find(proto, CTA_PROTO_DST_PORT, &v) && v.n == sizeof(port)) {
		memcpy(&port, v.p, sizeof(port));
		f->port = ntohs(port);
	}
}

static void note(struct ending *d, struct str tuple, struct str id)
{
	struct netlink_msg m;
	uint32_t n;

	netlink_msg_init(&m);
	netlink_put(&m, CTA_TUPLE_ORIG | NLA_F_NESTED, tuple.p, tuple.n);
	netlink_put(&m, CTA_ID, id.p, id.n);
	n = (uint32_t)m.n;
	if (m.failed || n > FLOW_BYTES)
		return;
	(void)buf_add(&d->names, &n, sizeof(n));
	(void)buf_add(&d->names, m.bytes, n);
	d->n++;
}

/* Kernels before 5.8 list all of them: looked at here in any case. */
static int take_flow(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct ending *d = arg;
	struct conntrack_flow f = { 0 };
	struct str attrs, orig, reply, id;

	if (type != MESSAGE(IPCTNL_MSG_CT_NEW) || body.n < sizeof(struct nfgenmsg))
		return 0;
	attrs = str_skip(body, sizeof(struct nfgenmsg));
	if (!netlink_find(attrs, CTA_TUPLE_ORIG, &orig) || !netlink_find(attrs, CTA_TUPLE_REPLY, &reply) ||
	    !netlink_find(attrs, CTA_ID, &id))
		return 0;
	f.source = address_of(orig, CTA_IP_V4_SRC);
	f.to = address_of(orig, CTA_IP_V4_DST);
	f.answers_from = address_of(reply, CTA_IP_V4_SRC);
	f.mark = mark_of(attrs);
	read_port(orig, &f);
	if ((d->source && f.source != d->source) || (d->fn && !d->fn(&f, d->arg)))
		return 0;
	note(d, orig, id);
	return d->names.failed ? err_set(e, ERR_LIMIT, "more than %d connections to end", CONNTRACK_ENDED_MAX) : 0;
}

static void put_filter(struct netlink_msg *m, uint32_t source)
{
	netlink_nest(m, CTA_TUPLE_ORIG);
	netlink_nest(m, CTA_TUPLE_IP);
	netlink_put(m, CTA_IP_V4_SRC, &source, sizeof(source));
	netlink_unnest(m);
	netlink_unnest(m);
	netlink_nest(m, CTA_FILTER);
	netlink_put_u32(m, CTA_FILTER_ORIG_FLAGS, FILTER_SOURCE);
	netlink_put_u32(m, CTA_FILTER_REPLY_FLAGS, 0);
	netlink_unnest(m);
}

static int list(struct netlink *nl, struct ending *d, struct err *e)
{
	struct err why = { 0 };
	struct netlink_msg m;

	for (int i = 0; i < LIST_TRIES; i++) {
		netlink_msg_init(&m);
		netlink_begin(&m, MESSAGE(IPCTNL_MSG_CT_GET), 0, &ipv4, sizeof(ipv4));
		if (d->source)
			put_filter(&m, d->source);
		if (netlink_dump(nl, &m, take_flow, d, &why) == 0)
			return 0;
		if (why.sys != EAGAIN)
			break;
	}
	*e = why;
	return err_wrap(e, "list connections");
}

static int end_some(struct netlink *nl, struct netlink_msg *m, struct err *e)
{
	int r = m->n_msgs > 0 ? netlink_request(nl, m, e) : 0;

	netlink_msg_init(m);
	return r < 0 && e->sys != ENOENT ? err_wrap(e, "end connections") : 0; /* each is taken for itself; one may be gone */
}

int conntrack_end(struct netlink *nl, uint32_t source, conntrack_fn *fn, void *arg, size_t *ret_n, struct err *e)
{
	struct ending d = { .source = source, .fn = fn, .arg = arg,
			    .names = BUF_INIT((size_t)CONNTRACK_ENDED_MAX * (FLOW_BYTES + sizeof(uint32_t))) };
	AUTO(buf_done) struct buf names = BUF_INIT(0);
	struct netlink_msg m;
	int r = list(nl, &d, e);

	names = d.names;
	netlink_msg_init(&m);
	for (struct str rest = buf_str(&names); r == 0 && rest.n > 0;) {
		uint32_t n;

		memcpy(&n, rest.p, sizeof(n));
		rest = str_skip(rest, sizeof(n));
		netlink_begin(&m, MESSAGE(IPCTNL_MSG_CT_DELETE), NLM_F_ACK, &ipv4, sizeof(ipv4));
		netlink_put_raw(&m, rest.p, n);
		rest = str_skip(rest, n);
		if (m.n > NETLINK_MSG_MAX - 2 * FLOW_BYTES)
			r = end_some(nl, &m, e);
	}
	if (r == 0)
		r = end_some(nl, &m, e);
	if (r == 0 && ret_n)
		*ret_n = d.n;
	return r;
}
