// SPDX-License-Identifier: Apache-2.0
/* server/runtime_native_impl.h - what the runtime_native*.c files share. Nothing else includes it. */
#pragma once
#include "base/err.h"
#include "base/own.h"
#include "box/wire.h"
#include "net/loop.h"
#include "server/runtime.h"
#include "server/runtime_native.h"

struct native;

/* One request to the warden that has not been answered, or whose completion waits for the loop. */
struct call {
	struct call *prev, *next;
	struct native *n;
	uint64_t serial;
	enum wire_call kind;
	union {
		runtime_done_fn *done;
		runtime_dial_fn *dial;
		runtime_text_fn *text;
		runtime_info_fn *info;
		runtime_stats_fn *stats;
		runtime_list_fn *list;
		runtime_snapshot_fn *snapshot;
		runtime_layers_fn *layers;
	} fn;
	void *arg;
	bool is_inspect; /* a WIRE_STATS for inspect() */
	struct timer timer;
	struct deferred later;
	struct err failure; /* of one that could not be asked */
	unsigned port;
	struct dial *dialing;
	struct runtime_log_query query;
	struct wire_reply *rows;
	size_t n_rows, cap_rows;
};

struct native {
	struct runtime rt;
	struct loop *loop;
	const struct string_pair *images;
	size_t n_images;
	const char *default_image;
	char path[108];
	int fd;
	struct io io;
	struct timer again;
	bool was_away; /* it was connected before */
	uint64_t serial;
	struct call *calls;
	struct call *spare;
};

extern const struct runtime_failure native_no_memory;

static inline struct native *native_of(struct runtime *rt)
{
	return container_of(rt, struct native, rt);
}

/* NULL: out of memory, and the caller tells so at once. */
struct call *native_call_new(struct runtime *rt, enum wire_call kind, void *arg);
void native_call_send(struct call *c, const char *id, struct wire_request *rq, int fd); /* FD -1: none */
void native_call_free(struct call *c);
void native_call_fail(struct call *c, const struct err *e); /* completes it */
void native_call_fail_later(struct call *c); /* with c->failure */
bool native_more_rows(struct call *c);

/* runtime_native_snapshot.c */
int native_add_layers(struct wire_request *rq, const struct string_list *layers, struct err *e); /* behind those that RQ has */
void native_snapshot(struct runtime *rt, const char *id, const char *layer, runtime_snapshot_fn *fn, void *arg);
void native_snapshot_remove(struct runtime *rt, const char *layer, runtime_done_fn *fn, void *arg);
void native_snapshots(struct runtime *rt, runtime_layers_fn *fn, void *arg);
void native_answer_snapshot(struct call *c, const struct wire_snapshot *w);
void native_answer_snapshots(struct call *c, const struct wire_reply *rp);
