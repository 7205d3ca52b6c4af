// SPDX-License-Identifier: Apache-2.0
/* sys/nft.h - elements of nf_tables sets and maps, in inet tables that `nft` has created.
 *
 *     AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT("table");
 *
 *     nft_delete(&b, "classes", &(struct nft_element){ .key = &address, .n_key = 4 });
 *     nft_add(&b, "classes", &(struct nft_element){ .key = &address, .n_key = 4, .value = &mark, .n_value = 4 });
 *     if (nft_commit(nl, &b, e) < 0)                        all elements change, or none
 *
 * Keys are bytes as the kernel compares them: packet fields in network order, marks in host order. Each part
 * of a concatenated key is padded with zeroes to a multiple of 4, an interface name to 16. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"

struct err;
struct netlink;

#define NFT_NAME_MAX 64
#define NFT_KEY_MAX 64          /* bytes */
#define NFT_BATCH_MAX (4 << 20) /* bytes: some 40,000 elements */

/* A socket for all that is below, with room for the largest batch. */
int nft_open(struct netlink *nl, int netns, struct err *e);

/* ---- changing ---- */

struct nft_batch {
	const char *table;
	struct buf bytes;
	size_t last; /* where the last message is; 0: there is none */
};
#define NFT_BATCH_INIT(table_) ((struct nft_batch){ .table = (table_), .bytes = BUF_INIT(NFT_BATCH_MAX) })

struct nft_element {
	const void *key;
	size_t n_key;
	const void *end; /* the last key, as long, of an interval; NULL: none */
	const void *value; /* of a map: data; NULL: none */
	size_t n_value;
	uint64_t timeout_ms; /* 0: stays */
};

/* one that is there stays as it is */
void nft_add(struct nft_batch *b, const char *set, const struct nft_element *el);
void nft_delete(struct nft_batch *b, const char *set, const struct nft_element *el);
/* Only if it is there, which is asked first: a batch that is refused makes the kernel wait for all its CPUs,
 * for milliseconds. */
int nft_delete_if(struct nft_batch *b, struct netlink *nl, const char *set, const struct nft_element *el,
		  struct err *e);
void nft_flush(struct nft_batch *b, const char *set);
void nft_batch_done(struct nft_batch *b);
DEFINE_AUTO_DONE(struct nft_batch, nft_batch_done)

/* Empties the batch. ERR_NOT_FOUND (ENOENT): the table, a set, or an element to delete is not there. */
int nft_commit(struct netlink *nl, struct nft_batch *b, struct err *e);

/* The same, for a batch of elements, but deletions of what is not there are left out. They are asked about first: a batch that is
 * refused makes the kernel wait for all its processors, for milliseconds. */
int nft_apply(struct netlink *nl, struct nft_batch *b, struct err *e);

/* ---- looking ---- */

struct nft_row {
	struct str key, end, value; /* empty: none */
	uint64_t expires_ms;        /* 0: never */
};
typedef int nft_row_fn(const struct nft_row *row, void *arg, struct err *e);
/* All elements. When the set changes meanwhile it is listed anew, and FN called again for what it had. */
int nft_list(struct netlink *nl, const char *table, const char *set, nft_row_fn *fn, void *arg,
	     struct err *e);

/* How many packets the counter of an element has seen; 0 as well when there is no such element. */
int nft_packets(struct netlink *nl, const char *table, const char *set, const struct nft_element *el,
		uint64_t *ret, struct err *e);
/* 1, 0, -1 */
int nft_has(struct netlink *nl, const char *table, const char *set, const struct nft_element *el,
	    struct err *e);

/* How many rules there are in TABLE: -1 and ERR_NOT_FOUND without the table. */
int nft_count_rules(struct netlink *nl, const char *table, struct err *e);
/* How many tables have names that begin with PREFIX. */
int nft_count_tables(struct netlink *nl, const char *prefix, struct err *e);
/* How many chains of other tables, of any family, translate addresses of what this network sends. */
int nft_count_output_nat(struct netlink *nl, const char *table, struct err *e);
/* Of the family ip, which others have their tables in: whether CHAIN is there, and whether TEXT is in one of
 * its rules: 1, 0, -1. */
int nft_has_chain(struct netlink *nl, const char *table, const char *chain, struct err *e);
int nft_chain_mentions(struct netlink *nl, const char *table, const char *chain, const char *text,
		       struct err *e);
int nft_delete_table(struct netlink *nl, const char *table, struct err *e); /* not there is fine */
