// SPDX-License-Identifier: Apache-2.0
#include "egress/keeper.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/random.h"
#include "box/network_rules.h"
#include "egress/keeper_rules.h"
#include "egress/sidecar.h"
#include "egress/sockets.h"
#include "sys/memfd.h"
#include "sys/nft.h"
#include "sys/passing.h"
#include "sys/process.h"
#include "sys/signals.h"

#include "base/banned.h"

#define TABLE_TEXT_MAX ((size_t)256 * 1024)
#define BACKLOG 512
#define BIND_SERIAL 1
#define END_MS 5000
#define MARK_BIT UINT32_C(0x40000000) /* so that it is never 0 */

enum { SOURCE_SIGNALS, SOURCE_CHILD, SOURCE_LINK, SOURCE_SOCKETS, SOURCES };

struct keeper {
	struct sidecar *s;
	int (*run)(const struct egress_options *o);
	struct keeper_rules rules;
	uint32_t mark;
	int n_rules;           /* of the table, as it was written */
	int listen[EGRESS_FDS]; /* of HELLO */
	int policy;            /* the sealed text of BIND */
	int signals, child, link, sockets; /* -1: not there */
	pid_t pid;
	uint64_t started_ms, again_ms, check_ms; /* when; 0: never */
	unsigned pause_ms;
	bool was_bound;        /* once: from then on it is started again, whatever happens */
	struct egress_message in;
	unsigned char bytes[sizeof(struct egress_message)];
};

static uint64_t now_ms(void)
{
	return clock_mono_us() / 1000;
}

/* ---- the table ---- */

static int write_table(struct keeper *k, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TABLE_TEXT_MAX);

	sidecar_table(k->s, k->mark, &text);
	if (text.failed)
		return err_set(e, ERR_LIMIT, "the rules have more than %zu bytes", TABLE_TEXT_MAX);
	if (network_rules_write(buf_str(&text), e) < 0)
		return err_wrap(e, "write the rules (which needs CAP_NET_ADMIN)");
	k->n_rules = nft_count_rules(&k->rules.nft, SIDECAR_TABLE, e);
	return k->n_rules < 0 ? -1 : 0;
}

/* Others translate what the sandbox sends, too: ours go first, but somebody should know (E26). */
static void look_for_others(struct keeper *k)
{
	struct err e = { 0 };
	int n = nft_count_output_nat(&k->rules.nft, SIDECAR_TABLE, &e);

	if (n > 0)
		log_warn("others redirect what leaves this network: ours go before theirs", LOG_D("chains", n));
	if (n < 0)
		log_warn("cannot look for redirects of others", LOG_ERR(&e));
}

/* ---- the sockets of egress ---- */

static int open_socket(int type, const struct addr *at, struct err *e)
{
	AUTO_FD fd = socket(at->sa.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[ADDR_TEXT_MAX];
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, &at->sa, at->len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return err_sys(e, errno, "listen at '%s'", sockaddr_format(&at->sa, at->len, text));
	return take_fd(&fd);
}

static int open_local(int type, uint16_t port, struct err *e)
{
	struct addr at = { .len = sizeof(at.in) };

	at.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	return open_socket(type, &at, e);
}

static int open_sockets(struct keeper *k, struct err *e)
{
	k->listen[0] = open_local(SOCK_DGRAM, SIDECAR_RESOLVER_PORT, e);
	k->listen[1] = k->listen[0] < 0 ? -1 : open_local(SOCK_STREAM, SIDECAR_RESOLVER_PORT, e);
	k->listen[2] = k->listen[1] < 0 ? -1 : open_local(SOCK_STREAM, SIDECAR_RELAY_PORT, e);
	if (k->listen[2] < 0)
		return -1;
	k->s->egress.api = open_socket(SOCK_STREAM, &k->s->api, e);
	return k->s->egress.api < 0 ? -1 : 0;
}

/* ---- the other process ---- */

/* Never returns. What it needs of ours it has by number. */
static void be_child(struct keeper *k, int *link, int *sockets, pid_t parent)
{
	struct egress_options *o = &k->s->egress;

	o->warden_fd = take_fd(link);
	o->sockets_fd = take_fd(sockets);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	closep(&k->signals);
	closep(&k->policy);
	for (size_t i = 0; i < EGRESS_FDS; i++)
		closep(&k->listen[i]); /* they come with HELLO */
	keeper_rules_done(&k->rules);
	exit(k->run(o));
}

static int send_message(struct keeper *k, struct egress_message *m, const int *fds, size_t n_fds, struct err *e)
{
	int r;

	m->version = EGRESS_WIRE_VERSION;
	r = passing_send(k->link, m, egress_message_size(m), fds, n_fds, e);
	return r == 0 ? err_set(e, ERR_LIMIT, "egress does not read") : r;
}

static int greet(struct keeper *k, struct err *e)
{
	struct egress_message hello = { .call = EGRESS_HELLO }, synced = { .call = EGRESS_SYNCED };
	struct egress_message bind = { .call = EGRESS_BIND, .serial = BIND_SERIAL, .network = WIRE_NET_POLICY, .address = EGRESS_ONLY };

	memcpy(bind.id, k->s->id, sizeof(bind.id));
	if (send_message(k, &hello, k->listen, EGRESS_FDS, e) < 0 || send_message(k, &bind, &k->policy, 1, e) < 0)
		return -1;
	return send_message(k, &synced, NULL, 0, e) < 0 ? -1 : 0;
}

static int start(struct keeper *k, struct err *e)
{
	int link[2] = { -1, -1 }, sockets[2] = { -1, -1 };
	pid_t self = getpid();

	/* The next one does not know what this one has learned, and could not take it back. */
	if (keeper_rules_forget(&k->rules, e) < 0 || passing_pair(link, e) < 0)
		return -1;
	k->link = link[0];
	if (passing_pair(sockets, e) < 0) {
		closep(&link[1]);
		return -1;
	}
	k->sockets = sockets[0];
	k->started_ms = now_ms();
	k->pid = fork();
	if (k->pid == 0)
		be_child(k, &link[1], &sockets[1], self);
	closep(&link[1]);
	closep(&sockets[1]);
	if (k->pid < 0)
		return err_sys(e, errno, "start egress");
	k->child = (int)syscall(SYS_pidfd_open, k->pid, 0);
	return k->child < 0 ? err_sys(e, errno, "follow egress") : greet(k, e);
}

/* Whatever it was, the rules hold on and nothing new is let through. */
static void stop(struct keeper *k)
{
	struct process_end end = { 0 };

	if (k->child >= 0)
		(void)process_kill_and_wait(k->child, END_MS, &end, &(struct err){ 0 });
	else if (k->pid > 0 && kill(k->pid, SIGKILL) == 0)
		(void)waitpid(k->pid, NULL, 0);
	closep(&k->child);
	closep(&k->link);
	closep(&k->sockets);
	k->child = k->link = k->sockets = -1;
	k->pid = 0;
	k->pause_ms = now_ms() - k->started_ms >= KEEPER_STABLE_MS || k->pause_ms == 0 ? KEEPER_AGAIN_MS :
		      MIN(2 * k->pause_ms, (unsigned)KEEPER_AGAIN_MAX_MS);
	k->again_ms = now_ms() + k->pause_ms;
}

/* ---- what egress asks for ---- */

static int on_bound(struct keeper *k, const struct egress_message *m, struct err *e)
{
	if (m->failed && !k->was_bound) {
		*e = m->err;
		return -1;
	}
	if (m->failed)
		log_error("the policy is not in force, everything new is denied", LOG_ERR(&m->err));
	else if (!k->was_bound)
		log_info("the policy is in force", LOG_S("opensandbox.event", "egress.loaded"), LOG_S("sandbox_id", k->s->id));
	k->was_bound |= !m->failed;
	return 0;
}

static int answer(struct keeper *k, const struct egress_message *m, struct err *e)
{
	struct egress_message done = { .call = EGRESS_DONE, .serial = m->serial };

	if (keeper_rules_apply(&k->rules, m, &done.err) < 0) {
		log_warn("cannot do what egress asks for", LOG_U("call", m->call), LOG_ERR(&done.err));
		done.failed = 1;
	}
	return m->serial > 0 && send_message(k, &done, NULL, 0, e) < 0 ? -1 : 0;
}

/* 1: there may be more; 0: not now; -1. */
static int receive(struct keeper *k, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	int r = passing_recv(k->link, k->bytes, sizeof(k->bytes), 0, &got, e);

	if (r == PASSING_END)
		return err_set(e, ERR_UNAVAILABLE, "egress has ended");
	if (r != PASSING_MESSAGE)
		return r < 0 ? -1 : 0;
	if (egress_message_check(k->bytes, got.n, got.n_fds, true, &k->in, e) < 0)
		return -1;
	r = k->in.call == EGRESS_BOUND ? on_bound(k, &k->in, e) : answer(k, &k->in, e);
	return r < 0 ? -1 : 1;
}

/* ---- the machine ---- */

static int on_ready(struct keeper *k, const struct pollfd *ready, struct err *e)
{
	int r = 1;

	while (ready[SOURCE_LINK].revents && r > 0)
		r = receive(k, e);
	if (r >= 0 && ready[SOURCE_SOCKETS].revents)
		r = sockets_serve(k->sockets, k->mark, e);
	if (r >= 0 && ready[SOURCE_CHILD].revents)
		r = err_set(e, ERR_UNAVAILABLE, "egress has ended");
	return r < 0 ? -1 : 0;
}

/* Rules that are gone come back closed, and egress is asked for the rest. */
static void check(struct keeper *k)
{
	struct err e = { 0 };

	k->check_ms = now_ms() + KEEPER_CHECK_MS;
	if (nft_count_rules(&k->rules.nft, SIDECAR_TABLE, &e) == k->n_rules)
		return;
	log_warn("rules were removed from outside, restoring them");
	if (write_table(k, &e) < 0)
		log_error("the rules cannot be put back, trying again", LOG_ERR(&e));
	if (k->pid > 0)
		stop(k);
}

/* Milliseconds until something has to be done without being asked. */
static int pause_of(const struct keeper *k)
{
	uint64_t now = now_ms(), next = k->pid > 0 ? k->check_ms : MIN(k->check_ms, k->again_ms);

	return next > now ? (int)(next - now) : 0;
}

static int wait_for(struct keeper *k, struct pollfd ready[SOURCES], struct err *e)
{
	for (size_t i = 0; i < SOURCES; i++)
		ready[i] = (struct pollfd){ .events = POLLIN };
	ready[SOURCE_SIGNALS].fd = k->signals;
	ready[SOURCE_CHILD].fd = k->child;
	ready[SOURCE_LINK].fd = k->link;
	ready[SOURCE_SOCKETS].fd = k->sockets;
	return poll(ready, SOURCES, pause_of(k)) < 0 && errno != EINTR ? err_sys(e, errno, "wait") : 0;
}

/* True: it is to end. */
static bool on_signals(struct keeper *k)
{
	bool is_end = false;
	int signo = 0;

	while (signals_read(k->signals, &signo, NULL, &(struct err){ 0 }) == 1) {
		is_end |= signo != SIGHUP;
		if (signo == SIGHUP && k->child >= 0)
			(void)process_signal(k->child, SIGHUP, &(struct err){ 0 }); /* or it reads its lists by itself soon */
	}
	return is_end;
}

static int turn(struct keeper *k, bool *ret_is_over, struct err *e)
{
	struct pollfd ready[SOURCES];
	struct err why = { 0 };

	if (k->pid <= 0 && now_ms() >= k->again_ms && start(k, &why) < 0) {
		log_error("cannot start egress, trying again", LOG_ERR(&why));
		stop(k);
	}
	if (wait_for(k, ready, e) < 0)
		return -1;
	if (ready[SOURCE_SIGNALS].revents && on_signals(k)) {
		*ret_is_over = true;
		return 0;
	}
	if (on_ready(k, ready, &why) < 0) {
		stop(k);
		if (!k->was_bound) {
			*e = why;
			return -1;
		}
		log_warn("egress is started again", LOG_ERR(&why));
	}
	if (now_ms() >= k->check_ms)
		check(k);
	return 0;
}

static int prepare(struct keeper *k, const sigset_t *set, struct err *e)
{
	if (random_bytes(&k->mark, sizeof(k->mark), e) < 0)
		return -1;
	k->mark |= MARK_BIT;
	k->policy = memfd_sealed_bytes("policy", str_of(k->s->policy), e);
	if (k->policy < 0 || keeper_rules_open(&k->rules, SIDECAR_TABLE, k->mark, e) < 0 || write_table(k, e) < 0 ||
	    keeper_rules_end_flows(&k->rules, e) < 0 || open_sockets(k, e) < 0)
		return -1;
	look_for_others(k);
	k->signals = signals_open(set, e);
	return k->signals < 0 ? -1 : 0;
}

int keeper_run(struct sidecar *s, const sigset_t *set, int (*run)(const struct egress_options *o), struct err *e)
{
	static struct keeper k; /* too large for the stack */
	bool is_over = false;
	int r;

	k = (struct keeper){ .s = s, .run = run, .listen = { -1, -1, -1 }, .policy = -1, .signals = -1, .child = -1, .link = -1,
			     .sockets = -1, .rules = KEEPER_RULES_INIT, .check_ms = now_ms() + KEEPER_CHECK_MS };
	r = prepare(&k, set, e);
	while (r == 0 && !is_over)
		r = turn(&k, &is_over, e);
	stop(&k);
	for (size_t i = 0; i < EGRESS_FDS; i++)
		closep(&k.listen[i]);
	closep(&k.s->egress.api);
	closep(&k.policy);
	closep(&k.signals);
	keeper_rules_done(&k.rules);
	return r;
}
