// SPDX-License-Identifier: Apache-2.0
/* Output on its way from a shell to the ring and to the client; the list of sessions and their ends. */
#include "execd/pty/pty.h"

#include <signal.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/io/drain.h"
#include "execd/pty/pty_impl.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define PTY_ARENA_MAX ((size_t)256 * 1024) /* a path and a command */

static void on_later(void *arg);

/* ---- output ---- */

static bool may_read(const struct pty *p)
{
	const struct pty_client *c = p->client;

	if (!c)
		return true;
	return c->is_live ? client_has_room(c) : p->allowance > 0;
}

/* A pipe may have other writers, and a terminal other users: what they write from now on is read and dropped. */
static void pipe_leave(struct pty_pipe *s)
{
	io_del(&s->io);
	if (s->fd >= 0)
		drains_take(s->of->of->host.drains, &s->fd);
	s->fd = -1;
}

static void pipe_end(struct pty_pipe *s)
{
	io_del(&s->io);
	closep(&s->fd);
	s->fd = -1;
}

/* True if there was anything. */
static bool take_piece(struct pty *p, struct pty_pipe *s)
{
	char *room = p->of->host.drains->scratch;
	bool is_ending = p->state == PTY_ENDING;
	size_t want = is_ending ? (size_t)MIN((uint64_t)PTY_PIECE, s->left) : PTY_PIECE;
	ssize_t n = want > 0 ? read(s->fd, room + 1, want) : -1;

	if (n < 0 && (want == 0 || errno == EAGAIN || errno == EINTR)) {
		if (is_ending)
			pipe_leave(s);
		return false;
	}
	if (n <= 0) { /* of a terminal that nobody has open any more: EIO */
		pipe_end(s);
		return false;
	}
	s->left -= is_ending ? (uint64_t)n : 0;
	tail_file_add(&p->ring, (struct str){ room + 1, (size_t)n });
	room[0] = (char)s->tag;
	if (p->client && p->client->is_live)
		client_send(p->client, (struct str){ room, 1 + (size_t)n });
	else if (p->client)
		p->allowance -= MIN(p->allowance, (size_t)n);
	return true;
}

static bool take_any(struct pty *p)
{
	bool any = false;

	for (int i = 0; i < 2; i++)
		if (p->out[i].fd >= 0 && may_read(p))
			any |= take_piece(p, &p->out[i]);
	return any;
}

static void on_readable(unsigned ready, void *arg)
{
	struct pty_pipe *s = arg;

	(void)ready;
	if (may_read(s->of))
		(void)take_piece(s->of, s);
	pty_pump(s->of);
}

/* Not by asking for nothing: the end of a pipe is told whether anybody wants to know or not. */
static void watch_pipe(struct pty_pipe *s, bool wanted)
{
	struct err e = { 0 };

	if (!wanted || s->fd < 0)
		io_del(&s->io);
	else if (!s->io.loop && io_add(&s->io, s->of->of->host.loop, s->fd, IO_IN, on_readable, s, "pty", &e) < 0)
		log_warn("a terminal is not read for a while, ignoring", LOG_ERR(&e));
}

/* The timer also makes another try where a pipe could not be watched. */
static void set_interest(struct pty *p)
{
	bool is_free = may_read(p), is_watched = true;

	for (int i = 0; i < 2; i++) {
		watch_pipe(&p->out[i], is_free && p->state == PTY_UP);
		is_watched &= p->out[i].fd < 0 || p->out[i].io.loop != NULL;
	}
	if (is_free && is_watched)
		timer_cancel(&p->stall);
	else if (p->stall.at == 0)
		timer_in(&p->stall, PTY_STALL_MS);
}

/* The client had its time: the shell goes on without it for a while. */
static void on_stall(void *arg)
{
	struct pty *p = arg;
	struct pty_client *c = p->client;

	if (c && c->is_live && !p->is_pipe) {
		c->is_live = false;
		c->at = p->ring.end;
	}
	if (!may_read(p) && !p->is_pipe)
		p->allowance = PTY_ALLOWANCE;
	pty_pump(p);
}

static void rest(struct pty *p)
{
	p->state = PTY_IDLE;
	timer_cancel(&p->stall);
	p->allowance = 0;
	p->idle_since_ms = loop_now_ms(p->of->host.loop);
	timer_in(&p->idle, PTY_IDLE_MS);
	if (p->is_deleted)
		defer(&p->later, p->of->host.loop, on_later, p, "pty");
}

static bool is_all_read(const struct pty *p)
{
	return p->state == PTY_ENDING && p->out[0].fd < 0 && p->out[1].fd < 0;
}

void pty_pump(struct pty *p)
{
	if (p->state != PTY_UP && p->state != PTY_ENDING)
		return;
	do {
		if (p->client)
			client_catch_up(p->client);
	} while (p->state == PTY_ENDING && take_any(p));
	if (!is_all_read(p) || (p->client && !(p->client->is_live && client_has_room(p->client)))) {
		set_interest(p);
		return;
	}
	pty_shell_release(p);
	p->is_over = p->client && p->command;
	if (p->client)
		client_say_exit(p->client, &p->end);
	rest(p);
}

void pty_ended(struct pty *p, const struct process_end *end)
{
	p->end = *end;
	p->state = PTY_ENDING;
	p->out[0].left = p->out[1].left = PTY_RING;
	pty_pump(p);
}

void pty_failed(struct pty *p, const struct err *why)
{
	pty_shell_release(p);
	if (p->client)
		client_say_failed(p->client, PTY_START_FAILED, why->msg);
	rest(p);
}

void pty_detached(struct pty *p)
{
	io_del(&p->in_io);
	p->allowance = 0;
	if (p->state == PTY_IDLE)
		rest(p);
	else
		defer(&p->later, p->of->host.loop, on_later, p, "pty"); /* who calls may not be done with it */
}

/* ---- sessions ---- */

static void pty_free(struct pty *p)
{
	struct ptys *ps = p->of;

	for (struct pty_client *c = ps->clients; c; c = c->next)
		if (c->of == p)
			c->of = NULL; /* a handshake that leads nowhere now */
	child_forget(&p->child);
	pty_shell_release(p);
	timer_done(&p->stall);
	timer_done(&p->idle);
	defer_cancel(&p->later);
	tail_file_done(&p->ring);
	*(p->prev ? &p->prev->next : &ps->first) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	ps->n--;
	budget_give(ps->host.budget, p->granted);
	arena_done(&p->arena);
	free(p);
}

static bool is_unused(const struct pty *p)
{
	return p->state == PTY_IDLE && !p->client && p->n_opening == 0;
}

static void on_later(void *arg)
{
	struct pty *p = arg;

	if (p->is_deleted && p->state == PTY_IDLE)
		pty_free(p);
	else
		pty_pump(p);
}

static void on_idle(void *arg)
{
	struct pty *p = arg;

	if (is_unused(p))
		pty_free(p);
	else if (p->state == PTY_IDLE)
		timer_in(&p->idle, PTY_SPARE_MS);
}

/* The one that has been of no use for longest, if that is long enough, or if it had but one thing to do. */
static struct pty *find_spare(const struct ptys *ps)
{
	uint64_t now = loop_now_ms(ps->host.loop);
	struct pty *found = NULL;

	for (struct pty *p = ps->first; p; p = p->next)
		if (is_unused(p) && (p->is_over || now - p->idle_since_ms >= PTY_SPARE_MS) &&
		    (!found || p->idle_since_ms < found->idle_since_ms))
			found = p;
	return found;
}

bool pty_has_room(const struct ptys *ps)
{
	return ps->n < PTYS_MAX || find_spare(ps);
}

static int fill(struct pty *p, const char *cwd, const char *command, struct err *e)
{
	p->cwd = arena_dup(&p->arena, str_of(cwd));
	p->command = command ? arena_dup(&p->arena, str_of(command)) : NULL;
	if (!p->cwd || (command && !p->command))
		return err_no_memory(e);
	if (!budget_take(p->of->host.budget, p->arena.used))
		return err_set(e, ERR_UNAVAILABLE, "no room for another terminal");
	p->granted = p->arena.used;
	if (timer_init(&p->stall, p->of->host.loop, on_stall, p, "pty stall", e) < 0 ||
	    timer_init(&p->idle, p->of->host.loop, on_idle, p, "pty idle", e) < 0)
		return -1;
	return uuid_text(&p->of->random, p->id, e);
}

struct pty *pty_new(struct ptys *ps, const char *cwd, const char *command, struct err *e)
{
	struct pty *p = ps->n < PTYS_MAX ? NULL : find_spare(ps);

	if (p)
		pty_free(p);
	if (ps->n >= PTYS_MAX) {
		(void)err_set(e, ERR_LIMIT, "there are %u terminals", ps->n);
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	*p = (struct pty){ .of = ps, .next = ps->first, .arena = ARENA_INIT(PTY_ARENA_MAX), .in = -1,
			   .ring = TAIL_FILE_INIT_MAX(ps->temp_dir, PTY_RING),
			   .out = { { .of = p, .fd = -1, .tag = PTY_STDOUT }, { .of = p, .fd = -1, .tag = PTY_STDERR } } };
	if (p->next)
		p->next->prev = p;
	ps->first = p;
	ps->n++;
	if (fill(p, cwd, command, e) < 0) {
		pty_free(p);
		return NULL;
	}
	rest(p);
	return p;
}

struct pty *pty_find(const struct ptys *ps, struct str id)
{
	struct pty *p = ps->first;

	while (p && (p->is_deleted || !str_is(id, p->id)))
		p = p->next;
	return p;
}

const char *pty_id(const struct pty *p)
{
	return p->id;
}

bool pty_is_running(const struct pty *p)
{
	return p->state == PTY_STARTING || p->state == PTY_UP;
}

uint64_t pty_offset(const struct pty *p)
{
	return p->ring.end;
}

bool pty_is_held(const struct pty *p)
{
	return p->client || p->n_opening > 0;
}

void pty_delete(struct pty *p)
{
	p->is_deleted = true;
	pty_shell_kill(p);
	if (p->state == PTY_IDLE && p->client)
		client_say_failed(p->client, PTY_GONE, "the session was deleted");
	defer(&p->later, p->of->host.loop, on_later, p, "pty");
}

void ptys_signal(struct ptys *ps, int signo)
{
	for (struct pty *p = ps->first; p; p = p->next) {
		if (signo == SIGKILL)
			pty_shell_kill(p);
		else
			pty_shell_signal(p, signo);
		child_signal(&p->child, signo);
	}
}

void ptys_done(struct ptys *ps)
{
	while (ps->clients)
		client_drop(ps->clients);
	while (ps->first)
		pty_free(ps->first);
	random_pool_done(&ps->random);
	closep(&ps->devpts);
	ps->devpts = -1;
}
