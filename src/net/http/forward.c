// SPDX-License-Identifier: Apache-2.0
/* It exists from the handler to the last callback of the far side. The near side may end earlier: after an answer without a
 * body, rp is NULL and only the end of the call is waited for. */
#include "net/http/forward.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/transport.h"

#include "base/banned.h"

#define PASS_MIN ((uint64_t)64 * 1024) /* of a body to come: for less a pipe does not pay */

struct forward {
	const struct forward_ops *ops;
	void *arg;
	struct loop *loop;
	struct http_call *call;
	struct request *rq;
	struct reply *rp; /* NULL: answered, or the peer has gone */
	bool has_head;    /* the answer has begun */
	bool is_head;     /* nothing follows it: the server says when it is out */
	bool is_upload_over;
	bool passes_up, passes_down; /* has begun to */
	struct transport *inside; /* of a tunnel to be, while the answer is on its way */
	struct buf early;         /* what came from there already */
	struct relay *relay;
	uint64_t moved; /* bytes of bodies */
	bool is_paced, is_resting;
	struct http_pace pace;
	struct timer rest;
};

static void forward_free(struct forward *f)
{
	http_call_cancel(f->call); /* a call that is over is not there any more */
	transport_close(f->inside);
	relay_cancel(f->relay);
	buf_done(&f->early);
	timer_done(&f->rest);
	free(f);
}

static void finish(struct forward *f)
{
	const struct forward_ops *ops = f->ops;
	void *arg = f->arg;

	forward_free(f);
	ops->over(arg);
}

static void refuse(struct forward *f, const struct err *e)
{
	struct reply *rp = take_ptr(&f->rp);

	if (rp && f->has_head)
		reply_abort(rp);
	else if (rp)
		f->ops->refuse(rp, e, f->arg);
}

void forward_cancel(struct forward *f, const struct err *why)
{
	if (!f)
		return;
	refuse(f, why);
	forward_free(f);
}

uint64_t forward_moved(const struct forward *f)
{
	return f->relay ? f->moved + relay_moved(f->relay) : f->moved;
}

/* ---- the near side ---- */

static void on_hangup(void *arg)
{
	struct forward *f = arg;

	f->rp = NULL;
	finish(f);
}

static void on_room(void *arg)
{
	struct forward *f = arg;

	if (f->call && !f->is_resting)
		http_call_resume(f->call);
}

static void on_rested(void *arg)
{
	struct forward *f = arg;

	f->is_resting = false;
	if (f->call && f->rp && reply_room(f->rp) > 0) /* or on_room() comes */
		http_call_resume(f->call);
}

static int on_upload(struct str piece, void *arg, struct err *e)
{
	struct forward *f = arg;

	(void)e;
	if (f->is_upload_over || !f->call)
		return 0;
	f->moved += piece.n;
	http_call_write(f->call, piece);
	if (http_call_room(f->call) == 0)
		request_pause(f->rq);
	return 0;
}

/* Where bytes are to be copied, or are of no use, ENOTSUP makes them come to on_upload(). */
static ssize_t on_upload_pass(int fd, uint64_t left, void *arg)
{
	struct forward *f = arg;
	ssize_t n;

	if (f->is_upload_over || !f->call || !f->ops->passes || (!f->passes_up && left < PASS_MIN)) {
		errno = ENOTSUP;
		return -1;
	}
	f->passes_up = true;
	n = http_call_pass(f->call, fd, left);
	f->moved += n > 0 ? (uint64_t)n : 0;
	if (n < 0 && errno == EBUSY) {
		request_pause(f->rq);
		errno = EAGAIN;
	} else if (n > 0 && http_call_room(f->call) == 0) {
		request_pause(f->rq);
	}
	return n;
}

static int on_upload_end(void *arg, struct err *e)
{
	struct forward *f = arg;

	(void)e;
	if (!f->is_upload_over && f->call)
		http_call_end(f->call);
	f->is_upload_over = true;
	return 0;
}

/* ---- the far side ---- */

static void on_upload_room(struct http_call *call, void *arg)
{
	struct forward *f = arg;

	(void)call;
	if (f->rp)
		request_resume(f->rq);
}

/* It wants no more of the body: the rest is taken and dropped, so that the peer gets to read the answer. */
static void on_upload_unwanted(void *arg)
{
	struct forward *f = arg;

	f->is_upload_over = true;
	if (f->rp)
		request_resume(f->rq);
}

/* What the peer is told to expect; of an answer to HEAD nothing follows. */
static uint64_t length_of(const struct http_head *head)
{
	struct str text = http_value(head, "Content-Length");
	uint64_t length;

	if (head->framing == HTTP_LENGTH)
		return head->length;
	if (head->framing == HTTP_NO_BODY)
		return str_to_u64(text, 0, HTTP_LENGTH_MAX, &length) ? length : text.n > 0 ? 0 : REPLY_UNSIZED;
	return REPLY_UNSIZED;
}

static void give_up(struct forward *f, const struct err *e)
{
	refuse(f, e);
	finish(f);
}

static void give_up_busy(struct forward *f)
{
	(void)reply_error(take_ptr(&f->rp), 503, "UNAVAILABLE", "too many open streams");
	finish(f);
}

/* Of what programs say there is no end, and of a file there is: only the former has to make room for others. */
static int begin_pace(struct forward *f, const struct http_head *head, struct err *e)
{
	static const struct str type = STR("text/event-stream");

	if (!f->ops->paces || !str_starts(http_value(head, "Content-Type"), type))
		return 0;
	f->is_paced = true;
	return timer_init(&f->rest, f->loop, on_rested, f, "stream that rests", e);
}

static void rest(struct forward *f, unsigned ms)
{
	f->is_resting = true;
	http_call_pause(f->call);
	timer_in(&f->rest, ms);
}

static void on_head(struct http_call *call, const struct http_head *head, void *arg)
{
	static const struct reply_source source = { .proceed = on_room, .stop = on_hangup };
	struct forward *f = arg;
	struct err e = { 0 };

	(void)call;
	if (begin_pace(f, head, &e) < 0 || f->ops->headers(f->rq, f->rp, head, f->arg, &e) < 0) {
		give_up(f, &e);
	} else if (head->status == 204 || head->status == 304) {
		f->is_upload_over = true;
		(void)reply_empty(take_ptr(&f->rp), head->status);
	} else if (reply_stream(f->rp, head->status, NULL, length_of(head), &source, f, &e) < 0) {
		give_up_busy(f);
	} else {
		f->has_head = true;
	}
}

static void on_data(struct http_call *call, struct str piece, void *arg)
{
	struct forward *f = arg;
	unsigned ms;

	if (!f->rp)
		return;
	f->moved += piece.n;
	reply_write(f->rp, piece);
	ms = f->is_paced ? request_pace(f->rq, &f->pace, piece.n) : 0;
	if (ms > 0)
		rest(f, ms);
	else if (reply_room(f->rp) == 0)
		http_call_pause(call);
}

static ssize_t on_pass(struct http_call *call, int fd, uint64_t left, void *arg)
{
	struct forward *f = arg;
	ssize_t n;

	if (!f->rp || !f->ops->passes || (!f->passes_down && left < PASS_MIN)) {
		errno = ENOTSUP;
		return -1;
	}
	f->passes_down = true;
	n = reply_pass(f->rp, fd, left);
	f->moved += n > 0 ? (uint64_t)n : 0;
	if (n < 0 && errno == EBUSY) {
		http_call_pause(call);
		errno = EAGAIN;
	} else if (n > 0 && reply_room(f->rp) == 0) {
		http_call_pause(call);
	}
	return n;
}

static void on_end(void *arg)
{
	struct forward *f = arg;

	f->call = NULL;
	if (f->rp && f->is_head)
		return; /* its length is that of a body which is not there; on_hangup ends it */
	if (f->rp)
		reply_end(take_ptr(&f->rp));
	finish(f);
}

static void on_error(const struct err *e, void *arg)
{
	struct forward *f = arg;

	f->call = NULL;
	give_up(f, e);
}

/* ---- tunnels ---- */

static void on_relayed(const struct relay_result *result, void *arg)
{
	struct forward *f = arg;

	(void)result;
	f->relay = NULL;
	finish(f);
}

static void on_take(struct transport *outside, struct str early, void *arg)
{
	struct forward *f = arg;
	struct relay_spec spec = {
		.a = outside, .b = f->inside, .early_a = early, .early_b = buf_str(&f->early), .done = on_relayed, .arg = f,
	};
	struct err e = { 0 };

	f->rp = NULL;
	f->relay = relay_start(f->loop, &spec, &e);
	if (!f->relay) { /* no memory: both sides see the end */
		transport_close(outside);
		finish(f);
		return;
	}
	f->inside = NULL;
	buf_done(&f->early);
	if (f->ops->tunnel)
		f->ops->tunnel(f->arg);
}

static void on_upgrade(struct transport *inside, const struct http_head *head, struct str early, void *arg)
{
	static const struct upgrade up = { .take = on_take, .gone = on_hangup };
	struct forward *f = arg;
	struct err e = { 0 };

	f->call = NULL;
	f->inside = inside;
	if (!http_list_has(http_value(head, "Upgrade"), "websocket"))
		(void)err_set(&e, ERR_IO, "an upgrade to something else");
	else if (!buf_add_str(&f->early, early))
		(void)err_no_memory(&e);
	else
		(void)f->ops->headers(f->rq, f->rp, head, f->arg, &e);
	if (e.code != ERR_NONE)
		give_up(f, &e);
	else if (reply_upgrade(f->rp, "websocket", &up, f, &e) < 0)
		give_up_busy(f);
}

/* ---- starting ---- */

struct forward *forward_start(struct request *rq, struct reply *rp, struct http_client *client, struct http_request *out,
			      const struct forward_ops *ops, void *arg, struct err *e)
{
	static const struct http_call_ops call_ops = {
		.on_head = on_head, .on_data = on_data, .on_pass = on_pass, .on_end = on_end, .on_error = on_error,
		.on_upgrade = on_upgrade,
	};
	static const struct http_body_source upload = { .proceed = on_upload_room, .stop = on_upload_unwanted };
	static const struct body_sink sink = { .data = on_upload, .end = on_upload_end, .stop = on_hangup,
					       .pass = on_upload_pass };
	bool has_upload = rq->head->framing != HTTP_NO_BODY;
	struct forward *f = calloc(1, sizeof(*f));

	if (!f) {
		(void)err_no_memory(e);
		return NULL;
	}
	*f = (struct forward){ .ops = ops, .arg = arg, .loop = request_loop(rq), .rq = rq, .rp = rp,
			       .is_head = str_is(rq->head->method, "HEAD"), .early = BUF_INIT(RELAY_EARLY_MAX) };
	if (has_upload) {
		out->source = &upload;
		out->length = rq->head->framing == HTTP_LENGTH ? rq->head->length : HTTP_UNSIZED;
	}
	f->call = http_call_start(client, out, &call_ops, f, e);
	if (!f->call) {
		forward_free(f);
		return NULL;
	}
	if (has_upload)
		request_read(rq, &sink, f);
	(void)reply_hold(rp, on_hangup, f);
	return f;
}

struct str forward_target(const struct request *rq)
{
	struct str target = rq->head->target;
	const char *mark = memchr(target.p, '?', target.n);
	char *made;

	if (rq->rest.n > 0) {
		const char *from = rq->rest.p - 1; /* with its slash */

		return (struct str){ from, (size_t)(target.p + target.n - from) };
	}
	if (!mark)
		return STR("/");
	made = arena_printf(rq->arena, "/%.*s", (int)(target.p + target.n - mark), mark);
	return str_of(made);
}
