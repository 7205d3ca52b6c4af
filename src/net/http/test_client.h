// SPDX-License-Identifier: Apache-2.0
/* net/http/test_client.h - for tests: an HTTP client whose connections end in the test's own hands. */
#pragma once
#include "net/test_wire.h"

#include "net/http/client.h"

#define LINES_MAX 8

struct rig {
	struct wire w;
	struct http_client *client;
	int far[LINES_MAX]; /* of each connection that was dialled */
	int dials;
	int fail_dials;       /* this many of the next ones fail */
	bool dials_hang;      /* the next ones wait for the test */
	struct http_dial *hanging;
	int dials_cancelled;
};

/* What a call told its owner. */
struct told {
	struct rig *r;
	struct http_call *call;
	int heads, datas, ends, errors, upgrades, stops, proceeds;
	unsigned status;
	struct buf head, body;
	struct err e;
	struct transport *upgraded;
	bool pauses;
	enum {
		CANCEL_NEVER,
		CANCEL_ON_HEAD,
		CANCEL_ON_DATA,
		CANCEL_ON_END,
		CANCEL_ON_ERROR,
		CANCEL_ON_PROCEED,
		CANCEL_ON_STOP,
	} cancel;
	bool frees_client; /* rather than cancelling */
	struct str upload; /* what a source still has */
	size_t upload_piece;
	bool holds_upload; /* writes nothing in proceed */
};

static inline void maybe_cancel(struct told *t, int when)
{
	if ((int)t->cancel != when)
		return;
	if (t->frees_client)
		http_client_free(take_ptr(&t->r->client));
	else
		http_call_cancel(t->call);
	t->call = NULL;
}

static inline void told_head(struct http_call *call, const struct http_head *head, void *arg)
{
	struct told *t = arg;

	assert_ptr_equal(call, t->call);
	t->heads++;
	t->status = head->status;
	for (size_t i = 0; i < head->n_headers; i++)
		buf_addf(&t->head, "%.*s=%.*s;", STR_ARG(head->headers[i].name),
			 STR_ARG(head->headers[i].value));
	if (t->pauses)
		http_call_pause(call);
	maybe_cancel(t, CANCEL_ON_HEAD);
}

static inline void told_data(struct http_call *call, struct str piece, void *arg)
{
	struct told *t = arg;

	assert_ptr_equal(call, t->call);
	assert_true(piece.n > 0);
	t->datas++;
	maybe_cancel(t, CANCEL_ON_DATA);
	buf_add_str(&t->body, piece); /* still there, even when cancelled */
	if (t->pauses)
		http_call_pause(call);
}

static inline void told_end(void *arg)
{
	struct told *t = arg;

	t->ends++;
	maybe_cancel(t, CANCEL_ON_END);
	t->call = NULL;
}

static inline void told_error(const struct err *e, void *arg)
{
	struct told *t = arg;

	t->errors++;
	t->e = *e;
	maybe_cancel(t, CANCEL_ON_ERROR);
	t->call = NULL;
}

static inline void told_upgrade(struct transport *tr, const struct http_head *head, struct str early,
				void *arg)
{
	struct told *t = arg;

	t->upgrades++;
	t->status = head->status;
	t->upgraded = tr;
	t->call = NULL;
	buf_add_str(&t->body, early);
}

static inline void told_proceed(struct http_call *call, void *arg)
{
	struct told *t = arg;
	struct str piece;

	t->proceeds++;
	if (t->cancel == CANCEL_ON_PROCEED) {
		maybe_cancel(t, CANCEL_ON_PROCEED);
		return;
	}
	if (t->holds_upload)
		return;
	assert_true(http_call_room(call) > 0);
	piece = str_first(t->upload, t->upload_piece);
	http_call_write(call, piece);
	t->upload = str_skip(t->upload, piece.n);
	if (t->upload.n == 0)
		http_call_end(call);
}

static inline void told_stop(void *arg)
{
	struct told *t = arg;

	t->stops++;
	maybe_cancel(t, CANCEL_ON_STOP);
}

static const struct http_call_ops told_ops = { told_head, told_data, told_end, told_error, told_upgrade,
					       NULL };
static const struct http_body_source told_source = { told_proceed, told_stop };

static inline int rig_begin(struct http_dial *d, void *arg, struct err *e)
{
	struct rig *r = arg;
	struct err failed = { 0 };

	assert_null(d->user);
	if (r->fail_dials > 0) {
		r->fail_dials--;
		if (r->fail_dials % 2 == 0)
			return err_set(e, ERR_UNAVAILABLE, "no line");
		(void)err_set(&failed, ERR_UNAVAILABLE, "no answer");
		http_dial_done(d, NULL, &failed);
		return 0;
	}
	if (r->dials_hang) {
		r->hanging = d;
		return 0;
	}
	assert_true(r->dials < LINES_MAX);
	http_dial_done(d, wire_transport(&r->far[r->dials++]), NULL);
	return 0;
}

static inline void rig_cancel(struct http_dial *d, void *arg)
{
	struct rig *r = arg;

	assert_ptr_equal(d, r->hanging);
	r->hanging = NULL;
	r->dials_cancelled++;
}

static inline void rig_open(struct rig *r, unsigned max_idle)
{
	static const struct http_dialer dialer = { rig_begin, rig_cancel };
	struct http_client_options options = HTTP_CLIENT_OPTIONS;
	struct err e = { 0 };

	*r = (struct rig){ 0 };
	for (int i = 0; i < LINES_MAX; i++)
		r->far[i] = -1;
	wire_open(&r->w);
	options.dialer = &dialer;
	options.dialer_arg = r;
	options.max_idle = max_idle;
	r->client = http_client_new(r->w.loop, &options, &e);
	assert_non_null(r->client);
}

static inline void rig_close(struct rig *r)
{
	http_client_free(r->client);
	for (int i = 0; i < LINES_MAX; i++)
		closep(&r->far[i]);
	wire_close(&r->w);
}

static inline void told_init(struct told *t, struct rig *r)
{
	*t = (struct told){ .r = r, .head = BUF_INIT(65536), .body = BUF_INIT(8 * 1024 * 1024), .upload_piece = 65536 };
}

static inline void told_done(struct told *t)
{
	buf_done(&t->head);
	buf_done(&t->body);
	transport_close(t->upgraded);
}

/* Starts a call and lets it go as far as it can. */
static inline void call(struct told *t, const struct http_request *rq)
{
	struct err e = { 0 };

	t->call = http_call_start(t->r->client, rq, &told_ops, t, &e);
	assert_non_null(t->call);
	assert_int_equal(t->heads + t->ends + t->errors + t->proceeds, 0);
	wire_turn(&t->r->w);
}

#define GET(path) ((struct http_request){ .method = STR("GET"), .target = STR(path), .host = STR("h") })

/* Checks what has been sent on a line. */
static inline void expect_sent(struct rig *r, int line, const char *want)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8 * 1024 * 1024);

	(void)wire_hear(&r->w, r->far[line], &b);
	assert_string_equal(buf_z(&b), want);
}

static inline void answer(struct rig *r, int line, const char *text)
{
	wire_say(&r->w, r->far[line], str_of(text));
	wire_turn(&r->w);
}

static inline void hang_up(struct rig *r, int line)
{
	char piece[4096];

	while (recv(r->far[line], piece, sizeof(piece), MSG_DONTWAIT) > 0) /* what is unread would make it a reset */
		;
	(void)close(take_fd(&r->far[line]));
	wire_turn(&r->w);
}
