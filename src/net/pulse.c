// SPDX-License-Identifier: Apache-2.0
#include "net/pulse.h"

#include <unistd.h>

#include "base/err.h"
#include "sys/fd.h"

#include "base/banned.h"

/* A reader that is away finds enough in a full pipe. */
static void beat(void *arg)
{
	struct pulse *p = arg;

	(void)!write(p->fd, "1", 1);
	timer_in(&p->timer, PULSE_MS);
}

int pulse_start(struct pulse *p, struct loop *l, int *fd, struct err *e)
{
	if (fd_set_cloexec(*fd, true, e) < 0 || fd_set_nonblock(*fd, true, e) < 0 ||
	    timer_init(&p->timer, l, beat, p, "pulse", e) < 0)
		return -1;
	p->fd = take_fd(fd);
	beat(p);
	return 0;
}

void pulse_done(struct pulse *p)
{
	timer_done(&p->timer);
	closep(&p->fd);
	p->fd = -1;
}
