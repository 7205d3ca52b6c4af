// SPDX-License-Identifier: Apache-2.0
/* DNS messages of both sides: whatever a client sends is answered with a message that is well-formed, and what is read of an
 * upstream's answer can be written to a client, within the size that it takes. */
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "net/dns.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_query(struct str in)
{
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
	unsigned char again[DNS_QUESTION_MAX];
	struct dns_query q, r;
	int rcode = dns_query_parse(in, &q);

	if (rcode < 0)
		return;
	dns_reply_write(&q, (unsigned)rcode, NULL, 0, q.udp_max, &b);
	require(!b.failed && b.n >= DNS_HEADER_SIZE && b.n <= q.udp_max && ((unsigned char)b.p[2] & 0x80));
	if (rcode != DNS_NOERROR || !q.has_name)
		return;
	require(dns_query_parse((struct str){ (char *)again, dns_query_write(1, q.name, q.type, again) }, &r) == DNS_NOERROR);
	require(r.has_name && strcmp(q.name, r.name) == 0 && q.type == r.type);
}

/* The question is that of the message itself, so that all of it is reached. */
static void check_answer(struct str in)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(256 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
	struct dns_query q = { .type = DNS_A, .udp_max = DNS_UDP_MAX, .has_name = true, .name = "a.test" };
	static struct dns_answer got;
	struct err e = { 0 };

	if (in.n < 2)
		return;
	q.id = (uint16_t)((unsigned char)in.p[0] << 8 | (unsigned char)in.p[1]);
	if (dns_answer_parse(in, q.id, q.name, q.type, &a, &got, &e) < 0)
		return;
	require(got.n <= DNS_RECORDS_MAX && (!got.is_truncated || got.n == 0));
	for (size_t i = 0; i < got.n; i++)
		require(got.records[i].owner && got.records[i].ttl <= DNS_TTL_MAX);
	(void)dns_chain(&got, q.name, NULL, NULL);
	dns_reply_write(&q, got.rcode, got.records, got.n, DNS_UDP_MAX, &b);
	require(!b.failed && b.n <= DNS_UDP_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };

	if (size > DNS_MESSAGE_MAX)
		return 0;
	check_query(in);
	check_answer(in);
	return 0;
}
