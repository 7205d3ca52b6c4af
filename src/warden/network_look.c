// SPDX-License-Identifier: Apache-2.0
/* Whether the network of boxes is still as we made it: every two seconds, in a worker. The kernel answers such questions under
 * locks that others may hold for seconds, and the answer is longer the more boxes there are, so none of it is for the loop. The
 * worker puts right what belongs to no box, and the links. What elements there should be only the loop knows: the worker says
 * whose are missing, and the loop has them added, some in each change. */
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/nft.h"
#include "warden/box.h"
#include "warden/network.h"
#include "warden/warden.h"

#include "base/banned.h"

#define CHECK_MS 2000 /* between two looks */
#define BLIND_CHECKS 30 /* so many of them to one of what only other programs can see */
#define PUT_BACK_MAX 64 /* boxes of one turn */
#define PUT_BACK_BYTES ((size_t)256 * 1024)
#define MENDS_MAX 64 /* links of one look */

enum mend { MEND_NONE, MEND_DONE, MEND_FAILED };

/* In memory that the worker shares; by number. */
struct network_look {
	bool is_blind; /* for the worker: it puts all of it right, whatever it sees */
	bool is_lost;  /* by the worker: somebody has removed the rules, and all elements with them */
	unsigned char missing[SLOT_NUMBER_MAX]; /* whose elements */
	unsigned char want[SLOT_NUMBER_MAX], broken[SLOT_NUMBER_MAX], mended[SLOT_NUMBER_MAX]; /* links; the last: enum mend */
};

/* ---- in the worker ---- */

struct seen {
	const struct warden *w;
	const char *set;
	unsigned char pairs[SLOT_NUMBER_MAX], classes[SLOT_NUMBER_MAX];
};

static int see_pair(const struct nft_row *row, void *arg, struct err *e)
{
	struct seen *s = arg;
	int number = network_element_number(s->w, "pairs", row);

	(void)e;
	if (number >= 0)
		s->pairs[number] = 1;
	return 0;
}

static int see_class(const struct nft_row *row, void *arg, struct err *e)
{
	struct seen *s = arg;
	int number = network_element_number(s->w, "classes", row);

	(void)e;
	if (number >= 0)
		s->classes[number] = 1;
	return 0;
}

static int find_missing(const struct warden *w, struct netlink *nft, struct network_look *l, struct err *e)
{
	AUTO(free) struct seen *s = calloc(1, sizeof(*s));

	if (!s)
		return err_no_memory(e);
	s->w = w;
	if (nft_list(nft, w->host.network.table, "pairs", see_pair, s, e) < 0 ||
	    nft_list(nft, w->host.network.table, "classes", see_class, s, e) < 0)
		return -1;
	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++) {
		const struct box *b = w->network.boxes[i];

		l->missing[i] = (w->is_taken[i] && !w->network.leaves[i] && !s->pairs[i]) || (b && b->net->class != NETWORK_CLOSED && !s->classes[i]);
	}
	return 0;
}

static int mend_links(const struct warden *w, struct network_look *l, struct err *e)
{
	int r = box_network_find_broken(&w->host.network, l->want, l->broken, e);
	unsigned n = 0;

	for (unsigned i = 0; r == 0 && i < SLOT_NUMBER_MAX && n < MENDS_MAX; i++) {
		struct err why = { 0 };

		if (!l->broken[i])
			continue;
		n++;
		l->mended[i] = box_network_mend(&w->host.network, i, w->network.boxes[i]->slot.netns, &why) < 0 ? MEND_FAILED : MEND_DONE;
		if (why.code != ERR_NONE)
			*e = why;
	}
	return r;
}

static int look_work(void *arg, struct err *e)
{
	AUTO(netlink_done) struct netlink nft = NETLINK_INIT;
	struct warden *w = arg;
	struct network_look *l = w->network.look;
	int r = nft_open(&nft, -1, e) < 0 ? -1 : box_network_check(&w->host.network, &nft, e);

	if (r < 0)
		return -1;
	l->is_lost = r == 0;
	if ((l->is_lost || l->is_blind) && box_network_repair(&w->host.network, e) < 0)
		return err_wrap(e, "put the rules of the network back");
	if (!l->is_lost && find_missing(w, &nft, l, e) < 0)
		return -1;
	return mend_links(w, l, e);
}

/* ---- in the loop ---- */

static bool is_due(const struct warden *w, unsigned i)
{
	const struct network_look *l = w->network.look;

	return w->is_taken[i] && !w->network.leaves[i] && (l->is_lost || l->missing[i]);
}

/* From where the last turn left off, in one change of the kernel's. */
static void build_put_back(struct change *c, struct change_plan *p)
{
	struct warden *w = c->arg;
	struct network *n = &w->network;
	unsigned at = n->put_back_at, done = 0;

	for (; at < SLOT_NUMBER_MAX && done < n->put_back_max && p->batch.bytes.n < PUT_BACK_BYTES; at++) {
		if (!is_due(w, at))
			continue;
		network_put_back(w, at, &p->batch);
		done++;
	}
	n->put_back_next = at;
}

/* What fails together is tried one by one: one that the kernel refuses must not keep the others. */
static void on_put_back(struct change *c, const struct err *failure)
{
	struct warden *w = c->arg;
	struct network *n = &w->network;

	if (n->changer.is_over)
		return;
	if (failure && n->put_back_max > 1) {
		n->put_back_max = 1;
		n->put_back_next = n->put_back_at;
	} else if (failure) {
		log_error("elements of the network's rules cannot be put back, trying again", LOG_ERR(failure));
	}
	n->put_back_at = n->put_back_next;
	if (n->put_back_at < SLOT_NUMBER_MAX)
		changer_ask(&n->changer, c);
	else
		timer_in(&n->check, CHECK_MS);
}

static void tell_mended(struct warden *w)
{
	const struct network_look *l = w->network.look;

	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++) {
		const struct box *b = w->network.boxes[i];

		if (l->mended[i] == MEND_NONE || !b)
			continue;
		if (l->mended[i] == MEND_DONE)
			log_warn("the link of a sandbox was changed from outside, restoring it",
				 LOG_S("id", b->file.id));
		else if (b->file.stage == BOX_RUNNING && !b->has_ended)
			log_error("a sandbox is without a network, trying again", LOG_S("id", b->file.id));
	}
}

static void on_looked(const struct err *failure, void *arg)
{
	struct warden *w = arg;
	struct network *n = &w->network;

	if (failure)
		log_error("the network of sandboxes cannot be looked at or put right, trying again", LOG_ERR(failure));
	if (n->look->is_lost)
		log_warn("network rules were removed from outside, restoring them");
	tell_mended(w);
	n->put_back_at = failure && !n->look->is_lost ? SLOT_NUMBER_MAX : 0;
	n->put_back_max = PUT_BACK_MAX;
	changer_ask(&n->changer, &n->put_back);
}

static void on_check(void *arg)
{
	struct warden *w = arg;
	struct network *n = &w->network;

	if (worker_is_busy(&n->repair))
		return;
	memset(n->look, 0, sizeof(*n->look));
	n->look->is_blind = ++n->checks % BLIND_CHECKS == 0;
	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++)
		n->look->want[i] = n->boxes[i] && n->boxes[i]->file.stage == BOX_RUNNING && !n->boxes[i]->has_ended;
	worker_start(&n->repair, &n->lookers, look_work, on_looked, w, -1);
}

void network_look_soon(struct warden *w)
{
	timer_in(&w->network.check, 0);
}

int network_look_open(struct warden *w, struct err *e)
{
	struct network *n = &w->network;
	void *look = mmap(NULL, sizeof(*n->look), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (look == MAP_FAILED)
		return err_no_memory(e);
	n->look = look;
	n->lookers = (struct workers){ .loop = w->loop, .max = 1 };
	n->put_back = (struct change){ .build = build_put_back, .done = on_put_back, .arg = w };
	return timer_init(&n->check, w->loop, on_check, w, "network", e);
}

void network_look_start(struct warden *w)
{
	timer_in(&w->network.check, CHECK_MS);
}

void network_look_done(struct warden *w)
{
	struct network *n = &w->network;

	worker_forget(&n->repair);
	timer_done(&n->check);
	if (n->look)
		(void)munmap(n->look, sizeof(*n->look));
	n->look = NULL;
}
