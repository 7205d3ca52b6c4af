// SPDX-License-Identifier: Apache-2.0
/* net/dns.h - DNS messages (RFC 1035, and EDNS of RFC 6891): bytes to structs, and back.
 *
 * Queries of clients are read strictly and never forwarded: the query to an upstream is written anew from
 * name and type (W6). Of a reply only the answer section is used, and of that the records in the chain of
 * aliases that begins at the question. Names in records are written out, so that no compression pointer of
 * the upstream reaches a client. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/host_name.h"

struct arena;
struct buf;
struct err;

#define DNS_HEADER_SIZE 12
#define DNS_QUERY_MAX 1024    /* bytes of a query of a client's: a name, and an OPT with what it may hold */
#define DNS_PLAIN_MAX 512     /* bytes over UDP to who does not say more */
#define DNS_UDP_MAX 1232      /* bytes over UDP that we take and give */
#define DNS_MESSAGE_MAX 65535
#define DNS_RECORDS_MAX 128   /* of an answer that are kept */
#define DNS_CHAIN_MAX 16      /* aliases from a name to its addresses */

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_NULL = 10,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_DNAME = 39,
	DNS_OPT = 41,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_ANY = 255,
};

enum dns_rcode {
	DNS_NOERROR,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_REFUSED,
	DNS_BADVERS = 16,
};

struct dns_query {
	uint16_t id, type;
	bool wants_recursion, checking_disabled; /* to be repeated in the answer */
	bool has_edns;
	bool has_name;  /* it has one that hosts can have: `name` is it, as host_name() writes it */
	uint16_t udp_max; /* bytes that the client takes over UDP: DNS_PLAIN_MAX to DNS_UDP_MAX */
	char name[HOST_NAME_LEN_MAX + 1];
	struct str question; /* as it came, in what was parsed; empty: not even that could be read */
};

/* DNS_NOERROR; the rcode to answer with; or -1: it is no query, and nothing is to be answered. */
int dns_query_parse(struct str in, struct dns_query *ret);

/* A query to an upstream: recursion, EDNS, no options. NAME is host_name()'s. Bytes written. */
#define DNS_QUESTION_MAX (DNS_HEADER_SIZE + 2 + HOST_NAME_LEN_MAX + 4 + 11)
size_t dns_query_write(uint16_t id, const char *name, uint16_t type, unsigned char out[DNS_QUESTION_MAX]);

struct dns_record {
	const char *owner;  /* as host_name() writes it */
	const char *target; /* of DNS_CNAME: likewise, NULL when no host can be called that */
	uint16_t type;
	uint32_t ttl;      /* seconds, at most DNS_TTL_MAX */
	struct str rdata;  /* names in it written out; of DNS_A 4 bytes, of DNS_AAAA 16 */
};
#define DNS_TTL_MAX 86400

struct dns_answer {
	unsigned rcode;
	bool is_truncated;
	uint32_t negative_ttl; /* of what is not there (RFC 2308); 0: nothing says how long */
	size_t n;
	struct dns_record records[DNS_RECORDS_MAX];
};

/* Whether IN is the answer to what dns_query_write() wrote for this id, name and type: then it is read into
 * A. Records that nobody could use (another class, owners that no host has) are left out. ERR_INVALID: it is
 * not, or it is broken; ERR_LIMIT: more than A or DNS_RECORDS_MAX hold. A truncated one has no records. */
int dns_answer_parse(struct str in, uint16_t id, const char *name, uint16_t type, struct arena *a,
		     struct dns_answer *ret,
		     struct err *e);

/* The last name of the chain that begins at NAME, and each name on it to VISIT (or NULL), which stops it with
 * false. NULL: it was stopped, it goes in a circle, is longer than DNS_CHAIN_MAX, or leads to a name that no
 * host can have. */
const char *dns_chain(const struct dns_answer *a, const char *name, bool (*visit)(const char *name,
										  void *arg), void *arg);

/* The answer to Q, to OUT, which is empty; what does not fit into MAX bytes is truncated: it has no records,
 * and the client comes back over TCP. */
void dns_reply_write(const struct dns_query *q, unsigned rcode, const struct dns_record *records, size_t n,
		     size_t max,
		     struct buf *out);
