// SPDX-License-Identifier: Apache-2.0
/* Looking at a sandbox: its logs, its state, what it uses. */
#include <stdio.h>

#include "base/buf.h"
#include "server/native/native_impl.h"
#include "server/runtime/runtime_log.h"
#include "sys/passing.h"

#include "base/banned.h"

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
