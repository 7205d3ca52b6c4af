// SPDX-License-Identifier: Apache-2.0
#include "warden/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/nft.h"
#include "sys/process.h"
#include "warden/box.h"
#include "warden/ready.h"
#include "warden/warden.h"

#include "base/banned.h"

#define BACKLOG 512
#define END_MS 5000
#define LEAVE_AGAIN_MS 1000
#define PUT_BACK_BYTES ((size_t)1024 * 1024) /* of one change */

struct box *network_box(const struct warden *w, uint32_t address)
{
	int number = box_network_number(&w->host.network, address);

	return number < 0 ? NULL : w->network.boxes[number];
}

/* ---- the sockets of egress ---- */

/* On the gateway, in the host's network, and marked: without the mark there is no way to boxes. Ours as long as we live, so
 * that what boxes send waits for the next egress. */
static int make_socket(const struct warden *w, int type, uint16_t port, struct err *e)
{
	AUTO_FD fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port),
					.sin_addr = { w->host.network.gateway } };
	const uint32_t mark = NETWORK_MARK;
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 || /* egress has those of a warden that was killed */
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return err_sys(e, errno, "make a socket for egress at port %u", port);
	return take_fd(&fd);
}

static int make_sockets(struct warden *w, struct err *e)
{
	struct network *n = &w->network;

	n->sockets[0] = make_socket(w, SOCK_DGRAM, NETWORK_RESOLVER_PORT, e);
	n->sockets[1] = n->sockets[0] < 0 ? -1 : make_socket(w, SOCK_STREAM, NETWORK_RESOLVER_PORT, e);
	n->sockets[2] = n->sockets[1] < 0 ? -1 : make_socket(w, SOCK_STREAM, NETWORK_RELAY_PORT, e);
	return n->sockets[2] < 0 ? -1 : 0;
}

static struct nft_element pair_element(const struct warden *w, unsigned number, struct network_pair *pair)
{
	box_network_pair(&w->host.network, number, pair);
	return (struct nft_element){ .key = pair, .n_key = sizeof(*pair) };
}

/* ---- numbers ---- */

struct pair_change {
	struct change change;
	struct warden *w;
	unsigned number;
};

static void build_pair(struct change *c, struct change_plan *p)
{
	const struct pair_change *pc = c->arg;
	struct network_pair pair;
	const struct nft_element el = pair_element(pc->w, pc->number, &pair);

	nft_add(&p->batch, "pairs", &el);
}

/* A slot that cannot have it is closed: a box without a network does not need it, and the next look puts it there. */
static void on_pair(struct change *c, const struct err *failure)
{
	struct pair_change *pc = c->arg;

	if (failure && !pc->w->network.changer.is_over)
		log_warn("a slot stays without a network", LOG_U("number", pc->number), LOG_ERR(failure));
	KILL_POINT("warden.slot.pair");
	free(pc);
}

void network_number_taken(struct warden *w, unsigned number)
{
	struct pair_change *pc = w->network.is_on ? malloc(sizeof(*pc)) : NULL;

	if (w->network.is_on && !pc)
		log_warn("a slot stays without a network", LOG_U("number", number));
	if (!pc)
		return;
	*pc = (struct pair_change){ .change = { .build = build_pair, .done = on_pair, .arg = pc }, .w = w, .number = number };
	changer_ask(&w->network.changer, &pc->change);
}

/* All that leave, at once: each change waits for whoever else changes rules of this host. */
static void build_leave(struct change *c, struct change_plan *p)
{
	struct warden *w = c->arg;
	struct network *n = &w->network;

	n->n_leaving = 0;
	for (unsigned i = 0; i < SLOT_NUMBER_MAX && n->n_leaving < CHANGE_FORGET_MAX; i++) {
		struct network_pair pair;
		const struct nft_element el = pair_element(w, i, &pair);
		const struct nft_element drops = { .key = &pair.address, .n_key = sizeof(pair.address) };

		if (!n->leaves[i] || n->is_closing[i])
			continue;
		n->leaving[n->n_leaving++] = i;
		if (n->has_rest[i])
			p->forget[p->n_forget++] = i;
		nft_delete(&p->batch, "pairs", &el);
		nft_delete(&p->batch, "drops", &drops);
	}
}

static void on_left(struct change *c, const struct err *failure)
{
	struct warden *w = c->arg;
	struct network *n = &w->network;

	if (n->changer.is_over)
		return;
	if (failure) {
		log_warn("addresses of nobody's are left in the rules, trying again", LOG_U("count", n->n_leaving), LOG_ERR(failure));
		timer_in(&n->leave_again, LEAVE_AGAIN_MS);
		return;
	}
	for (unsigned i = 0; i < n->n_leaving; i++) {
		n->leaves[n->leaving[i]] = n->has_rest[n->leaving[i]] = 0;
		number_freed(w, n->leaving[i]);
	}
	if (n->n_leaving > 0)
		network_leave_on(w); /* there may be more of them */
}

void network_leave_on(struct warden *w)
{
	if (w->network.leave_again.at == 0)
		changer_ask(&w->network.changer, &w->network.leave);
}

static void on_leave_again(void *arg)
{
	network_leave_on(arg);
}

bool network_number_leaves(struct warden *w, unsigned number)
{
	struct network *n = &w->network;

	if (!n->is_on || n->changer.is_over)
		return false;
	n->leaves[number] = 1;
	network_leave_on(w);
	return true;
}

/* ---- somebody else's changes ---- */

/* What there should be of this number: slots that wait have some, too. */
void network_put_back(struct warden *w, unsigned number, struct nft_batch *batch)
{
	struct network_pair pair;
	const struct nft_element el = pair_element(w, number, &pair);
	struct box *b = w->network.boxes[number];

	nft_add(batch, "pairs", &el);
	if (b && b->net && b->net->address)
		box_net_put_back(b, batch);
}

static int put_back_all(struct warden *w, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(w->host.network.table);

	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++) {
		if (w->is_taken[i])
			network_put_back(w, i, &batch);
		if (batch.bytes.n > PUT_BACK_BYTES && nft_commit(&w->network.nft, &batch, e) < 0)
			return -1;
	}
	return nft_commit(&w->network.nft, &batch, e);
}

/* ---- elements of nobody's ---- */

#define N_TAKEN 5 /* of the sets: those that are taken up after a restart */
static const char *const sets[] = { "pairs", "classes", "allowed", "denied", "learned", "drops" };

int network_element_number(const struct warden *w, const char *set, const struct nft_row *row)
{
	size_t at = strcmp(set, "pairs") == 0 ? offsetof(struct network_pair, address) : 0;
	uint32_t address;

	if (row->key.n < at + sizeof(address))
		return -1;
	memcpy(&address, row->key.p + at, sizeof(address));
	return box_network_number(&w->host.network, address);
}

struct finding {
	const struct warden *w;
	const char *set;
	unsigned char *found;
};

static int find_element(const struct nft_row *row, void *arg, struct err *e)
{
	const struct finding *f = arg;
	int number = network_element_number(f->w, f->set, row);

	(void)e;
	if (number >= 0)
		f->found[number] = 1;
	return 0;
}

int network_find(const struct warden *w, unsigned char *found, struct err *e)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;

	if (!w->network.is_on)
		return 0;
	if (nft_open(&nl, -1, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct finding f = { w, sets[i], found };

		if (nft_list(&nl, w->host.network.table, sets[i], find_element, &f, e) < 0)
			return -1;
	}
	return 0;
}

struct forgetting {
	const struct warden *w;
	const char *set;
	int number;
	struct nft_batch *batch;
};

static int forget_element(const struct nft_row *row, void *arg, struct err *e)
{
	const struct forgetting *f = arg;

	(void)e;
	if (network_element_number(f->w, f->set, row) == f->number)
		nft_delete(f->batch, f->set, &(struct nft_element){ .key = row->key.p, .n_key = row->key.n,
								    .end = row->end.n > 0 ? row->end.p : NULL });
	return 0;
}

static int forget_in(const struct warden *w, struct netlink *nl, const char *set, unsigned number, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(w->host.network.table);
	struct forgetting f = { w, set, (int)number, &batch };

	return nft_list(nl, w->host.network.table, set, forget_element, &f, e) < 0 ? -1 : nft_apply(nl, &batch, e);
}

/* In the changer, of a number that nobody can take meanwhile: every element that has its address goes. */
static int forget(unsigned number, void *arg, struct err *e)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	const struct warden *w = arg;

	if (nft_open(&nl, -1, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (forget_in(w, &nl, sets[i], number, e) < 0)
			return -1;
	return 0;
}

/* ---- beginning ---- */

static int open_all(struct warden *w, const struct box_network_spec *spec, struct err *e)
{
	struct network *n = &w->network;

	if (box_network_open(&w->host.network, spec, e) < 0 || nft_open(&n->nft, -1, e) < 0 ||
	    netlink_open(&n->flows, NETLINK_NETFILTER, -1, e) < 0 || network_look_open(w, e) < 0 ||
	    changer_open(&n->changer, w->loop, w->host.network.table, forget, w, e) < 0 ||
	    timer_init(&n->leave_again, w->loop, on_leave_again, w, "addresses of nobody's", e) < 0 ||
	    flows_open(w, e) < 0)
		return -1;
	if (n->listener >= 0 && make_sockets(w, e) < 0)
		return -1;
	n->is_on = true;
	return 0;
}

void network_give_up(struct warden *w, const struct err *why)
{
	struct network *n = &w->network;

	log_warn("sandboxes have no network", LOG_ERR(why));
	n->why = *why;
	if (w->host.network.is_on)
		(void)box_network_remove(&w->host.network, &(struct err){ 0 }); /* or the next start does */
	n->is_on = w->host.network.is_on = false;
	netlink_done(&n->nft);
	netlink_done(&n->flows);
	network_stop_changing(w);
	network_look_done(w);
	flows_done(w);
	for (size_t i = 0; i < EGRESS_FDS; i++) {
		closep(&n->sockets[i]);
		n->sockets[i] = -1;
	}
}

void network_open(struct warden *w, const struct network_spec *spec, const char *prefix, const char *state_dir)
{
	const struct box_network_spec box = { .prefix = prefix, .state_dir = state_dir, .range = spec->range, .opened = spec->opened,
					      .n_opened = spec->n_opened };
	struct err e = { 0 };

	w->network = (struct network){ .nft = NETLINK_INIT, .flows = NETLINK_INIT, .sockets = { -1, -1, -1 },
				       .listener = spec->listener, .egress_uid = spec->egress_uid, .repair = WORKER_INIT, .ends = FLOWS_INIT,
				       .changer = CHANGER_INIT, .leave = { .build = build_leave, .done = on_left, .arg = w } };
	if (spec->is_off && box_network_is_there(prefix, &e) <= 0)
		return;
	w->network.is_refused = spec->is_off;
	if (open_all(w, &box, &e) < 0)
		network_give_up(w, &e);
}

/* ---- what the kernel has from an earlier start ---- */

struct taking {
	struct warden *w;
	const char *set;
	struct nft_batch *strays; /* elements of boxes that there are no more */
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of what a box has */
static int take_rule(struct box *b, const struct nft_row *row, bool is_allowed, struct err *e)
{
	struct egress_net *rules, net = { .is_allowed = is_allowed };
	uint32_t end;

	memcpy(&net.address, row->key.p + 4, sizeof(net.address));
	memcpy(&end, row->end.p + 4, sizeof(end));
	net.prefix = (uint8_t)(end == net.address ? 32 : __builtin_clz(ntohl(end ^ net.address)));
	rules = reallocarray(b->net->rules, b->net->n_rules + 1, sizeof(*rules));
	if (!rules)
		return err_no_memory(e);
	b->net->rules = rules;
	rules[b->net->n_rules++] = net;
	return 0;
}

static int take_learned(struct box *b, const struct nft_row *row, struct err *e)
{
	struct learned *more, l = { .until_ms = loop_now_ms(b->w->loop) + row->expires_ms };
	uint16_t port;

	memcpy(&l.address, row->key.p + 4, sizeof(l.address));
	memcpy(&port, row->key.p + 8, sizeof(port));
	l.port = ntohs(port);
	more = reallocarray(b->net->learned, b->net->n_learned + 1, sizeof(*more));
	if (!more)
		return err_no_memory(e);
	b->net->learned = more;
	more[b->net->n_learned++] = l;
	b->net->cap_learned = b->net->n_learned;
	return 0;
}
#pragma GCC diagnostic pop

static int take_pair(const struct nft_row *row, void *arg, struct err *e)
{
	const struct taking *t = arg;
	uint32_t address;
	int number;

	(void)e;
	if (row->key.n != sizeof(struct network_pair))
		return 0;
	memcpy(&address, row->key.p + offsetof(struct network_pair, address), sizeof(address));
	number = box_network_number(&t->w->host.network, address);
	if (number < 0 || !t->w->is_taken[number])
		nft_delete(t->strays, t->set, &(struct nft_element){ .key = row->key.p, .n_key = row->key.n });
	return 0;
}

static int take_element(const struct nft_row *row, void *arg, struct err *e)
{
	const struct taking *t = arg;
	struct box *b;
	uint32_t address, class;

	if (row->key.n < sizeof(address))
		return 0;
	memcpy(&address, row->key.p, sizeof(address));
	b = network_box(t->w, address);
	if (!b) {
		nft_delete(t->strays, t->set, &(struct nft_element){ .key = row->key.p, .n_key = row->key.n,
								     .end = row->end.n > 0 ? row->end.p : NULL });
		return 0;
	}
	if (strcmp(t->set, "learned") == 0)
		return row->key.n == 12 ? take_learned(b, row, e) : 0;
	if (strcmp(t->set, "classes") != 0)
		return row->key.n == 8 && row->end.n == 8 ? take_rule(b, row, strcmp(t->set, "allowed") == 0, e) : 0;
	memcpy(&class, row->value.p, MIN(row->value.n, sizeof(class)));
	b->net->class = class;
	return 0;
}

static void forget_all(struct warden *w)
{
	for (struct box *b = w->boxes; b; b = b->next)
		if (b->net) {
			b->net->n_rules = b->net->n_learned = 0;
			b->net->class = NETWORK_CLOSED;
		}
}

static int take_up(struct warden *w, struct err *e)
{
	forget_all(w);
	for (size_t i = 0; i < N_TAKEN; i++) {
		AUTO(nft_batch_done) struct nft_batch strays = NFT_BATCH_INIT(w->host.network.table);
		struct taking t = { w, sets[i], &strays };

		if (nft_list(&w->network.nft, w->host.network.table, sets[i], i == 0 ? take_pair : take_element, &t, e) < 0)
			return -1;
		if (nft_commit(&w->network.nft, &strays, e) < 0 && e->sys != ENOENT)
			return -1;
	}
	for (struct box *b = w->boxes; b; b = b->next)
		if (b->net)
			box_net_sort(b);
	return 0;
}

int network_take_up(struct warden *w, struct err *e)
{
	struct network *n = &w->network;

	if (!n->is_on)
		return 0;
	if (take_up(w, e) < 0 || put_back_all(w, e) < 0 || flows_end_strays(w, e) < 0)
		return err_wrap(e, "take up the rules of sandboxes");
	network_look_start(w);
	return n->listener >= 0 ? egress_open(w, e) : 0;
}

/* ---- the end ---- */

/* The kernel takes the networks of boxes down some time after their last user: their links need not be waited for. */
static int delete_links(const struct warden *w, struct err *e)
{
	AUTO(free) unsigned *numbers = NULL;
	size_t n = 0;

	if (box_network_list(&w->host.network, &numbers, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (box_network_detach(&w->host.network, numbers[i], e) < 0)
			return -1;
	return 0;
}

static int remove_all(const struct warden *w, struct err *e)
{
	if (box_network_remove(&w->host.network, e) == 0)
		return 0;
	return e->code == ERR_CONFLICT && delete_links(w, e) == 0 ? box_network_remove(&w->host.network, e) : -1;
}

void network_stop_changing(struct warden *w)
{
	changer_done(&w->network.changer);
	timer_done(&w->network.leave_again);
}

void network_done(struct warden *w, bool is_last)
{
	struct network *n = &w->network;
	struct err e = { 0 };

	egress_done(w);
	if (worker_is_busy(&n->repair) && worker_pidfd(&n->repair) >= 0) /* or it would put back what is removed now */
		(void)process_kill_and_wait(worker_pidfd(&n->repair), END_MS, &(struct process_end){ 0 }, &(struct err){ 0 });
	network_look_done(w);
	flows_done(w);
	if (n->is_on && is_last && remove_all(w, &e) < 0)
		log_warn("the network of sandboxes is left for the next start to remove", LOG_ERR(&e));
	netlink_done(&n->nft);
	netlink_done(&n->flows);
	for (size_t i = 0; i < EGRESS_FDS; i++)
		closep(&n->sockets[i]);
	closep(&n->listener);
	n->is_on = false;
}
