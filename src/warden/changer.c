// SPDX-License-Identifier: Apache-2.0
#include "warden/changer.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/namespace.h"
#include "sys/netlink.h"
#include "sys/passing.h"
#include "sys/process.h"

#include "base/banned.h"

#define COMM "osb-changer" /* what an operator sees in a list of processes */
#define AGAIN_MS 500
#define END_MS 2000

/* In memory that both have; the messages say whose turn it is. */
struct shared_order {
	unsigned forget[CHANGE_FORGET_MAX];
	unsigned n_forget;
	size_t last, n;
	char bytes[NFT_BATCH_MAX];
};

/* ---- in the changer ---- */

static int work(const struct changer *c, struct netlink *nl, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(c->table);
	const struct shared_order *o = c->order;

	for (unsigned i = 0; i < o->n_forget; i++)
		if (c->forget(o->forget[i], c->arg, e) < 0)
			return -1;
	if (o->n == 0)
		return 0;
	if (nl->fd < 0 && nft_open(nl, -1, e) < 0)
		return -1;
	if (!buf_add(&batch.bytes, o->bytes, o->n))
		return err_no_memory(e);
	batch.last = o->last;
	return nft_apply(nl, &batch, e);
}

static int take_order(const struct changer *c, struct netlink *nl, int socket, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct err answer = { 0 };
	char order;
	int r = passing_recv(socket, &order, sizeof(order), 0, &got, e);

	if (r != PASSING_MESSAGE)
		return r == PASSING_NONE ? 0 : -1;
	if (work(c, nl, &answer) == 0)
		answer = (struct err){ 0 };
	return passing_send(socket, &answer, sizeof(answer), NULL, 0, e) == 1 ? 0 : -1; /* there is one at a time: it has room */
}

static _Noreturn void run(const struct changer *c, pid_t parent, int socket)
{
	struct pollfd p = { .fd = socket, .events = POLLIN };
	struct netlink nl = NETLINK_INIT;
	struct err e = { 0 };
	int keep[] = { socket };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent || close_others(keep, 1, &e) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, COMM, 0, 0, 0);
	while (take_order(c, &nl, socket, &e) == 0)
		(void)poll(&p, 1, -1);
	_exit(0);
}

/* ---- in the warden ---- */

static void stop(struct changer *c)
{
	io_del(&c->io);
	closep(&c->socket);
	if (c->pidfd >= 0)
		(void)process_kill_and_wait(c->pidfd, END_MS, &(struct process_end){ 0 }, &(struct err){ 0 });
	closep(&c->pidfd);
	c->socket = c->pidfd = -1;
	c->is_sent = false;
}

static void finish(struct changer *c, struct change *what, const struct err *failure)
{
	if (c->running == what)
		c->running = NULL;
	what->is_asked = false;
	what->done(what, failure);
}

static void start_next(struct changer *c);

static void on_answer(unsigned ready, void *arg)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct changer *c = arg;
	struct err answer, e = { 0 };
	int r = passing_recv(c->socket, &answer, sizeof(answer), 0, &got, &e);

	(void)ready;
	if (r == PASSING_NONE)
		return;
	if (r != PASSING_MESSAGE || got.n != sizeof(answer) || !c->running) {
		log_error("the changer of rules has ended");
		stop(c);
		timer_in(&c->again, AGAIN_MS);
		return;
	}
	answer.msg[sizeof(answer.msg) - 1] = '\0';
	c->is_sent = false;
	finish(c, c->running, answer.code == ERR_NONE ? NULL : &answer);
	start_next(c);
}

static int start(struct changer *c, struct err *e)
{
	AUTO_FD theirs = -1;
	pid_t parent = getpid(), pid;
	int pair[2];

	if (c->socket >= 0)
		return 0;
	if (passing_pair(pair, e) < 0)
		return -1;
	c->socket = pair[0];
	theirs = pair[1];
	pid = namespace_clone(0, -1, &c->pidfd, e);
	if (pid == 0)
		run(c, parent, theirs);
	if (pid < 0 || io_add(&c->io, c->loop, c->socket, IO_IN, on_answer, c, "changer of rules", e) < 0) {
		stop(c);
		return err_wrap(e, "start the changer of rules");
	}
	return 0;
}

/* What does not arrive is sent to the next one. */
static void send_order(struct changer *c)
{
	const char order = 0;
	struct err e = { 0 };

	if (c->is_sent || !c->running)
		return;
	if (start(c, &e) == 0 && passing_send(c->socket, &order, sizeof(order), NULL, 0, &e) == 1) {
		c->is_sent = true;
		return;
	}
	log_error("rules of the network cannot be changed, trying again", LOG_ERR(&e));
	stop(c);
	timer_in(&c->again, AGAIN_MS);
}

static void on_again(void *arg)
{
	send_order(arg);
}

static void prepare(struct changer *c, struct change *what)
{
	struct change_plan p = { .batch = NFT_BATCH_INIT(c->table) };
	struct shared_order *o = c->order;
	struct err e;

	what->build(what, &p);
	if (p.batch.bytes.failed) {
		(void)err_set(&e, ERR_LIMIT, "a change of more than %d bytes", NFT_BATCH_MAX);
		finish(c, what, &e);
	} else if (p.batch.last == 0 && p.n_forget == 0) {
		finish(c, what, NULL);
	} else {
		memcpy(o->forget, p.forget, p.n_forget * sizeof(p.forget[0]));
		o->n_forget = p.n_forget;
		o->last = p.batch.last;
		o->n = p.batch.bytes.n;
		if (o->n > 0)
			memcpy(o->bytes, p.batch.bytes.p, o->n);
		c->running = what;
		send_order(c);
	}
	nft_batch_done(&p.batch);
}

static void start_next(struct changer *c)
{
	while (!c->running && c->first) {
		struct change *what = c->first;

		c->first = what->next;
		if (!c->first)
			c->last = NULL;
		prepare(c, what);
	}
}

static void on_next(void *arg)
{
	start_next(arg);
}

void changer_ask(struct changer *c, struct change *what)
{
	if (what->is_asked || c->is_over)
		return;
	what->is_asked = true;
	what->next = NULL;
	if (c->last)
		c->last->next = what;
	else
		c->first = what;
	c->last = what;
	if (!c->running)
		defer(&c->next, c->loop, on_next, c, "changes of rules");
}

int changer_open(struct changer *c, struct loop *l, const char *table, change_forget_fn *forget, void *arg, struct err *e)
{
	void *order = mmap(NULL, sizeof(*c->order), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (order == MAP_FAILED)
		return err_no_memory(e);
	*c = (struct changer){ .loop = l, .table = table, .forget = forget, .arg = arg, .pidfd = -1, .socket = -1, .order = order };
	return timer_init(&c->again, l, on_again, c, "changer of rules", e);
}

void changer_done(struct changer *c)
{
	struct err stopping = { 0 };
	struct change *what;

	if (!c->order)
		return;
	(void)err_set(&stopping, ERR_UNAVAILABLE, "stopping");
	c->is_over = true;
	stop(c);
	timer_done(&c->again);
	defer_cancel(&c->next);
	if (c->running)
		finish(c, c->running, &stopping);
	while ((what = c->first)) {
		c->first = what->next;
		finish(c, what, &stopping);
	}
	(void)munmap(c->order, sizeof(*c->order));
	c->order = NULL;
}
