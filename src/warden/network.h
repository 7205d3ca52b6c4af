// SPDX-License-Identifier: Apache-2.0
/* warden/network.h - applies the decisions of opensandbox-egress: the connection to it, and the elements of
 * our nf_tables table.
 *
 * box/network.h makes closed links. A box with a network is announced to egress (BIND) as soon as its address
 * is known, gets the class and the rules of the reply, and wakes after BOUND. Without an egress, existing
 * rules stay in force, and a create waits NETWORK_BIND_MS for one. All rules are also remembered here:
 * flushed rules are restored, and after a restart the kernel's elements are read back.
 *
 * Without a socket for egress (--egress-fd) there is no name resolution: WIRE_NET_OPEN is opened at once, and
 * WIRE_NET_POLICY refused. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/egress_wire.h"
#include "box/network.h"
#include "box/slot.h"
#include "net/loop.h"
#include "sys/netlink.h"
#include "warden/changer.h"
#include "warden/flows.h"
#include "warden/worker.h"

struct box;
struct egress;
struct err;
struct network_look;
struct nft_batch;
struct nft_row;
struct warden;

#define NETWORK_BIND_MS 9000 /* one that does not answer is replaced within 7 s (server/boot/supervise.c) */
#define NETWORK_LATE_MS 1000 /* additional time while an egress is connected */
#define NETWORK_LEARNED_MAX 4096 /* of one box */

struct network_spec {
	bool is_off;
	const char *range; /* NULL: whichever is free */
	const char *const *opened;
	size_t n_opened;
	int listener;       /* for egress: SEQPACKET, listening; -1: none. Taken */
	int64_t egress_uid; /* user that may connect, besides root; -1: none */
};

struct network {
	bool is_on;
	bool is_refused; /* to new boxes, though those of an earlier start have one */
	struct err why; /* it is off, though it was to be on */
	struct netlink nft, flows; /* to look at rules; and at the start, when nobody waits, to change them */
	struct changer changer;
	int sockets[EGRESS_FDS];
	int listener;
	int64_t egress_uid;
	struct io accept;
	struct egress *egress; /* or NULL */
	uint64_t n_egress;     /* how many there were */
	uint64_t last_serial;
	struct timer check;
	unsigned checks;
	struct workers lookers;
	struct worker repair;
	struct network_look *look; /* what the worker has seen */
	struct change put_back;
	unsigned put_back_at, put_back_next, put_back_max; /* where this turn and the next one go on, and with how many boxes */
	unsigned char leaves[SLOT_NUMBER_MAX];   /* by number: nobody's any more, but its elements are still there */
	unsigned char is_closing[SLOT_NUMBER_MAX]; /* those of its box are being deleted */
	unsigned char has_rest[SLOT_NUMBER_MAX]; /* it may have elements that nobody remembers */
	struct change leave;
	unsigned leaving[CHANGE_FORGET_MAX];
	unsigned n_leaving;
	struct timer leave_again;
	struct flows ends;
	struct box *boxes[SLOT_NUMBER_MAX]; /* those that have an address, by their numbers */
};

/* What a box has of the network. It may outlive the box, until its elements are deleted. */
struct learned {
	uint32_t address;
	uint16_t port;
	uint64_t until_ms; /* of the loop's time */
};
struct box_net {
	struct warden *w;
	struct box *box; /* NULL: it is gone */
	unsigned number;
	struct change close;
	enum wire_network kind;
	uint32_t address;
	int policy;      /* until it is bound: the sealed text; -1: none */
	uint64_t serial; /* of the BIND that has no answer yet; 0: none */
	bool is_bound;
	bool is_opening; /* without egress: its rules are asked for */
	bool is_late; /* it has waited for NETWORK_BIND_MS */
	enum network_class class; /* in the kernel now */
	struct egress_net *rules; /* likewise: those that decide, none within another of its kind */
	size_t n_rules;
	struct learned *learned;
	size_t n_learned, cap_learned;
};

struct box *network_box(const struct warden *w, uint32_t address); /* or NULL */

/* Before boxes are taken up, and after. A network that cannot be had is no failure: `why` names the reason in
 * every create that asks for one. */
void network_open(struct warden *w, const struct network_spec *spec, const char *prefix,
		  const char *state_dir);
int network_take_up(struct warden *w, struct err *e);
void network_give_up(struct warden *w, const struct err *why); /* none, after all */
/* For ready.c: from the one to the other, the address of this number is somebody's. False: nothing has to go, it is free.
 * Otherwise number_freed() follows. */
void network_number_taken(struct warden *w, unsigned number);
bool network_number_leaves(struct warden *w, unsigned number);
void network_stop_changing(struct warden *w); /* before boxes are forgotten */
/* In a worker: marks in FOUND, by number, whose elements there are. */
int network_find(const struct warden *w, unsigned char *found, struct err *e);
void network_done(struct warden *w, bool is_last); /* IS_LAST: also removes everything from the kernel */

/* the box's; -1: of none */
int network_element_number(const struct warden *w, const char *set, const struct nft_row *row);
void network_put_back(struct warden *w, unsigned number, struct nft_batch *batch);

/* ---- whether it is as it should be (network_look.c) ---- */

int network_look_open(struct warden *w, struct err *e);
void network_look_start(struct warden *w);
void network_look_soon(struct warden *w); /* something is missing */
void network_look_done(struct warden *w);

/* ---- of one box (box_net.c) ---- */

/* Keeps what a create asks for; POLICY is copied. ERR_UNAVAILABLE and ENETDOWN when it cannot be had. */
int box_net_keep(struct box *b, enum wire_network kind, int policy, struct err *e);
/* The box has a slot: tells egress, if that was not done. Later box_bound() is called, unless it is bound at
 * once. */
int box_net_bind(struct box *b, struct err *e);
bool box_net_is_pending(const struct box *b); /* it has to wait before it wakes */
bool box_net_waits_on(struct box *b); /* its time is over, and there is a little more of it */
/* Of one that was taken up. */
void box_net_adopt(struct box *b);
/* Nothing of it passes any more, and its address is as new. */
void box_net_release(struct box *b);
void box_net_free(struct box *b); /* the memory alone */
void box_net_sort(struct box *b); /* of rules that were taken up one by one */
/* For box_net_bind() and egress.c: in box.c. FAILURE: NULL, it is bound. */
void box_bound(struct box *b, const struct err *failure);
/* Told by egress; the rules are checked. BOX_NET_LATER: it is answered when it is done. BOX_NET_CHANGES: likewise, and nothing
 * that egress says afterwards is listened to before egress_go_on(). */
#define BOX_NET_LATER 1
#define BOX_NET_CHANGES 2
int box_net_set_rules(struct box *b, const struct egress_message *m, struct err *e);
int box_net_learn(struct box *b, const struct egress_message *m, struct err *e);
int box_net_forget(struct box *b, const struct egress_message *m, struct err *e);
void box_net_forget_all(struct box *b); /* all that was learned */
void network_leave_on(struct warden *w); /* the elements of a box are deleted */
int box_net_cut(struct box *b, const struct egress_message *m, struct err *e);
/* What is known of it, for a table that may have nothing. */
void box_net_put_back(struct box *b, struct nft_batch *batch);
uint64_t box_net_refused(const struct box *b); /* packets of it that were dropped; 0 also when unknown */
struct conntrack_flow;
bool box_net_forbids(const struct box *b, const struct conntrack_flow *f); /* by its rules as they are */

/* ---- the connection (egress.c) ---- */

int egress_open(struct warden *w, struct err *e); /* begins to listen */
void egress_done(struct warden *w);
void egress_bind(struct warden *w, struct box *b); /* of a box that has a serial for it */
void egress_unbind(struct warden *w, const struct box *b);
void egress_answer(struct warden *w, uint64_t serial, const struct err *failure); /* DONE */
void egress_go_on(struct warden *w, uint64_t egress); /* a change that this one asked for is done */
