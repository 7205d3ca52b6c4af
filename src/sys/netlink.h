// SPDX-License-Identifier: Apache-2.0
/* sys/netlink.h - requests to the kernel over netlink, and its answers.
 *
 *     struct netlink_msg m;
 *     struct ifinfomsg head = { .ifi_index = index };
 *
 *     netlink_msg_init(&m);
 *     netlink_begin(&m, RTM_SETLINK, NLM_F_ACK, &head, sizeof(head));
 *     netlink_put_u32(&m, IFLA_MTU, 1500);
 *     if (netlink_request(nl, &m, e) < 0)
 *         return err_wrap(e, "set the mtu");
 *
 * Append many times; a message that became too large fails once, when it is sent. Sockets block, but no
 * longer than NETLINK_TIMEOUT_MS for an answer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"

struct buf;
struct err;

#define NETLINK_MSG_MAX 16384    /* bytes of a request */
#define NETLINK_ANSWER_MAX 65536 /* bytes of one datagram of an answer; the kernel makes them up to 32 KiB */
#define NETLINK_ROWS_MAX 65536   /* messages of one dump */
#define NETLINK_TIMEOUT_MS 10000
#define NETLINK_NESTS_MAX 8      /* depth of nested attributes */

/* ---- the socket ---------------------------------------------------------------------------------------- */

struct netlink {
	int fd;
	uint32_t seq; /* of the last request */
};

#define NETLINK_INIT ((struct netlink){ .fd = -1 })

/* PROTOCOL is NETLINK_ROUTE, NETLINK_NETFILTER, ... The socket talks about the network namespace NETNS, or
 * ours when that is -1, whoever uses it later and wherever. */
int netlink_open(struct netlink *nl, int protocol, int netns, struct err *e);
void netlink_done(struct netlink *nl);
DEFINE_AUTO_DONE(struct netlink, netlink_done)

/* ---- writing ------------------------------------------------------------------------------------------- */

/* One message or several: netlink_begin() ends the one before. */
struct netlink_msg {
	_Alignas(8) char bytes[NETLINK_MSG_MAX];
	size_t n;
	size_t start;                    /* of the message that is being written */
	size_t nests[NETLINK_NESTS_MAX]; /* open attributes */
	size_t n_nests;
	size_t n_msgs;
	bool failed;
};

void netlink_msg_init(struct netlink_msg *m);
/* FLAGS besides NLM_F_REQUEST, which is always there. HEAD is the family's own header. */
void netlink_begin(struct netlink_msg *m, uint16_t type, uint16_t flags, const void *head, size_t n);
void netlink_put(struct netlink_msg *m, uint16_t type, const void *p, size_t n);
void netlink_put_u32(struct netlink_msg *m, uint16_t type, uint32_t v);
void netlink_put_z(struct netlink_msg *m, uint16_t type, const char *z); /* with its NUL */
void netlink_put_raw(struct netlink_msg *m, const void *p, size_t n);    /* a header inside an attribute */
/* attributes from now on are inside */
void netlink_nest(struct netlink_msg *m, uint16_t type);
void netlink_unnest(struct netlink_msg *m);

/* ---- asking -------------------------------------------------------------------------------------------- */

/* Sends all messages of M and waits for the acknowledgement of each that has NLM_F_ACK. The first refusal is
 * the error: errno in e->sys, with the kernel's words where it has some. */
int netlink_request(struct netlink *nl, struct netlink_msg *m, struct err *e);

/* For what has to reach the kernel at once and is longer than one M: each is added to BYTES, all of which is
 * then sent as by netlink_request(). */
/* M is empty afterwards; its failure is BYTES' */
void netlink_collect(struct netlink_msg *m, struct buf *bytes);
int netlink_request_bytes(struct netlink *nl, struct buf *bytes, struct err *e);

/* BODY is a message without the netlink header; -1 ends the listing with that error. */
typedef int (*netlink_row_fn)(uint16_t type, struct str body, void *arg, struct err *e);

/* The same as netlink_request(), for messages that have an answer before their acknowledgement. */
int netlink_ask(struct netlink *nl, struct netlink_msg *m, netlink_row_fn fn, void *arg, struct err *e);

/* Sends the only message of M with NLM_F_DUMP and calls FN for each message of the answer. When the kernel's
 * table changed meanwhile, the listing may be wrong: EAGAIN in e->sys (ERR_UNAVAILABLE) after all rows. */
int netlink_dump(struct netlink *nl, struct netlink_msg *m, netlink_row_fn fn, void *arg, struct err *e);

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The value of the first attribute TYPE in ATTRS; false when there is none or it is cut short. */
bool netlink_find(struct str attrs, uint16_t type, struct str *ret);

/* Goes through ATTRS: true and the next attribute's type (without its flags) and value. */
bool netlink_next(struct str *attrs, uint16_t *ret_type, struct str *ret_value);

/* One datagram of an answer: calls FN as netlink_dump() does for messages of the sequence numbers from FIRST
 * on (COUNT of them), skipping others. Adds the acknowledgements to *acks. 1 at the end of a dump, 0, -1. */
struct netlink_answer {
	uint32_t first, count;
	size_t acks, rows;
	bool was_interrupted;
	netlink_row_fn fn; /* NULL: rows are skipped */
	void *arg;
};
int netlink_parse(struct netlink_answer *a, struct str datagram, struct err *e);
