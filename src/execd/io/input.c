// SPDX-License-Identifier: Apache-2.0
#include "execd/io/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "execd/budget.h"
#include "sys/fd.h"

#include "base/banned.h"

/* What has been written, or never will be, needs no room; the pipe does as long as it may be read. */
static void stop_feeding(struct input *in)
{
	io_del(&in->io);
	closep(&in->fd);
	in->fd = -1;
	free(in->bytes);
	in->bytes = NULL;
	if (in->granted > INPUT_PIPE) {
		budget_give(in->budget, in->granted - INPUT_PIPE);
		in->granted = INPUT_PIPE;
	}
}

void input_done(struct input *in)
{
	if (!in->budget)
		return;
	stop_feeding(in);
	budget_give(in->budget, in->granted);
	*in = INPUT_INIT;
}

/* One who does not read any more (EPIPE) has had enough. */
static void feed(struct input *in)
{
	ssize_t n = 0;

	while (in->at < in->n && n >= 0) {
		n = write(in->fd, in->bytes + in->at, in->n - in->at);
		if (n > 0)
			in->at += (size_t)n;
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		stop_feeding(in);
}

static void on_room(unsigned ready, void *arg)
{
	(void)ready;
	feed(arg);
}

static int take_room(struct input *in, struct str text, struct err *e)
{
	if (!budget_take(in->budget, INPUT_PIPE + text.n))
		return err_set(e, ERR_UNAVAILABLE, "no room for the input");
	in->granted = INPUT_PIPE + text.n;
	in->bytes = malloc(text.n);
	if (!in->bytes)
		return err_no_memory(e);
	memcpy(in->bytes, text.p, text.n);
	in->n = text.n;
	return 0;
}

/* A pipe that would be larger than what is paid for is none. */
static int make_pipe(struct input *in, int *ret_read, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	in->fd = ends[1];
	*ret_read = ends[0];
	if (fcntl(in->fd, F_SETPIPE_SZ, (int)INPUT_PIPE) < 0)
		return err_sys(e, errno, "make a pipe smaller");
	return fd_set_nonblock(in->fd, true, e);
}

int input_open(struct input *in, struct loop *l, struct budget *budget, struct str text, int *ret_read, struct err *e)
{
	AUTO_FD rd = -1;

	*in = INPUT_INIT;
	in->budget = budget;
	if (take_room(in, text, e) < 0 || make_pipe(in, &rd, e) < 0 ||
	    io_add(&in->io, l, in->fd, IO_OUT, on_room, in, "input", e) < 0) {
		input_done(in);
		return -1;
	}
	feed(in);
	*ret_read = take_fd(&rd);
	return 0;
}
