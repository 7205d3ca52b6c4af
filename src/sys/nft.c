// SPDX-License-Identifier: Apache-2.0
#include "sys/nft.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "sys/netlink.h"

#include "base/banned.h"

#define LIST_TRIES 16
#define APPLY_TRIES 3
#define BUSY_MIN_MS 1 /* pauses, while the kernel is out of memory: 31 ms all together */
#define BUSY_MAX_MS 16
#define MESSAGE(type) (NFNL_SUBSYS_NFTABLES << 8 | (type))

static const struct nfgenmsg any = { .nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0 };
static const struct nfgenmsg inet = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };
static const struct nfgenmsg ipv4 = { .nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0 };

int nft_open(struct netlink *nl, int netns, struct err *e)
{
	const int room = NFT_BATCH_MAX;

	if (netlink_open(nl, NETLINK_NETFILTER, netns, e) < 0)
		return -1;
	if (setsockopt(nl->fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) == 0)
		return 0;
	(void)err_sys(e, errno, "make room for changes of nf_tables");
	netlink_done(nl);
	return -1;
}

/* ---- changing ---- */

/* The first and the last message of a batch. */
static void put_edge(struct netlink_msg *m, uint16_t type)
{
	const struct nfgenmsg head = { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	netlink_begin(m, type, 0, &head, sizeof(head));
}

static void put_data(struct netlink_msg *m, uint16_t type, const void *p, size_t n)
{
	netlink_nest(m, type);
	netlink_put(m, NFTA_DATA_VALUE, p, n);
	netlink_unnest(m);
}

static void put_element(struct netlink_msg *m, const struct nft_element *el)
{
	const uint64_t timeout = htobe64(el->timeout_ms);

	netlink_nest(m, NFTA_SET_ELEM_LIST_ELEMENTS);
	netlink_nest(m, NFTA_LIST_ELEM);
	put_data(m, NFTA_SET_ELEM_KEY, el->key, el->n_key);
	if (el->end)
		put_data(m, NFTA_SET_ELEM_KEY_END, el->end, el->n_key);
	if (el->value)
		put_data(m, NFTA_SET_ELEM_DATA, el->value, el->n_value);
	if (el->timeout_ms > 0)
		netlink_put(m, NFTA_SET_ELEM_TIMEOUT, &timeout, sizeof(timeout));
	netlink_unnest(m);
	netlink_unnest(m);
}

static void put_set(struct netlink_msg *m, const char *table, const char *set)
{
	netlink_put_z(m, NFTA_SET_ELEM_LIST_TABLE, table);
	netlink_put_z(m, NFTA_SET_ELEM_LIST_SET, set);
}

static void change(struct nft_batch *b, uint16_t type, uint16_t flags, const char *set, const struct nft_element *el)
{
	struct netlink_msg m;

	netlink_msg_init(&m);
	if (b->last == 0) {
		put_edge(&m, NFNL_MSG_BATCH_BEGIN);
		netlink_collect(&m, &b->bytes);
	}
	b->last = b->bytes.n;
	netlink_begin(&m, MESSAGE(type), flags, &inet, sizeof(inet));
	put_set(&m, b->table, set);
	if (el)
		put_element(&m, el);
	netlink_collect(&m, &b->bytes);
}

void nft_add(struct nft_batch *b, const char *set, const struct nft_element *el)
{
	change(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, set, el);
}

void nft_delete(struct nft_batch *b, const char *set, const struct nft_element *el)
{
	change(b, NFT_MSG_DELSETELEM, 0, set, el);
}

void nft_flush(struct nft_batch *b, const char *set)
{
	change(b, NFT_MSG_DELSETELEM, 0, set, NULL);
}

void nft_batch_done(struct nft_batch *b)
{
	buf_done(&b->bytes);
	b->last = 0;
}

/* The kernel has no memory for as large a message at the moment, and has not looked at it. */
static int request(struct netlink *nl, struct buf *bytes, struct err *e)
{
	int r = netlink_request_bytes(nl, bytes, e);

	for (int pause_ms = BUSY_MIN_MS; r < 0 && e->sys == ENOBUFS && pause_ms <= BUSY_MAX_MS; pause_ms *= 2) {
		(void)poll(NULL, 0, pause_ms);
		r = netlink_request_bytes(nl, bytes, e);
	}
	return r;
}

/* The edges of a batch are acknowledged by new kernels only, so the last message in it is: after everything that was
 * refused, for which the whole batch is. */
static int finish(struct netlink *nl, struct buf *bytes, size_t last, struct err *e)
{
	struct netlink_msg m;

	netlink_msg_init(&m);
	put_edge(&m, NFNL_MSG_BATCH_END);
	netlink_collect(&m, bytes);
	if (!bytes->failed)
		((struct nlmsghdr *)(void *)(bytes->p + last))->nlmsg_flags |= NLM_F_ACK;
	return request(nl, bytes, e);
}

int nft_commit(struct netlink *nl, struct nft_batch *b, struct err *e)
{
	int r = b->last > 0 ? finish(nl, &b->bytes, b->last, e) : 0;

	buf_clear(&b->bytes);
	b->last = 0;
	return r < 0 ? err_wrap(e, "change '%s'", b->table) : 0;
}

int nft_delete_table(struct netlink *nl, const char *table, struct err *e)
{
	AUTO(buf_done) struct buf bytes = BUF_INIT(NETLINK_MSG_MAX);
	struct netlink_msg m;
	size_t last;

	netlink_msg_init(&m);
	put_edge(&m, NFNL_MSG_BATCH_BEGIN);
	netlink_collect(&m, &bytes);
	last = bytes.n;
	netlink_begin(&m, MESSAGE(NFT_MSG_DELTABLE), 0, &inet, sizeof(inet));
	netlink_put_z(&m, NFTA_TABLE_NAME, table);
	netlink_collect(&m, &bytes);
	if (finish(nl, &bytes, last, e) < 0 && e->sys != ENOENT)
		return err_wrap(e, "delete table '%s'", table);
	return 0;
}

/* ---- looking ---- */

struct listing {
	nft_row_fn *fn;
	void *arg;
	size_t n;
	const char *prefix; /* of tables */
	const char *other;  /* of chains: counted only in other tables than this */
	const char *text;   /* of rules: counted only with it, up to its NUL */
};

static struct str value_of(struct str attrs, uint16_t type)
{
	struct str data, value = { 0 };

	if (netlink_find(attrs, type, &data))
		(void)netlink_find(data, NFTA_DATA_VALUE, &value);
	return value;
}

static int take_elements(uint16_t type, struct str body, void *arg, struct err *e)
{
	const struct listing *l = arg;
	struct str list, el, v;
	uint16_t t;

	if (type != MESSAGE(NFT_MSG_NEWSETELEM) || body.n < sizeof(struct nfgenmsg) ||
	    !netlink_find(str_skip(body, sizeof(struct nfgenmsg)), NFTA_SET_ELEM_LIST_ELEMENTS, &list))
		return 0;
	while (netlink_next(&list, &t, &el)) {
		struct nft_row row = { value_of(el, NFTA_SET_ELEM_KEY), value_of(el, NFTA_SET_ELEM_KEY_END),
				       value_of(el, NFTA_SET_ELEM_DATA), 0 };
		uint64_t ms;

		if (netlink_find(el, NFTA_SET_ELEM_EXPIRATION, &v) && v.n == sizeof(ms)) {
			memcpy(&ms, v.p, sizeof(ms));
			row.expires_ms = be64toh(ms);
		}
		if (l->fn && l->fn(&row, l->arg, e) < 0)
			return -1;
	}
	return 0;
}

int nft_list(struct netlink *nl, const char *table, const char *set, nft_row_fn *fn, void *arg, struct err *e)
{
	struct listing l = { .fn = fn, .arg = arg };
	struct err why = { 0 };
	struct netlink_msg m;

	for (int i = 0; i < LIST_TRIES; i++) {
		netlink_msg_init(&m);
		netlink_begin(&m, MESSAGE(NFT_MSG_GETSETELEM), 0, &inet, sizeof(inet));
		put_set(&m, table, set);
		if (netlink_dump(nl, &m, take_elements, &l, &why) == 0)
			return 0;
		if (why.sys != EAGAIN)
			break;
	}
	*e = why;
	return err_wrap(e, "list '%s' of '%s'", set, table);
}

/* Kernels from 5.11 on put the expressions of an element into a list. */
static bool find_counter(struct str el, struct str *ret_packets)
{
	struct str expr, list, name, data;
	uint16_t type;

	if (!netlink_find(el, NFTA_SET_ELEM_EXPR, &expr) &&
	    (!netlink_find(el, NFTA_SET_ELEM_EXPRESSIONS, &list) || !netlink_next(&list, &type, &expr)))
		return false;
	return netlink_find(expr, NFTA_EXPR_NAME, &name) && str_eq(name, (struct str){ "counter", sizeof("counter") }) &&
	       netlink_find(expr, NFTA_EXPR_DATA, &data) && netlink_find(data, NFTA_COUNTER_PACKETS, ret_packets) &&
	       ret_packets->n == sizeof(uint64_t);
}

static int take_packets(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct str list, el, packets;
	uint64_t n;
	uint16_t t;

	(void)e;
	if (type != MESSAGE(NFT_MSG_NEWSETELEM) || body.n < sizeof(struct nfgenmsg) ||
	    !netlink_find(str_skip(body, sizeof(struct nfgenmsg)), NFTA_SET_ELEM_LIST_ELEMENTS, &list))
		return 0;
	while (netlink_next(&list, &t, &el))
		if (find_counter(el, &packets)) {
			memcpy(&n, packets.p, sizeof(n));
			*(uint64_t *)arg = be64toh(n);
		}
	return 0;
}

int nft_packets(struct netlink *nl, const char *table, const char *set, const struct nft_element *el, uint64_t *ret, struct err *e)
{
	struct netlink_msg m;
	uint64_t n = 0;

	netlink_msg_init(&m);
	netlink_begin(&m, MESSAGE(NFT_MSG_GETSETELEM), NLM_F_ACK, &inet, sizeof(inet));
	put_set(&m, table, set);
	put_element(&m, el);
	if (netlink_ask(nl, &m, take_packets, &n, e) < 0 && e->sys != ENOENT)
		return err_wrap(e, "count packets of '%s'", set);
	*ret = n;
	return 0;
}

int nft_has(struct netlink *nl, const char *table, const char *set, const struct nft_element *el, struct err *e)
{
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, MESSAGE(NFT_MSG_GETSETELEM), NLM_F_ACK, &inet, sizeof(inet));
	put_set(&m, table, set);
	put_element(&m, el);
	if (netlink_request(nl, &m, e) == 0)
		return 1;
	return e->sys == ENOENT ? 0 : err_wrap(e, "look for an element of '%s'", set);
}

int nft_delete_if(struct nft_batch *b, struct netlink *nl, const char *set, const struct nft_element *el, struct err *e)
{
	int r = nft_has(nl, b->table, set, el, e);

	if (r > 0)
		nft_delete(b, set, el);
	return r < 0 ? -1 : 0;
}

/* ---- changing what there is ---- */

struct sought {
	struct str key, end;
	bool is_found;
};

/* Of a set of intervals the kernel shows the one that the key is in. */
static int take_sought(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct sought *s = arg;
	struct str list, el;
	uint16_t t;

	(void)e;
	if (type != MESSAGE(NFT_MSG_NEWSETELEM) || body.n < sizeof(struct nfgenmsg) ||
	    !netlink_find(str_skip(body, sizeof(struct nfgenmsg)), NFTA_SET_ELEM_LIST_ELEMENTS, &list))
		return 0;
	while (netlink_next(&list, &t, &el))
		if (str_eq(value_of(el, NFTA_SET_ELEM_KEY), s->key) && str_eq(value_of(el, NFTA_SET_ELEM_KEY_END), s->end))
			s->is_found = true;
	return 0;
}

/* What a message of ours names: 1, 0, -1. */
static int is_there(struct netlink *nl, struct str attrs, struct err *e)
{
	struct netlink_msg m;
	struct str list, el;
	struct sought s = { 0 };
	uint16_t t;

	if (!netlink_find(attrs, NFTA_SET_ELEM_LIST_ELEMENTS, &list) || !netlink_next(&list, &t, &el))
		return 1; /* all of a set */
	s.key = value_of(el, NFTA_SET_ELEM_KEY);
	s.end = value_of(el, NFTA_SET_ELEM_KEY_END);
	netlink_msg_init(&m);
	netlink_begin(&m, MESSAGE(NFT_MSG_GETSETELEM), NLM_F_ACK, &inet, sizeof(inet));
	netlink_put_raw(&m, attrs.p, attrs.n);
	if (netlink_ask(nl, &m, take_sought, &s, e) < 0)
		return e->sys == ENOENT ? 0 : err_wrap(e, "look for an element");
	return s.is_found;
}

/* KEPT: what of B can be done. */
static int keep_possible(struct netlink *nl, const struct nft_batch *b, struct nft_batch *kept, struct err *e)
{
	const size_t head = sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg);

	for (size_t at = 0; at < b->bytes.n;) {
		const char *p = b->bytes.p + at;
		struct nlmsghdr h;
		int r = 1;

		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_type == MESSAGE(NFT_MSG_DELSETELEM))
			r = is_there(nl, (struct str){ p + head, h.nlmsg_len - head }, e);
		if (r < 0)
			return -1;
		if (r > 0 && at > 0)
			kept->last = kept->bytes.n;
		if (r > 0)
			(void)buf_add(&kept->bytes, p, NLMSG_ALIGN(h.nlmsg_len));
		at += NLMSG_ALIGN(h.nlmsg_len);
	}
	return 0;
}

static int try_apply(struct netlink *nl, const struct nft_batch *b, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch kept = NFT_BATCH_INIT(b->table);

	return keep_possible(nl, b, &kept, e) < 0 ? -1 : nft_commit(nl, &kept, e);
}

/* ENOENT: one of them went by itself meanwhile, or the whole table did. */
int nft_apply(struct netlink *nl, struct nft_batch *b, struct err *e)
{
	int r = b->bytes.failed ? err_set(e, ERR_LIMIT, "a change of more than %d bytes", NFT_BATCH_MAX) : try_apply(nl, b, e);

	for (int i = 1; r < 0 && e->sys == ENOENT && i < APPLY_TRIES; i++)
		r = try_apply(nl, b, e);
	buf_clear(&b->bytes);
	b->last = 0;
	return r;
}

static bool is_output_nat(struct str body, const char *other)
{
	struct str attrs = body.n >= sizeof(struct nfgenmsg) ? str_skip(body, sizeof(struct nfgenmsg)) : (struct str){ 0 };
	struct str table, kind, hook, number;
	uint32_t n;

	if (!netlink_find(attrs, NFTA_CHAIN_TABLE, &table) || !netlink_find(attrs, NFTA_CHAIN_TYPE, &kind) ||
	    !netlink_find(attrs, NFTA_CHAIN_HOOK, &hook) || !netlink_find(hook, NFTA_HOOK_HOOKNUM, &number) || number.n != sizeof(n))
		return false;
	memcpy(&n, number.p, sizeof(n));
	return str_eq(kind, (struct str){ "nat", sizeof("nat") }) && ntohl(n) == NF_INET_LOCAL_OUT && strcmp(table.p, other) != 0;
}

static int count(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct listing *l = arg;
	struct str name;

	(void)e;
	if (type == MESSAGE(NFT_MSG_NEWCHAIN) && is_output_nat(body, l->other))
		l->n++;
	if (type == MESSAGE(NFT_MSG_NEWRULE) && (!l->text || (body.n > 0 && memmem(body.p, body.n, l->text, strlen(l->text) + 1))))
		l->n++;
	if (type == MESSAGE(NFT_MSG_NEWTABLE) && body.n >= sizeof(struct nfgenmsg) &&
	    netlink_find(str_skip(body, sizeof(struct nfgenmsg)), NFTA_TABLE_NAME, &name) && str_starts(name, str_of(l->prefix)))
		l->n++;
	return 0;
}

struct place {
	const struct nfgenmsg *family;
	const char *table, *chain; /* or NULL */
};

static int dump_count(struct netlink *nl, uint16_t type, const struct place *at, struct listing *l, struct err *e)
{
	struct err why = { 0 };
	struct netlink_msg m;

	for (int i = 0; i < LIST_TRIES; i++) {
		l->n = 0;
		netlink_msg_init(&m);
		netlink_begin(&m, MESSAGE(type), 0, at->family, sizeof(*at->family));
		if (at->table)
			netlink_put_z(&m, NFTA_RULE_TABLE, at->table);
		if (at->chain)
			netlink_put_z(&m, NFTA_RULE_CHAIN, at->chain);
		if (netlink_dump(nl, &m, count, l, &why) == 0)
			return (int)l->n;
		if (why.sys != EAGAIN)
			break;
	}
	*e = why;
	return -1;
}

int nft_count_rules(struct netlink *nl, const char *table, struct err *e)
{
	struct listing l = { 0 };
	struct netlink_msg m;

	/* A listing of the rules of no table is empty. */
	netlink_msg_init(&m);
	netlink_begin(&m, MESSAGE(NFT_MSG_GETTABLE), NLM_F_ACK, &inet, sizeof(inet));
	netlink_put_z(&m, NFTA_TABLE_NAME, table);
	if (netlink_request(nl, &m, e) < 0)
		return err_wrap(e, "look for table '%s'", table);
	return dump_count(nl, NFT_MSG_GETRULE, &(struct place){ &inet, table, NULL }, &l, e) < 0 ? err_wrap(e, "count the rules of '%s'", table) : (int)l.n;
}

int nft_count_tables(struct netlink *nl, const char *prefix, struct err *e)
{
	struct listing l = { .prefix = prefix };

	return dump_count(nl, NFT_MSG_GETTABLE, &(struct place){ &inet, NULL, NULL }, &l, e) < 0 ? err_wrap(e, "count tables") : (int)l.n;
}

int nft_count_output_nat(struct netlink *nl, const char *table, struct err *e)
{
	struct listing l = { .other = table };

	return dump_count(nl, NFT_MSG_GETCHAIN, &(struct place){ &any, NULL, NULL }, &l, e) < 0 ? err_wrap(e, "count chains") : (int)l.n;
}

int nft_has_chain(struct netlink *nl, const char *table, const char *chain, struct err *e)
{
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, MESSAGE(NFT_MSG_GETCHAIN), NLM_F_ACK, &ipv4, sizeof(ipv4));
	netlink_put_z(&m, NFTA_CHAIN_TABLE, table);
	netlink_put_z(&m, NFTA_CHAIN_NAME, chain);
	if (netlink_request(nl, &m, e) == 0)
		return 1;
	return e->sys == ENOENT ? 0 : err_wrap(e, "look for chain '%s'", chain);
}

int nft_chain_mentions(struct netlink *nl, const char *table, const char *chain, const char *text, struct err *e)
{
	struct listing l = { .text = text };

	if (dump_count(nl, NFT_MSG_GETRULE, &(struct place){ &ipv4, table, chain }, &l, e) < 0)
		return err_wrap(e, "look at the rules of chain '%s'", chain);
	return l.n > 0;
}
