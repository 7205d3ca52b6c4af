// SPDX-License-Identifier: Apache-2.0
#include "execd/io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/io/drain.h"
#include "execd/io/tail_file.h"

#include "base/banned.h"

/* ---- its pipe ---- */

int stream_open(struct stream *s, struct loop *l, int fd, io_fn *fn, void *arg, struct err *e)
{
	s->fd = fd;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe non-blocking");
	return io_add(&s->io, l, fd, IO_IN, fn, arg, "output", e);
}

/* Not by asking for nothing: that its writers are gone is told all the time, whether anybody wants to know or not. What
 * cannot be watched for now is tried again with the next event. */
void stream_watch(struct stream *s, struct loop *l, bool wanted)
{
	struct err e = { 0 };

	if (!wanted)
		io_del(&s->io);
	else if (!s->io.loop && io_add(&s->io, l, s->fd, IO_IN, s->io.fn, s->io.arg, s->io.name, &e) < 0)
		log_warn("a program's output is not read for a while, ignoring", LOG_ERR(&e));
}

void stream_forget(struct stream *s)
{
	buf_done(&s->in);
	s->at = 0;
	if (s->granted > 0)
		budget_give(s->budget, s->granted);
	s->granted = 0;
}

/* Whoever else has the pipe may go on writing to it. */
static void give_away(struct stream *s)
{
	io_del(&s->io);
	if (s->fd >= 0)
		drains_take(s->drains, &s->fd);
}

void stream_done(struct stream *s)
{
	give_away(s);
	stream_forget(s);
}

int stream_take(struct stream *s)
{
	io_del(&s->io);
	return take_fd(&s->fd);
}

void stream_finish(struct stream *s)
{
	s->is_bounded = true;
	s->left = 0;
}

static void at_end(struct stream *s)
{
	io_del(&s->io);
	closep(&s->fd);
	s->fd = -1;
	stream_finish(s);
}

void stream_bound(struct stream *s)
{
	int there = 0;

	if (s->is_bounded)
		return;
	if (s->fd >= 0 && ioctl(s->fd, FIONREAD, &there) < 0)
		there = 0;
	s->is_bounded = true;
	s->left = (size_t)there;
}

bool stream_is_over(const struct stream *s)
{
	return s->is_bounded && s->left == 0;
}

bool stream_is_said(const struct stream *s)
{
	return stream_is_over(s) && s->at >= s->in.n;
}

/* ---- input ---- */

static size_t capacity(const struct stream *s)
{
	return STREAM_BASE + s->granted;
}

/* More room for the input, by the budget's leave. */
static bool widen(struct stream *s, size_t to)
{
	size_t have = capacity(s);

	to = MIN(to, STREAM_LINE_MAX);
	if (to <= have || !budget_take_spare(s->budget, to - have))
		return false;
	s->granted += to - have;
	return true;
}

static void compact(struct stream *s)
{
	buf_consume(&s->in, s->at);
	s->at = 0;
	if (s->in.n == 0)
		stream_forget(s);
}

/* How much to read now; 0: it is full. */
static size_t room(struct stream *s)
{
	size_t want;

	compact(s);
	if (s->in.n == 0)
		(void)widen(s, STREAM_READ);
	else if (s->in.n >= capacity(s))
		(void)widen(s, 2 * capacity(s));
	want = capacity(s) - s->in.n;
	return s->is_bounded ? MIN(want, s->left) : want;
}

static void keep(const struct stream *s, const char *p, size_t n)
{
	if (s->tail)
		tail_file_add(s->tail, (struct str){ p, n });
}

bool stream_fill(struct stream *s)
{
	size_t want = s->fd >= 0 ? room(s) : 0;
	char *p = NULL;
	ssize_t n;

	if (want == 0)
		return false;
	s->in.max = capacity(s);
	p = buf_reserve(&s->in, want);
	if (!p) { /* no memory: it stays in the pipe until there is some */
		s->in.failed = false;
		return false;
	}
	n = read(s->fd, p, want);
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			at_end(s);
		else if (s->is_bounded) /* somebody who has the pipe as well took what was there */
			s->left = 0;
		if (s->in.n == 0)
			stream_forget(s);
		return n == 0;
	}
	keep(s, p, (size_t)n);
	buf_commit(&s->in, (size_t)n);
	if (s->is_bounded)
		s->left -= (size_t)n;
	return true;
}

void stream_drop(struct stream *s)
{
	ssize_t n = read(s->fd, s->drains->scratch, sizeof(s->drains->scratch));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		at_end(s);
	else if (n > 0)
		keep(s, s->drains->scratch, (size_t)n);
}

/* ---- texts ---- */

static enum lines_mode mode_of(const struct stream *s)
{
	if (stream_is_over(s))
		return LINES_LAST;
	return s->in.n - s->at >= capacity(s) && s->at == 0 ? LINES_CUT : LINES_WHOLE;
}

bool stream_next(struct stream *s, struct stream_text *ret)
{
	struct str in = str_skip(buf_str(&s->in), s->at);
	enum lines_mode mode = mode_of(s);

	*ret = (struct stream_text){ .before = s->lines };
	if (mode == LINES_CUT && widen(s, 2 * capacity(s)))
		mode = LINES_WHOLE; /* there is room for more of this line */
	if (!lines_next(&s->lines, in, mode, &ret->text, &ret->used)) {
		s->at += ret->used;
		return false;
	}
	ret->skipped = ret->text.p >= in.p && ret->text.p <= in.p + in.n ? (size_t)(ret->text.p - in.p) : 0;
	return true;
}

void stream_use(struct stream *s, const struct stream_text *t)
{
	s->at += t->used;
}

void stream_use_part(struct stream *s, const struct stream_text *t, size_t n)
{
	s->lines = (struct lines){ .is_continued = true };
	s->at += t->skipped + n;
}

void stream_put_back(struct stream *s, const struct stream_text *t)
{
	s->lines = t->before;
}
