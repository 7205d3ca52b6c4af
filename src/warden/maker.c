// SPDX-License-Identifier: Apache-2.0
#include "warden/maker.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/own.h"
#include "box/host.h"
#include "sys/fd.h"
#include "sys/limits.h"
#include "sys/namespace.h"
#include "sys/passing.h"
#include "sys/process.h"
#include "sys/process_stat.h"

#include "base/banned.h"

#define STRANGERS_MS 1000
#define COMM "osb-maker" /* what an operator sees in a list of processes */
#define END_MS 5000

/* The descriptors of `slot` come with it, in the order of slot_fds(); -1 where there is none. */
struct made {
	uint32_t number;
	struct err failure; /* ERR_NONE: there is none */
	struct slot slot;
};

/* ---- in the maker ---- */

/* It begins with all that the warden has, boxes of others among it: they would be kept from being gone. */
static int keep_own(const struct box_host *h, int socket, struct err *e)
{
	int fds[4 + 3 * CGROUP_HIERARCHIES_MAX];
	size_t n = 0;

	fds[n++] = socket;
	fds[n++] = h->execd;
	fds[n++] = h->boxes;
	fds[n++] = h->store.disks;
	for (size_t i = 0; i < h->layout.n; i++) {
		fds[n++] = h->layout.at[i].dir;
		fds[n++] = h->top.dirs[i];
	}
	for (size_t i = 0; i < h->shared.n; i++)
		fds[n++] = h->shared.fds[i];
	return close_others(fds, n, e);
}

static int send_made(int socket, struct made *m, struct err *e)
{
	int *fields[SLOT_FDS_MAX], fds[SLOT_FDS_MAX];
	size_t n = slot_fds(&m->slot, fields), n_fds = 0;

	for (size_t i = 0; i < n; i++)
		if (*fields[i] >= 0)
			fds[n_fds++] = *fields[i];
	for (;;) {
		struct pollfd p = { .fd = socket, .events = POLLOUT };
		int r = passing_send(socket, m, sizeof(*m), fds, n_fds, e);

		if (r != 0)
			return r < 0 ? -1 : 0;
		(void)poll(&p, 1, -1);
	}
}

static int take_order(const struct box_host *h, int socket, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct made m = { .slot = SLOT_INIT };
	struct process_stat stat;
	struct maker_order o;
	int r = passing_recv(socket, &o, sizeof(o), 0, &got, e);

	if (r != PASSING_MESSAGE || got.n != sizeof(o))
		return r == PASSING_NONE ? 0 : -1;
	m.number = o.number;
	if (slot_make(h, o.number, &o.guess, &m.slot, &m.failure) == 0) {
		if (process_stat_read(m.slot.pid, &stat, &(struct err){ 0 }) == 0) /* the warden reads it otherwise */
			m.slot.pid_start = stat.start;
		closep(&m.slot.userns); /* the parked child has these two */
		closep(&m.slot.listener);
		m.slot.userns = m.slot.listener = -1;
	}
	r = send_made(socket, &m, e);
	slot_done(&m.slot);
	return r;
}

/* Holds the rights of the warden, and of its descriptors only those that making needs. */
static _Noreturn void run(const struct maker *m, pid_t parent, int socket)
{
	struct pollfd p = { .fd = socket, .events = POLLIN };
	struct box_host host = *m->host;
	struct err e = { 0 };

	host.for_parent = true;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent || keep_own(&host, socket, &e) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, COMM, 0, 0, 0);
	limits_raise(RLIMIT_NOFILE); /* whatever the warden had at that moment */
	while (take_order(&host, socket, &e) == 0)
		(void)poll(&p, 1, -1);
	_exit(0);
}

/* ---- in the warden ---- */

static void stop(struct maker *m)
{
	io_del(&m->io);
	closep(&m->socket);
	if (m->pidfd >= 0)
		(void)process_kill_and_wait(m->pidfd, END_MS, &(struct process_end){ 0 }, &(struct err){ 0 });
	closep(&m->pidfd);
	m->socket = m->pidfd = -1;
}

/* Peeked at first: the other children are collected by whom they belong to. */
static void on_strangers(void *arg)
{
	struct maker *m = arg;
	siginfo_t si = { 0 };

	while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid != 0) {
		if (m->is_known(si.si_pid, m->arg)) {
			timer_in(&m->strangers, STRANGERS_MS);
			return;
		}
		(void)waitid(P_PID, (id_t)si.si_pid, &si, WEXITED | WNOHANG);
		si = (siginfo_t){ 0 };
	}
}

/* With all that it was asked for. */
static void give_up(struct maker *m, const struct err *why)
{
	struct maker_order asked[MAKER_ASKED_MAX];
	unsigned n = m->n_asked;

	memcpy(asked, m->asked, sizeof(asked));
	m->n_asked = 0;
	stop(m);
	timer_in(&m->strangers, STRANGERS_MS);
	for (unsigned i = 0; i < n; i++)
		m->fn(asked[i].number, NULL, why, m->arg);
}

static void on_death(struct maker *m, const struct err *why)
{
	log_error("the maker of slots has ended", LOG_ERR(why));
	m->deaths++;
	give_up(m, why);
}

/* False for what no maker sends. */
static bool take_slot(struct maker *m, struct made *made, struct passed *got)
{
	int *fields[SLOT_FDS_MAX];
	size_t n = slot_fds(&made->slot, fields), at = 0;

	for (size_t i = 0; i < n; i++)
		if (*fields[i] >= 0)
			*fields[i] = at < got->n_fds ? take_fd(&got->fds[at++]) : -1;
	slot_set_layout(&made->slot, &m->host->layout);
	return at == got->n_fds && m->n_asked > 0 && m->asked[0].number == made->number;
}

static int receive(struct maker *m, struct made *made, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	int r = passing_recv(m->socket, made, sizeof(*made), SLOT_FDS_MAX, &got, e);

	if (r == PASSING_NONE)
		return 0;
	if (r == PASSING_END)
		return err_set(e, ERR_UNAVAILABLE, "the maker of slots has ended");
	if (r < 0)
		return -1;
	if (got.n == sizeof(*made) && take_slot(m, made, &got))
		return 1;
	return err_set(e, ERR_INTERNAL, "the maker of slots sent something else");
}

static void on_made(unsigned ready, void *arg)
{
	struct maker *m = arg;
	struct made made;
	struct err e = { 0 };
	int r = receive(m, &made, &e);

	(void)ready;
	if (r < 0)
		on_death(m, &e);
	if (r <= 0)
		return;
	m->deaths = 0;
	/* Its limit of descriptors is from when it was started: the next one has what there is now. */
	if (made.failure.sys == EMFILE) {
		give_up(m, &made.failure);
		return;
	}
	m->n_asked--;
	memmove(m->asked, m->asked + 1, m->n_asked * sizeof(m->asked[0]));
	if (made.failure.code != ERR_NONE)
		m->fn(made.number, NULL, &made.failure, m->arg);
	else
		m->fn(made.number, &made.slot, NULL, m->arg);
}

int maker_start(struct maker *m, struct err *e)
{
	AUTO_FD theirs = -1;
	pid_t parent = getpid(), pid;
	int pair[2];

	if (m->socket >= 0)
		return 0;
	if (passing_pair(pair, e) < 0)
		return -1;
	m->socket = pair[0];
	theirs = pair[1];
	pid = namespace_clone(0, -1, &m->pidfd, e);
	if (pid == 0)
		run(m, parent, theirs);
	if (pid < 0 || io_add(&m->io, m->loop, m->socket, IO_IN, on_made, m, "maker of slots", e) < 0) {
		stop(m);
		return err_wrap(e, "start the maker of slots");
	}
	return 0;
}

int maker_ask(struct maker *m, unsigned number, const struct slot_guess *guess, struct err *e)
{
	struct maker_order o = { .number = number, .guess = *guess };

	if (m->n_asked >= MAKER_ASKED_MAX)
		return err_set(e, ERR_LIMIT, "more than %d slots are being made", MAKER_ASKED_MAX);
	if (maker_start(m, e) < 0)
		return -1;
	/* One that has ended is about to be told as such, and this number with the others. */
	if (passing_send(m->socket, &o, sizeof(o), NULL, 0, &(struct err){ 0 }) == 0)
		return err_set(e, ERR_UNAVAILABLE, "the maker of slots does not listen");
	m->asked[m->n_asked++] = o;
	return 0;
}

int maker_init(struct maker *m, const struct box_host *host, struct loop *l, maker_fn *fn,
	       bool (*is_known)(pid_t pid, void *arg), void *arg, struct err *e)
{
	*m = (struct maker){ .host = host, .loop = l, .fn = fn, .is_known = is_known, .arg = arg, .pidfd = -1, .socket = -1 };
	return timer_init(&m->strangers, l, on_strangers, m, "strangers", e);
}

size_t maker_done(struct maker *m, unsigned ret[MAKER_ASKED_MAX])
{
	if (!m->loop)
		return 0;
	stop(m);
	timer_done(&m->strangers);
	for (unsigned i = 0; i < m->n_asked; i++)
		ret[i] = m->asked[i].number;
	return m->n_asked;
}
