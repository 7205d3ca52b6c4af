// SPDX-License-Identifier: Apache-2.0
/* A call whose whole answer is collected. */
#include "base/arena.h"
#include "net/http/client_impl.h"

#include "base/banned.h"

#define HEAD_ARENA_MAX (4 * HTTP_HEAD_MAX) /* views are copied one by one, and blocks are not filled to their ends */

struct http_fetch {
	struct http_call *call;
	http_fetch_fn *fn;
	void *arg;
	struct arena arena;
	struct http_head *head;
	struct buf body;
	bool is_ending; /* its callback runs */
};

static void fetch_free(struct http_fetch *f)
{
	arena_done(&f->arena);
	buf_done(&f->body);
	free(f);
}

static void fetch_dropped(void *arg)
{
	fetch_free(arg);
}

static bool copy_view(struct arena *a, struct str *s)
{
	s->p = arena_dup(a, *s);
	return s->p;
}

static bool copy_head(struct http_fetch *f, const struct http_head *from)
{
	struct http_head *h = arena_alloc(&f->arena, sizeof(*h));

	if (!h)
		return false;
	memcpy(h, from, offsetof(struct http_head, headers) + from->n_headers * sizeof(from->headers[0]));
	for (size_t i = 0; i < h->n_headers; i++)
		if (!copy_view(&f->arena, &h->headers[i].name) || !copy_view(&f->arena, &h->headers[i].value))
			return false;
	h->host = (struct str){ "", 0 }; /* means nothing in a response */
	f->head = h;
	return true;
}

static void fetch_end(struct http_fetch *f, const struct http_answer *answer, const struct err *e)
{
	f->is_ending = true;
	f->fn(answer, e, f->arg);
	fetch_free(f);
}

static void fetch_on_error(const struct err *e, void *arg)
{
	fetch_end(arg, NULL, e);
}

static void fetch_no_memory(struct http_fetch *f, struct http_call *call)
{
	struct err e = { 0 };

	call->on_cancel = NULL;
	http_call_cancel(call);
	(void)err_no_memory(&e);
	fetch_end(f, NULL, &e);
}

static void fetch_on_head(struct http_call *call, const struct http_head *head, void *arg)
{
	if (!copy_head(arg, head))
		fetch_no_memory(arg, call);
}

static void fetch_on_data(struct http_call *call, struct str piece, void *arg)
{
	struct http_fetch *f = arg;

	if (!buf_add_str(&f->body, piece))
		fetch_no_memory(f, call);
}

static void fetch_on_end(void *arg)
{
	struct http_fetch *f = arg;
	struct http_answer answer = { .head = f->head, .body = buf_str(&f->body) };

	fetch_end(f, &answer, NULL);
}

struct http_fetch *http_fetch(struct http_client *c, const struct http_request *rq, http_fetch_fn *fn, void *arg,
			      struct err *e)
{
	static const struct http_call_ops ops = {
		.on_head = fetch_on_head,
		.on_data = fetch_on_data,
		.on_end = fetch_on_end,
		.on_error = fetch_on_error,
	};
	struct http_fetch *f = calloc(1, sizeof(*f));
	struct http_request bounded = *rq;

	if (!f) {
		(void)err_no_memory(e);
		return NULL;
	}
	if (bounded.max_body == 0)
		bounded.max_body = HTTP_FETCH_MAX;
	f->fn = fn;
	f->arg = arg;
	f->arena = ARENA_INIT(HEAD_ARENA_MAX);
	f->body = BUF_INIT((size_t)MIN(bounded.max_body, (uint64_t)SIZE_MAX / 2));
	f->call = http_call_start(c, &bounded, &ops, f, e);
	if (!f->call) {
		fetch_free(f);
		return NULL;
	}
	f->call->on_cancel = fetch_dropped;
	return f;
}

void http_fetch_cancel(struct http_fetch *f)
{
	if (f && !f->is_ending)
		http_call_cancel(f->call); /* frees F */
}
