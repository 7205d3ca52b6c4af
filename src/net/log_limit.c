// SPDX-License-Identifier: Apache-2.0
#include "net/log_limit.h"

#include "base/err.h"

#include "base/banned.h"

static void tell(struct log_limit *l)
{
	uint64_t n = l->left_out;

	l->left_out = 0;
	l->lines = 0;
	if (n == 0)
		return;
	log_at(l->level, "lines were left out of the log", LOG_S("about", l->what), LOG_U("lines", n));
	if (l->told)
		l->told(l->what, n, l->arg);
}

static void on_window(void *arg)
{
	tell(arg);
}

bool log_limit_admits(struct log_limit *l, struct loop *loop)
{
	struct err e = { 0 };

	if (!l->window.loop && timer_init(&l->window, loop, on_window, l, "log limit", &e) < 0)
		return true; /* there is no memory for a timer, and nobody would tell what is missing */
	if (l->lines == 0)
		timer_in(&l->window, LOG_LIMIT_MS);
	if (l->lines < LOG_LIMIT_LINES) {
		l->lines++;
		return true;
	}
	l->left_out++;
	return false;
}

void log_limit_done(struct log_limit *l)
{
	tell(l);
	timer_done(&l->window);
}
