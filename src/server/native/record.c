// SPDX-License-Identifier: Apache-2.0
/* Records that the warden keeps with its boxes and beside layers, for a server that has lost its own. */
#include <sys/stat.h>

#include "base/buf.h"
#include "server/native/native_impl.h"
#include "sys/fd.h"
#include "sys/memfd.h"
#include "sys/passing.h"

#include "base/banned.h"

/* LAYER: of a snapshot, which stands for the id as well; or NULL. */
static void set(struct runtime *rt, const char *id, const char *layer, struct str record, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_RECORD_SET, completion_done(fn, arg));
	struct wire_request rq = { 0 };
	AUTO_FD fd = -1;

	if (!c)
		return;
	fd = memfd_sealed_bytes("record", record, &c->failure);
	if (fd < 0 || native_add_layers(&rq, layer, &c->failure) < 0)
		native_call_fail_later(c);
	else
		native_call_send(c, id, &rq, fd);
}

void native_record_set(struct runtime *rt, const char *id, struct str record, runtime_done_fn *fn, void *arg)
{
	set(rt, id, NULL, record, fn, arg);
}

void native_layer_record_set(struct runtime *rt, const char *layer, struct str record, runtime_done_fn *fn, void *arg)
{
	set(rt, layer, layer, record, fn, arg);
}

static void get(struct runtime *rt, const char *id, const char *layer, runtime_text_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_RECORD_GET, completion_text(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	if (native_add_layers(&rq, layer, &c->failure) < 0)
		native_call_fail_later(c);
	else
		native_call_send(c, id, &rq, -1);
}

void native_record_get(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg)
{
	get(rt, id, NULL, fn, arg);
}

void native_layer_record_get(struct runtime *rt, const char *layer, runtime_text_fn *fn, void *arg)
{
	get(rt, layer, layer, fn, arg);
}

void native_answer_record(struct call *c, const struct passed *got)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_RECORD_MAX);
	runtime_text_fn *fn = c->done.fn.text;
	void *arg = c->done.arg;
	struct err e = { 0 };

	if (got->n_fds != 1)
		(void)err_set(&e, ERR_INTERNAL, "the warden sent no record");
	if (e.code != ERR_NONE || fd_read_all(got->fds[0], RUNTIME_RECORD_MAX, &text, &e) < 0) {
		native_call_fail(c, &e);
		return;
	}
	native_call_free(c);
	fn(buf_str(&text), false, NULL, arg);
}
