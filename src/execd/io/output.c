// SPDX-License-Identifier: Apache-2.0
#include "execd/io/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/rfc3339.h"

#include "base/banned.h"

#define ROOM_FOR_TIME 64

/* ---- segments ---- */

/* To its place in the file, whatever flags the descriptor came with: O_APPEND writes there as well. */
static bool write_line(struct segments *sg, struct str line)
{
	ssize_t n;

	do
		n = pwrite(sg->fds[sg->at], line.p, line.n, (off_t)sg->used);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		sg->used += (size_t)n;
	return n == (ssize_t)line.n;
}

void segments_add(struct segments *sg, struct str line)
{
	bool was_lost = sg->is_lost;

	if (sg->fds[0] < 0 || sg->fds[1] < 0)
		return;
	if (line.n > sg->max - sg->used) {
		sg->at = !sg->at;
		sg->used = 0;
		(void)!ftruncate(sg->fds[sg->at], 0); /* what stays behind is overwritten */
	}
	sg->is_lost = !write_line(sg, line);
	if (sg->is_lost && !was_lost)
		log_warn("the output of the entrypoint cannot be written, dropping it");
}

/* ---- lines ---- */

/* LF after any text; the text of an empty line is a line end already. */
static void add_line(struct output *o, struct str text)
{
	char now[RFC3339_SIZE];

	buf_clear(&o->line);
	buf_add(&o->line, now, rfc3339_format_ns(clock_wall(), now));
	buf_add_char(&o->line, ' ');
	if (!str_eq(text, STR("\n")))
		buf_add_str(&o->line, text);
	if (buf_add_char(&o->line, '\n'))
		segments_add(&o->segments, buf_str(&o->line));
}

static void take_lines(struct output_pipe *p, bool is_last)
{
	enum lines_mode mode = is_last ? LINES_LAST : p->in.n >= OUTPUT_LINE_MAX ? LINES_CUT : LINES_WHOLE;
	struct str in = buf_str(&p->in), text;
	size_t used;

	while (lines_next(&p->lines, in, mode, &text, &used)) {
		add_line(p->of, text);
		in = str_skip(in, used);
		if (mode == LINES_CUT)
			mode = LINES_WHOLE;
	}
	in = str_skip(in, used);
	buf_consume(&p->in, p->in.n - in.n);
}

static void pipe_close(struct output_pipe *p)
{
	take_lines(p, true);
	io_del(&p->io);
	closep(&p->fd);
	p->fd = -1;
	buf_done(&p->in);
}

/* One piece. False when there is nothing (more) at the moment. */
static bool pipe_read(struct output_pipe *p)
{
	size_t room = OUTPUT_LINE_MAX - p->in.n;
	char *at = buf_reserve(&p->in, room);
	ssize_t n = at ? read(p->fd, at, room) : -1;

	if (n > 0) {
		buf_commit(&p->in, (size_t)n);
		take_lines(p, false);
		return true;
	}
	if (n == 0 || (at && errno != EAGAIN && errno != EINTR))
		pipe_close(p);
	return false;
}

static void on_readable(unsigned ready, void *arg)
{
	(void)ready;
	(void)pipe_read(arg);
}

/* ---- the whole ---- */

void output_init(struct output *o, struct loop *l, const struct segments *segments)
{
	*o = (struct output){ .loop = l, .segments = *segments, .line = BUF_INIT(OUTPUT_LINE_MAX + ROOM_FOR_TIME) };
	for (int i = 0; i < 2; i++) {
		struct output_pipe *p = &o->pipes[i];

		p->of = o;
		p->fd = -1;
		p->in = BUF_INIT(OUTPUT_LINE_MAX);
	}
}

int output_open(struct output *o, int ret_fds[2], struct err *e)
{
	AUTO_FD first = -1;
	int out[2];

	for (int i = 0; i < 2; i++) {
		struct output_pipe *p = &o->pipes[i];
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_sys(e, errno, "create a pipe");
		p->fd = ends[0];
		out[i] = ends[1];
		if (fcntl(p->fd, F_SETFL, O_NONBLOCK) < 0 ||
		    io_add(&p->io, o->loop, p->fd, IO_IN, on_readable, p, "entrypoint output", e) < 0) {
			(void)close(out[i]);
			return -1;
		}
		if (i == 0)
			first = out[0];
	}
	ret_fds[0] = take_fd(&first);
	ret_fds[1] = out[1];
	return 0;
}

/* No more than there is now: others may go on writing for ever. */
void output_collect(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		struct output_pipe *p = &o->pipes[i];
		int there = 0;
		size_t pieces;

		if (p->fd < 0 || ioctl(p->fd, FIONREAD, &there) < 0)
			continue;
		pieces = (size_t)there / 4096 + 2;
		while (pieces-- > 0 && p->fd >= 0 && pipe_read(p))
			;
	}
}

void output_done(struct output *o)
{
	for (int i = 0; i < 2; i++)
		if (o->pipes[i].fd >= 0)
			pipe_close(&o->pipes[i]);
	buf_done(&o->line);
}
