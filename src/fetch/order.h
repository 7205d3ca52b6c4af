// SPDX-License-Identifier: Apache-2.0
/* fetch/order.h - the order of a fetcher, as it arrives. */
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode.h"
#include "image/fetch.h"

struct err;

enum order_kind { ORDER_PULL, ORDER_CHECK, ORDER_SWEEP, ORDER_LOAD };

/* What the operator said about a registry. */
struct registry_rule {
	const char *host;      /* as in references */
	const char *mirror;    /* host that has the same images, asked first; NULL: none */
	const char *auth_host; /* that may see credentials besides the registry itself; NULL: none */
	const char *ca_file;   /* NULL: the system's */
	bool is_insecure;      /* http, or https with any certificate */
	bool is_private;       /* may be on addresses of W4 */
};

struct order {
	int kind; /* enum order_kind */
	const char *registry, *repository;
	const char *tag;    /* or a digest, as it goes into a URL */
	const char *os, *arch;
	const char *username, *password; /* NULL: anonymous */
	const char *name;   /* of a load: what an archive that names nothing is called; NULL: as in there */
	int64_t seconds, stall_seconds;
	int64_t reserve;    /* bytes that must stay free; 0: see sys/room.h */
	struct object_list registries; /* of struct registry_rule */
	const char *proxy;             /* "http://user:password@host:port"; NULL: none */
	struct string_list no_proxy;   /* hosts that are asked without it */
	struct string_list keep;       /* of a sweep: digests in hexadecimal */
	bool with_new;                 /* of a sweep: no pull is in progress, so new- files are leftovers */
	/* where all this lies */
	struct buf text;
	struct arena arena;
};

#define ORDER_INIT ((struct order){ .seconds = FETCH_SECONDS_MAX, .stall_seconds = FETCH_STALL_SECONDS_MAX, \
				    .text = BUF_INIT(FETCH_ORDER_MAX), .arena = ARENA_INIT(4 * FETCH_ORDER_MAX) })

int order_read(struct order *o, int fd, struct err *e); /* FD: of the memfd */
void order_done(struct order *o); /* wipes what was secret */
DEFINE_AUTO_DONE(struct order, order_done)

/* What is said about HOST, or NULL. */
const struct registry_rule *order_rule(const struct order *o, struct str host);
