// SPDX-License-Identifier: Apache-2.0
#include "net/dns.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define CLASS_IN 1
#define LABEL_MAX 63
#define WIRE_NAME_MAX 255 /* bytes of a name, with its lengths and the root */
#define POINTERS_MAX 64   /* followed in one name; each leads further to the front, so this is never met by honest ones */
#define SECTION_MAX 512   /* records of a section that are looked at */
#define ADDITIONAL_MAX 2  /* records behind a client's question */

enum {
	FLAG_QR = 0x8000,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	FLAG_CD = 0x0010,
	OPCODE = 0x7800,
	RCODE = 0x000f,
};

/* ---- reading ---- */

struct cursor {
	const unsigned char *p;
	size_t n, at;
	bool is_bad; /* it was read beyond the end: everything is 0 from then on */
};

static bool take(struct cursor *c, size_t n)
{
	if (c->is_bad || n > c->n - c->at) {
		c->is_bad = true;
		return false;
	}
	c->at += n;
	return true;
}

static uint16_t take_u16(struct cursor *c)
{
	if (!take(c, 2))
		return 0;
	return (uint16_t)(c->p[c->at - 2] << 8 | c->p[c->at - 1]);
}

static uint32_t take_u32(struct cursor *c)
{
	uint32_t high = take_u16(c);

	return high << 16 | take_u16(c);
}

/* A name in its wire form, without pointers. */
struct wire_name {
	unsigned char bytes[WIRE_NAME_MAX];
	size_t n;
};

/* One label to W, or the root. False at the root and when something is wrong. */
static bool take_label(struct cursor *c, unsigned length, struct wire_name *w)
{
	if (!take(c, length) || w->n + 1 + length + (length > 0) > WIRE_NAME_MAX) {
		c->is_bad = true;
		return false;
	}
	w->bytes[w->n++] = (unsigned char)length;
	memcpy(w->bytes + w->n, c->p + c->at - length, length);
	w->n += length;
	return length > 0;
}

/* The name at C. A pointer must lead to what stands before the part of the name that it ends, so that no name is without end. */
static void take_name(struct cursor *c, bool may_point, struct wire_name *w)
{
	struct cursor part = *c;
	size_t before = c->at;
	bool has_jumped = false;

	w->n = 0;
	for (unsigned jumps = 0;;) {
		unsigned length = take(&part, 1) ? part.p[part.at - 1] : 0;
		size_t to;

		if (part.is_bad)
			break;
		if (length <= LABEL_MAX) {
			if (take_label(&part, length, w))
				continue;
			break;
		}
		if (!may_point || (length & 0xc0) != 0xc0 || !take(&part, 1) || ++jumps > POINTERS_MAX) {
			part.is_bad = true;
			break;
		}
		to = (size_t)(length & 0x3f) << 8 | part.p[part.at - 1];
		if (!has_jumped)
			c->at = part.at;
		has_jumped = true;
		if (to < DNS_HEADER_SIZE || to >= before) {
			part.is_bad = true;
			break;
		}
		before = to;
		part.at = to;
	}
	c->is_bad = part.is_bad;
	if (!has_jumped)
		c->at = part.at;
}

/* As text, if it is what a host can be called. */
static bool name_text(const struct wire_name *w, char out[HOST_NAME_LEN_MAX + 1])
{
	char text[WIRE_NAME_MAX + 1];
	size_t n = 0;

	for (size_t at = 0; at < w->n && w->bytes[at] > 0; at += 1U + w->bytes[at]) {
		if (memchr(w->bytes + at + 1, '.', w->bytes[at]))
			return false; /* it would read as two */
		if (n > 0)
			text[n++] = '.';
		memcpy(text + n, w->bytes + at + 1, w->bytes[at]);
		n += w->bytes[at];
	}
	return host_name((struct str){ text, n }, out, &(struct err){ 0 }) == 0;
}

/* ---- queries of clients ---- */

struct header {
	uint16_t id, flags, questions, answers, authorities, additionals;
};

static struct header take_header(struct cursor *c)
{
	struct header h;

	h.id = take_u16(c);
	h.flags = take_u16(c);
	h.questions = take_u16(c);
	h.answers = take_u16(c);
	h.authorities = take_u16(c);
	h.additionals = take_u16(c);
	return h;
}

/* What stands behind the question: at most an OPT, of which its size and version are read. */
static int parse_additional(struct cursor *c, struct dns_query *q)
{
	struct wire_name owner;
	uint16_t type, class, length;
	uint32_t ttl;

	take_name(c, true, &owner);
	type = take_u16(c);
	class = take_u16(c);
	ttl = take_u32(c);
	length = take_u16(c);
	if (!take(c, length))
		return DNS_FORMERR;
	if (type != DNS_OPT)
		return DNS_NOERROR;
	if (q->has_edns || owner.n != 1)
		return DNS_FORMERR;
	q->has_edns = true;
	q->udp_max = class < DNS_PLAIN_MAX ? DNS_PLAIN_MAX : class > DNS_UDP_MAX ? DNS_UDP_MAX : class;
	return (ttl >> 16 & 0xff) == 0 ? DNS_NOERROR : DNS_BADVERS;
}

static int parse_question(struct cursor *c, struct dns_query *q, uint16_t *ret_class)
{
	struct wire_name name;
	size_t from = c->at;

	take_name(c, false, &name);
	q->type = take_u16(c);
	*ret_class = take_u16(c);
	if (c->is_bad)
		return DNS_FORMERR;
	q->question = (struct str){ (const char *)c->p + from, c->at - from };
	q->has_name = name_text(&name, q->name);
	return DNS_NOERROR;
}

int dns_query_parse(struct str in, struct dns_query *ret)
{
	struct cursor c = { .p = (const unsigned char *)in.p, .n = in.n };
	struct dns_query q = { .udp_max = DNS_PLAIN_MAX };
	struct header h = take_header(&c);
	uint16_t class = 0;
	int rcode;

	if (c.is_bad || (h.flags & FLAG_QR))
		return -1;
	q.id = h.id;
	q.wants_recursion = h.flags & FLAG_RD;
	q.checking_disabled = h.flags & FLAG_CD;
	*ret = q;
	if (h.flags & OPCODE)
		return DNS_NOTIMP;
	if (in.n > DNS_QUERY_MAX || h.questions != 1 || h.answers || h.authorities || h.additionals > ADDITIONAL_MAX)
		return DNS_FORMERR;
	rcode = parse_question(&c, &q, &class);
	for (unsigned i = 0; rcode == DNS_NOERROR && i < h.additionals; i++)
		rcode = parse_additional(&c, &q);
	*ret = q;
	if (rcode == DNS_NOERROR && c.at != c.n)
		rcode = DNS_FORMERR;
	return rcode == DNS_NOERROR && class != CLASS_IN ? DNS_REFUSED : rcode;
}

/* ---- writing ---- */

static void put_u16(struct buf *b, unsigned v)
{
	const unsigned char bytes[] = { (unsigned char)(v >> 8), (unsigned char)v };

	buf_add(b, bytes, sizeof(bytes));
}

static void put_u32(struct buf *b, uint32_t v)
{
	put_u16(b, v >> 16);
	put_u16(b, v & 0xffff);
}

/* NAME is host_name()'s: its labels fit. */
static size_t name_write(const char *name, unsigned char *out)
{
	size_t n = 0;

	while (*name) {
		size_t label = strcspn(name, ".");

		out[n++] = (unsigned char)label;
		memcpy(out + n, name, label);
		n += label;
		name += label + (name[label] == '.');
	}
	out[n++] = 0;
	return n;
}

size_t dns_query_write(uint16_t id, const char *name, uint16_t type, unsigned char out[DNS_QUESTION_MAX])
{
	const unsigned char head[DNS_HEADER_SIZE] = { (unsigned char)(id >> 8), (unsigned char)id, FLAG_RD >> 8, 0, 0, 1, [11] = 1 };
	const unsigned char tail[] = { (unsigned char)(type >> 8), (unsigned char)type, 0, CLASS_IN,
				       0, 0, DNS_OPT, DNS_UDP_MAX >> 8, DNS_UDP_MAX & 0xff, 0, 0, 0, 0, 0, 0 };
	size_t n = sizeof(head);

	memcpy(out, head, sizeof(head));
	n += name_write(name, out + n);
	memcpy(out + n, tail, sizeof(tail));
	return n + sizeof(tail);
}

static void put_opt(const struct dns_query *q, unsigned rcode, struct buf *out)
{
	if (!q->has_edns)
		return;
	buf_add_char(out, '\0');
	put_u16(out, DNS_OPT);
	put_u16(out, DNS_UDP_MAX);
	put_u32(out, (uint32_t)(rcode >> 4) << 24);
	put_u16(out, 0);
}

static void put_head(const struct dns_query *q, unsigned rcode, bool is_truncated, size_t n, struct buf *out)
{
	unsigned flags = FLAG_QR | FLAG_RA | (rcode & RCODE);

	if (q->wants_recursion)
		flags |= FLAG_RD;
	if (q->checking_disabled)
		flags |= FLAG_CD;
	if (is_truncated)
		flags |= FLAG_TC;
	put_u16(out, q->id);
	put_u16(out, flags);
	put_u16(out, q->question.n > 0);
	put_u16(out, (unsigned)n);
	put_u16(out, 0);
	put_u16(out, q->has_edns);
	buf_add_str(out, q->question);
}

static void put_record(const struct dns_query *q, const struct dns_record *r, struct buf *out)
{
	unsigned char owner[WIRE_NAME_MAX];

	if (q->has_name && strcmp(r->owner, q->name) == 0)
		put_u16(out, 0xc000 | DNS_HEADER_SIZE); /* the question's, with the letters that the client wrote */
	else
		buf_add(out, owner, name_write(r->owner, owner));
	put_u16(out, r->type);
	put_u16(out, CLASS_IN);
	put_u32(out, r->ttl);
	put_u16(out, (unsigned)r->rdata.n);
	buf_add_str(out, r->rdata);
}

void dns_reply_write(const struct dns_query *q, unsigned rcode, const struct dns_record *records, size_t n, size_t max,
		     struct buf *out)
{
	put_head(q, rcode, false, n, out);
	for (size_t i = 0; i < n && !out->failed; i++)
		put_record(q, &records[i], out);
	put_opt(q, rcode, out);
	if (!out->failed && out->n <= max)
		return;
	buf_clear(out);
	put_head(q, rcode, true, 0, out);
	put_opt(q, rcode, out);
}

/* ---- answers of upstreams ---- */

/* How names stand in the data of a record: behind FIXED bytes NAMES of them, then the rest. */
struct layout {
	uint16_t type;
	unsigned fixed, names;
};

static const struct layout layouts[] = {
	{ DNS_NS, 0, 1 }, { DNS_CNAME, 0, 1 }, { DNS_PTR, 0, 1 }, { DNS_MX, 2, 1 },
	{ DNS_SOA, 0, 2 }, { DNS_SRV, 6, 1 }, { DNS_DNAME, 0, 1 },
};

static struct layout layout_of(uint16_t type)
{
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
		if (layouts[i].type == type)
			return layouts[i];
	return (struct layout){ 0 };
}

static int broken(struct err *e)
{
	return err_set(e, ERR_INVALID, "a broken answer");
}

/* The data of a record with its names written out; C stands at its beginning and ends behind it. */
static int take_rdata(struct cursor *c, uint16_t type, uint16_t length, struct arena *a, struct dns_record *r, struct err *e)
{
	struct layout l = layout_of(type);
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
	size_t end = c->at + length;
	struct wire_name name = { .n = 0 };
	char text[HOST_NAME_LEN_MAX + 1];
	char *copy;

	if (c->is_bad || length > c->n - c->at || l.fixed > length)
		return broken(e);
	buf_add(&b, c->p + c->at, l.fixed);
	(void)take(c, l.fixed);
	for (unsigned i = 0; i < l.names && !c->is_bad; i++) {
		take_name(c, true, &name);
		buf_add(&b, name.bytes, name.n);
	}
	if (c->is_bad || c->at > end)
		return broken(e);
	buf_add(&b, c->p + c->at, end - c->at);
	(void)take(c, end - c->at);
	if (type == DNS_CNAME && name_text(&name, text)) {
		r->target = arena_strndup(a, text, strlen(text));
		if (!r->target)
			return err_set(e, ERR_LIMIT, "an answer that is too large");
	}
	copy = b.failed ? NULL : arena_strndup(a, buf_z(&b), b.n);
	r->rdata = (struct str){ copy, b.n };
	return copy ? 0 : err_set(e, ERR_LIMIT, "an answer that is too large");
}

static bool has_right_size(const struct dns_record *r)
{
	return (r->type != DNS_A || r->rdata.n == 4) && (r->type != DNS_AAAA || r->rdata.n == 16);
}

/* 1: *r is it; 0: it is of no use; -1. */
static int take_record(struct cursor *c, struct arena *a, struct dns_record *r, struct err *e)
{
	char owner[HOST_NAME_LEN_MAX + 1];
	struct wire_name name;
	uint16_t class, length;
	bool is_host;

	*r = (struct dns_record){ 0 };
	take_name(c, true, &name);
	r->type = take_u16(c);
	class = take_u16(c);
	r->ttl = take_u32(c);
	length = take_u16(c);
	if (c->is_bad)
		return broken(e);
	is_host = name_text(&name, owner);
	if (class != CLASS_IN || !is_host || r->type == DNS_OPT)
		return take(c, length) ? 0 : broken(e);
	if (r->ttl > INT32_MAX) /* RFC 2181 section 8 */
		r->ttl = 0;
	r->ttl = MIN(r->ttl, (uint32_t)DNS_TTL_MAX);
	r->owner = arena_strndup(a, owner, strlen(owner));
	if (!r->owner)
		return err_set(e, ERR_LIMIT, "an answer that is too large");
	if (take_rdata(c, r->type, length, a, r, e) < 0)
		return -1;
	return has_right_size(r) ? 1 : broken(e);
}

static int take_answers(struct cursor *c, unsigned count, struct arena *a, struct dns_answer *ret, struct err *e)
{
	if (count > SECTION_MAX)
		return err_set(e, ERR_LIMIT, "an answer of %u records", count);
	for (unsigned i = 0; i < count; i++) {
		struct dns_record r;
		int k = take_record(c, a, &r, e);

		if (k < 0)
			return -1;
		if (k == 0)
			continue;
		if (ret->n == DNS_RECORDS_MAX)
			return err_set(e, ERR_LIMIT, "an answer of %u records", count);
		ret->records[ret->n++] = r;
	}
	return 0;
}

/* The SOA says how long something is not there: its own time, but not more than its last field (RFC 2308 section 5). */
static void take_negative(struct cursor *c, unsigned count, struct arena *a, struct dns_answer *ret)
{
	struct dns_record r;
	const unsigned char *last;

	for (unsigned i = 0; i < MIN(count, 8U); i++) {
		int k = take_record(c, a, &r, &(struct err){ 0 });

		if (k < 0)
			return; /* the answer itself has been read, and is right */
		if (k == 0 || r.type != DNS_SOA || r.rdata.n < 4)
			continue;
		last = (const unsigned char *)r.rdata.p + r.rdata.n - 4;
		ret->negative_ttl = MIN(r.ttl, (uint32_t)last[0] << 24 | (uint32_t)last[1] << 16 | (uint32_t)last[2] << 8 | last[3]);
		return;
	}
}

static bool answers_this(struct cursor *c, const struct header *h, uint16_t id, const char *name, uint16_t type)
{
	char asked[HOST_NAME_LEN_MAX + 1];
	struct wire_name w;
	uint16_t t, class;

	if (c->is_bad || h->id != id || !(h->flags & FLAG_QR) || (h->flags & OPCODE) || h->questions != 1)
		return false;
	take_name(c, false, &w);
	t = take_u16(c);
	class = take_u16(c);
	return !c->is_bad && t == type && class == CLASS_IN && name_text(&w, asked) && strcmp(asked, name) == 0;
}

int dns_answer_parse(struct str in, uint16_t id, const char *name, uint16_t type, struct arena *a, struct dns_answer *ret,
		     struct err *e)
{
	struct cursor c = { .p = (const unsigned char *)in.p, .n = in.n };
	struct header h = take_header(&c);

	if (!answers_this(&c, &h, id, name, type))
		return err_set(e, ERR_INVALID, "no answer to what was asked");
	ret->rcode = h.flags & RCODE;
	ret->is_truncated = h.flags & FLAG_TC;
	ret->negative_ttl = 0;
	ret->n = 0;
	if (ret->is_truncated)
		return 0;
	if (take_answers(&c, h.answers, a, ret, e) < 0)
		return -1;
	take_negative(&c, h.authorities, a, ret);
	return 0;
}

static const struct dns_record *alias_of(const struct dns_answer *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->records[i].type == DNS_CNAME && strcmp(a->records[i].owner, name) == 0)
			return &a->records[i];
	return NULL;
}

const char *dns_chain(const struct dns_answer *a, const char *name, bool (*visit)(const char *name, void *arg), void *arg)
{
	for (unsigned i = 0; i <= DNS_CHAIN_MAX && name; i++) {
		const struct dns_record *alias = alias_of(a, name);

		if (visit && !visit(name, arg))
			return NULL;
		if (!alias)
			return name;
		name = alias->target;
	}
	return NULL;
}
