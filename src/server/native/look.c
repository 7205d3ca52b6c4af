// SPDX-License-Identifier: Apache-2.0
/* Looking at sandboxes: which there are, their logs, their state, what they use. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "server/native/native_impl.h"
#include "server/runtime/runtime_log.h"
#include "sys/passing.h"

#include "base/banned.h"

#define LIST_MAX 16384

void native_logs(struct runtime *rt, const char *id, const struct runtime_log_query *query, runtime_text_fn *fn,
			void *arg)
{
	struct call *c = native_call_new(rt, WIRE_LOGS, completion_text(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	c->query = *query;
	native_call_send(c, id, &rq, -1);
}

void native_inspect(struct runtime *rt, const char *id, runtime_info_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_STATS, completion_info(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	native_call_send(c, id, &rq, -1);
}

void native_stats(struct runtime *rt, const char *id, runtime_stats_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_STATS, completion_stats(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	native_call_send(c, id, &rq, -1);
}

void native_answer_logs(struct call *c, const struct passed *got)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_LOG_MAX);
	runtime_text_fn *fn = c->done.fn.text;
	void *arg = c->done.arg;
	bool is_cut = false;
	struct err e = { 0 };

	if (got->n_fds != 2 || runtime_log_read(got->fds, &c->query, &text, &is_cut, &e) < 0) {
		if (e.code == ERR_NONE)
			(void)err_set(&e, ERR_INTERNAL, "the warden sent no log");
		native_call_fail(c, &e);
		return;
	}
	native_call_free(c);
	fn((struct str){ buf_z(&text), text.n }, is_cut, NULL, arg);
}

void native_answer_inspect(struct call *c, const struct wire_reply *rp)
{
	char memory[32], pids[32], kills[32];
	const struct runtime_fact facts[] = {
		{ "memory bytes", memory }, { "processes", pids }, { "oom kills", kills },
	};
	struct runtime_info info = { .state = native_state_of(rp->state), .facts = facts, .n_facts = ARRAY_LEN(facts) };
	runtime_info_fn *fn = c->done.fn.info;
	void *arg = c->done.arg;

	(void)snprintf(memory, sizeof(memory), "%llu", (unsigned long long)rp->stats.memory_bytes);
	(void)snprintf(pids, sizeof(pids), "%llu", (unsigned long long)rp->stats.pids);
	(void)snprintf(kills, sizeof(kills), "%llu", (unsigned long long)rp->stats.oom_kills);
	native_call_free(c);
	fn(&info, NULL, arg);
}

void native_answer_stats(struct call *c, const struct wire_stats *w)
{
	struct runtime_stats stats = { w->cpu_usec, w->memory_bytes, w->memory_peak_bytes, w->pids, w->disk_bytes,
				       w->oom_kills,  w->io_read_bytes, w->io_written_bytes, w->net_in_bytes, w->net_out_bytes,
				       w->net_in_packets, w->net_out_packets, w->net_refused_packets };
	runtime_stats_fn *fn = c->done.fn.stats;
	void *arg = c->done.arg;

	native_call_free(c);
	fn(&stats, NULL, arg);
}

/* ---- all of them ---- */

void native_list(struct runtime *rt, runtime_list_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_LIST, completion_list(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	native_call_send(c, "", &rq, -1);
}

static void list_complete(struct call *c)
{
	AUTO(free) struct runtime_box *boxes = calloc(MAX(c->n_rows, (size_t)1), sizeof(*boxes));
	AUTO(free) struct wire_reply *rows = take_ptr(&c->rows);
	runtime_list_fn *fn = c->done.fn.list;
	size_t n = c->n_rows;
	void *arg = c->done.arg;
	struct err e = { 0 };

	if (!boxes) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		boxes[i] = (struct runtime_box){ rows[i].id, native_state_of(rows[i].state), native_end_of(&rows[i].ending) };
	native_call_free(c);
	fn(boxes, n, NULL, arg);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of C, which is in a list */
bool native_more_rows(struct call *c)
{
	size_t cap = c->cap_rows ? c->cap_rows * 2 : 64;
	struct wire_reply *rows = cap <= 2 * LIST_MAX ? reallocarray(c->rows, cap, sizeof(*rows)) : NULL;

	if (!rows)
		return false;
	c->rows = rows;
	c->cap_rows = cap;
	return true;
}
#pragma GCC diagnostic pop

void native_answer_list(struct call *c, const struct wire_reply *rp)
{
	struct err e = { 0 };

	if (!rp->id[0]) {
		list_complete(c);
		return;
	}
	if (c->n_rows == c->cap_rows && !native_more_rows(c)) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	c->rows[c->n_rows++] = *rp;
}
