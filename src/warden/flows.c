// SPDX-License-Identifier: Apache-2.0
#include "warden/flows.h"

#include <linux/netlink.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/conntrack.h"
#include "sys/netlink.h"
#include "warden/box.h"
#include "warden/network.h"
#include "warden/ready.h"
#include "warden/warden.h"

#include "base/banned.h"

struct flow_job {
	struct flow_job *next;
	uint32_t address;
	bool is_gone; /* all of them, and then `number` is free */
	unsigned number;
	bool has_net;
	struct egress_net net;
	uint64_t serial, egress; /* to answer, and which one of those that were there */
};

/* ---- in the worker ---- */

static bool is_asked(const struct conntrack_flow *f, void *arg)
{
	struct warden *w = arg;
	const struct box *b = network_box(w, f->source);

	for (const struct flow_job *j = w->network.ends.running; j; j = j->next) {
		if (j->address != f->source)
			continue;
		if (j->is_gone || (j->has_net && egress_net_has(&j->net, f->to)))
			return true;
		if (!j->has_net && b && box_net_forbids(b, f))
			return true;
	}
	return false;
}

static int end_work(void *arg, struct err *e)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	struct warden *w = arg;
	const struct flow_job *first = w->network.ends.running;

	if (netlink_open(&nl, NETLINK_NETFILTER, -1, e) < 0)
		return -1;
	return conntrack_end(&nl, first->next ? 0 : first->address, is_asked, w, NULL, e);
}

/* ---- in the loop ---- */

static void start(struct warden *w);

static void on_ended(const struct err *failure, void *arg)
{
	struct warden *w = arg;
	struct flow_job *j;

	if (failure)
		log_warn("flows of sandboxes cannot be ended", LOG_ERR(failure));
	while ((j = w->network.ends.running)) {
		w->network.ends.running = j->next;
		if (j->serial > 0 && j->egress == w->network.n_egress)
			egress_answer(w, j->serial, failure);
		if (j->is_gone)
			number_free(w, j->number); /* also when it failed: it comes back last, and what it had ends by itself before */
		free(j);
	}
	start(w);
}

static bool is_urgent(const struct flow_job *j)
{
	while (j && j->is_gone)
		j = j->next;
	return j;
}

static void start(struct warden *w)
{
	struct flows *f = &w->network.ends;

	if (!f->asked || worker_is_busy(&f->worker))
		return;
	if (!f->is_late && !is_urgent(f->asked)) {
		if (f->later.at == 0)
			timer_in(&f->later, FLOWS_PAUSE_MS);
		return;
	}
	f->is_late = false;
	timer_cancel(&f->later);
	f->running = take_ptr(&f->asked);
	worker_start(&f->worker, &w->workers, end_work, on_ended, w, -1);
}

static void on_late(void *arg)
{
	struct warden *w = arg;

	w->network.ends.is_late = true;
	start(w);
}

int flows_open(struct warden *w, struct err *e)
{
	return timer_init(&w->network.ends.later, w->loop, on_late, w, "flows", e);
}

static int ask(struct warden *w, const struct flow_job *what, struct err *e)
{
	struct flow_job *j = malloc(sizeof(*j));

	if (!j)
		return err_no_memory(e);
	*j = *what;
	j->next = w->network.ends.asked;
	w->network.ends.asked = j;
	start(w);
	return 0;
}

int flows_end(struct box *b, const struct egress_net *net, uint64_t serial, struct err *e)
{
	struct flow_job j = { .address = b->net->address, .has_net = net, .serial = serial,
			      .egress = b->w->network.n_egress };

	if (net)
		j.net = *net;
	return ask(b->w, &j, e);
}

void flows_retire(struct warden *w, unsigned number)
{
	const struct flow_job j = { .address = box_network_address(&w->host.network, number), .is_gone = true, .number = number };

	if (!w->network.is_on || ask(w, &j, &(struct err){ 0 }) < 0)
		number_free(w, number);
}

static bool is_stray(const struct conntrack_flow *f, void *arg)
{
	const struct warden *w = arg;

	return route_net_has(&w->host.network.range, f->source) && !network_box(w, f->source);
}

int flows_end_strays(struct warden *w, struct err *e)
{
	return conntrack_end(&w->network.flows, 0, is_stray, w, NULL, e);
}

void flows_done(struct warden *w)
{
	struct flows *f = &w->network.ends;
	struct flow_job *j;

	worker_forget(&f->worker);
	timer_done(&f->later);
	while ((j = f->asked ? f->asked : f->running)) {
		*(f->asked ? &f->asked : &f->running) = j->next;
		free(j);
	}
}
