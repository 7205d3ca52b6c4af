// SPDX-License-Identifier: Apache-2.0
/* A kernel as a child of ours, in the `user` leaf and with the ids of its context, spoken to over four connections:
 *
 *     shell      requests and their replies          control     interrupts, where the kernel wants those as messages
 *     iopub      all that it publishes               heartbeat   what comes back as it was sent
 *
 * It is ready when it has answered a request for its information and something came by iopub: what is published before we are
 * subscribed is lost. A kernel that has ended is told of when all that it had published has been. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/env.h"
#include "execd/execd.h"
#include "execd/io/drain.h"
#include "execd/jupyter/jupyter.h"
#include "execd/jupyter/jupyter_files.h"
#include "execd/jupyter/jupyter_talk.h"
#include "execd/jupyter/kernelspec.h"
#include "execd/launch.h"
#include "net/zmtp/zmtp_conn.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define DIAL_AGAIN_MS 20
#define NUDGE_MS 250        /* between requests for information, until there is an answer */
#define NUDGES_UNHEARD 16   /* after so many with an answer but no word by iopub, it is ready all the same */
#define BEAT_MS 5000        /* while something runs */
#define BEATS_MISSED_MAX 24 /* in a row: the kernel does not live any more. Counted, so that a frozen sandbox is not dead */
#define IDLE_LOST_MS 10000  /* a reply, and then nothing by iopub for so long: its last word was lost */
#define LAST_WORDS_MS 1000  /* after its end, for iopub to end, too: somebody else may hold it */
#define REST_MS 20          /* between reads of what it writes to its standard streams */
#define REFUSED_MS 100      /* some kernels refuse what comes right after an error: it is sent again */
#define REFUSALS_MAX 20     /* in a row */
#define TAIL_MAX 512        /* of which the last is kept */
#define MEMORY ((size_t)32 * 1024) /* of connections, input, and text on its way */
#define START_ARENA_MAX ((size_t)4 * 1024 * 1024)
#define MESSAGE_MAX ((uint64_t)1024 * 1024 * 1024)

enum { CHANNELS = JUPYTER_STDIN }; /* nobody is there to type: code that asks is refused by its kernel */

struct channel {
	struct code_driver *of;
	enum jupyter_port which;
	struct zmtp_conn *z; /* NULL: not connected */
	bool is_ready;
};

/* What the kernel writes to its standard streams: the last of it explains why one did not start. */
struct tail {
	int fd; /* -1: it has ended */
	struct io io;
	struct timer rest;
	char bytes[TAIL_MAX];
	size_t n;
};

struct code_driver {
	const struct code_host *host;
	struct talk talk;
	struct jupyter_files files;
	struct child child;
	struct channel channels[CHANNELS];
	struct timer tick;
	struct tail tail;
	bool interrupts_by_message;
	bool is_started, has_info, has_word, is_ready, has_ended;
	unsigned n_nudges, missed;
	uint64_t nudged_ms, heard_ms; /* the last word by iopub, or the reply */
	uint64_t oom_before;
	struct process_end end;
	bool is_left; /* a connection has ended, which is what its end looks like */
	struct err left_why;
	struct buf content; /* of the request that runs, until there is a reply */
	size_t granted, memory; /* of the budget: for that, for all else */
	bool was_error, is_interrupted; /* of the run before; of this one */
	bool has_begun;                 /* something else was published for it than that the kernel is busy, or not */
	bool is_refused;                /* to be sent again */
	unsigned n_refused;
};

/* ---- the end ---- */

static void disconnect(void *arg)
{
	struct code_driver *d = arg;

	for (int i = 0; i < CHANNELS; i++) {
		zmtp_cancel(take_ptr(&d->channels[i].z));
		d->channels[i].is_ready = false;
	}
	timer_cancel(&d->tick);
}

/* The last line that it wrote. */
static struct str last_line(const struct tail *t)
{
	struct str s = str_trim((struct str){ t->bytes, t->n });
	const char *at = s.n > 0 ? memrchr(s.p, '\n', s.n) : NULL;

	return at ? str_skip(s, (size_t)(at + 1 - s.p)) : s;
}

static void die_of_end(struct code_driver *d)
{
	bool is_oom = is_killed(&d->end) && leaf_oom_kills(d->host->leaf) > d->oom_before;
	struct str words = last_line(&d->tail);
	struct end_text text;
	struct err e = { 0 };

	if (is_oom)
		(void)err_set(&e, ERR_LIMIT, "%s", end_text(&d->end, &text));
	else if (d->is_ready || words.n == 0)
		(void)err_set(&e, ERR_UNAVAILABLE, "%s", end_text(&d->end, &text));
	else
		(void)err_set(&e, ERR_UNAVAILABLE, "%s: %.*s", end_text(&d->end, &text), STR_ARG(words));
	talk_die(&d->talk, &e);
}

/* ---- sending ---- */

static bool send_message(struct code_driver *d, enum jupyter_port to, const char *type, const char *id, struct str content)
{
	AUTO(buf_done) struct buf header = BUF_INIT(JUPYTER_HEAD_MAX);
	struct jupyter_out m = { str_of(type), str_of(id), str_of(d->talk.session), content };
	char signature[SHA256_HEX_LEN + 1];
	struct str frames[6] = { STR("<IDS|MSG>"), { signature, SHA256_HEX_LEN }, { 0 }, STR("{}"), STR("{}"), content };

	jupyter_put_header(&header, &m);
	frames[2] = buf_str(&header);
	jupyter_sign(str_of(d->files.key), frames + 2, signature);
	return !header.failed && d->channels[to].is_ready && zmtp_send(d->channels[to].z, frames, ARRAY_LEN(frames));
}

static void nudge(struct code_driver *d)
{
	char id[TALK_ID_MAX + 1];

	talk_new_id(&d->talk, id);
	if (!send_message(d, JUPYTER_SHELL, "kernel_info_request", id, STR("{}")))
		return;
	d->nudged_ms = loop_now_ms(d->host->host.loop);
	d->n_nudges += d->has_info;
}

static void beat(struct code_driver *d)
{
	static const struct str frames[] = { STR(""), STR("ping") };

	if (!d->channels[JUPYTER_HEARTBEAT].is_ready)
		return;
	if (++d->missed > BEATS_MISSED_MAX)
		talk_die_of(&d->talk, "the kernel does not respond");
	else
		(void)zmtp_send(d->channels[JUPYTER_HEARTBEAT].z, frames, ARRAY_LEN(frames));
}

/* ---- receiving ---- */

static bool is_paused(const struct code_driver *d)
{
	return d->talk.waits || d->talk.text.n > 0;
}

static void become_ready(struct code_driver *d)
{
	if (d->is_ready || !d->has_info || !(d->has_word || d->n_nudges > NUDGES_UNHEARD) ||
	    (d->interrupts_by_message && !d->channels[JUPYTER_CONTROL].is_ready))
		return;
	d->is_ready = true;
	jupyter_files_release(&d->files);
	code_ready(d->talk.context);
}

static void forget_request(struct code_driver *d)
{
	buf_done(&d->content);
	budget_give(d->host->host.budget, d->granted);
	d->granted = 0;
}

/* What was answered so, without a word about it, has not been run; and it is not for us to run anything twice. */
static bool is_refusal(const struct code_driver *d)
{
	return d->talk.shell.is_aborted && d->talk.has_idle && d->was_error && !d->has_begun && !d->is_interrupted &&
	       d->n_refused < REFUSALS_MAX;
}

static void ask_again(struct code_driver *d)
{
	d->is_refused = true;
	d->n_refused++;
	jupyter_next(&d->talk.shell);
	talk_begin(&d->talk, "");
	zmtp_resume(d->channels[JUPYTER_SHELL].z);
	timer_in(&d->tick, REFUSED_MS);
}

static void end_run(struct code_driver *d)
{
	bool is_error = d->talk.has_error || d->talk.shell.is_error, runs = d->talk.run[0];

	if (runs && d->talk.has_reply && is_refusal(d) && d->channels[JUPYTER_SHELL].z) {
		ask_again(d);
		return;
	}
	talk_end_run(&d->talk);
	if (!runs || d->talk.run[0])
		return;
	d->was_error = is_error;
	forget_request(d);
	if (d->channels[JUPYTER_SHELL].z)
		zmtp_resume(d->channels[JUPYTER_SHELL].z);
}

static void on_shell(struct code_driver *d, const struct zmtp_event *ev)
{
	enum jupyter_step step = jupyter_take(&d->talk.shell, ev);

	if (step == JUPYTER_BROKEN)
		talk_die_of(&d->talk, d->talk.shell.what);
	if (step != JUPYTER_MESSAGE)
		return;
	d->has_info |= d->talk.shell.kind == JUPYTER_INFO;
	talk_reply(&d->talk);
	if (d->talk.has_reply) {
		zmtp_pause(d->channels[JUPYTER_SHELL].z); /* the reply stays where it is until the run has ended */
		d->heard_ms = loop_now_ms(d->host->host.loop);
		if (!is_paused(d)) /* else kernel_proceed() goes on, with iopub too */
			end_run(d);
	}
	become_ready(d);
}

static void on_iopub(struct code_driver *d, const struct zmtp_event *ev)
{
	enum jupyter_step step = jupyter_take(&d->talk.iopub, ev);

	d->heard_ms = loop_now_ms(d->host->host.loop);
	if (step == JUPYTER_BROKEN) {
		talk_die_of(&d->talk, d->talk.iopub.what);
		return;
	}
	d->has_word |= step == JUPYTER_MESSAGE;
	d->has_begun |= step == JUPYTER_MESSAGE && d->talk.iopub.kind != JUPYTER_STATUS && talk_is_answer(&d->talk.iopub, d->talk.run);
	if (!talk_piece(&d->talk, step == JUPYTER_MESSAGE))
		zmtp_pause(d->channels[JUPYTER_IOPUB].z);
	else
		end_run(d);
	become_ready(d);
}

static void on_bytes(struct zmtp_conn *z, const struct zmtp_event *ev, void *arg)
{
	struct channel *c = arg;

	(void)z;
	if (c->which == JUPYTER_SHELL)
		on_shell(c->of, ev);
	else if (c->which == JUPYTER_IOPUB)
		on_iopub(c->of, ev);
	else
		c->of->missed = 0; /* what control answers is of no interest */
}

static void on_channel_ready(struct zmtp_conn *z, void *arg)
{
	struct channel *c = arg;

	(void)z;
	c->is_ready = true;
	if (c->of->channels[JUPYTER_SHELL].is_ready && c->of->channels[JUPYTER_IOPUB].is_ready && !c->of->is_ready)
		timer_in(&c->of->tick, 0);
}

/* While it starts, it is dialled again. */
static void on_channel_close(const struct err *why, void *arg)
{
	struct channel *c = arg;
	struct code_driver *d = c->of;

	c->z = NULL;
	c->is_ready = false;
	if (!d->is_ready || c->which > JUPYTER_IOPUB)
		return;
	d->is_left = true;
	d->left_why = *why;
	/* Most often it has ended, which we are about to be told: that says more. */
	timer_in(&d->tick, d->has_ended && c->which == JUPYTER_IOPUB ? 0 : LAST_WORDS_MS);
}

/* ---- connecting ---- */

static void dial(struct channel *c)
{
	static const struct zmtp_ops ops = { .on_ready = on_channel_ready, .on_bytes = on_bytes, .on_close = on_channel_close };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons(c->of->files.ports[c->which]) };
	struct zmtp_spec sp = { .type = c->which == JUPYTER_IOPUB ? ZMTP_SUB : ZMTP_DEALER, .to = (struct sockaddr *)&to,
				.to_len = sizeof(to), .message_max = MESSAGE_MAX, .send_max = 6 * CODE_TEXT_MAX + JUPYTER_HEAD_MAX };
	struct err ignored = { 0 };

	if (!c->z)
		c->z = zmtp_connect(c->of->host->host.loop, &sp, &ops, c, &ignored);
}

static void tick_starting(struct code_driver *d, uint64_t now)
{
	bool stands = d->channels[JUPYTER_SHELL].is_ready && d->channels[JUPYTER_IOPUB].is_ready;

	for (int i = 0; i < CHANNELS; i++)
		dial(&d->channels[i]);
	if (stands && now >= d->nudged_ms + (d->nudged_ms ? NUDGE_MS : 0))
		nudge(d);
	timer_in(&d->tick, DIAL_AGAIN_MS);
	become_ready(d);
}

static bool send_code(struct code_driver *d)
{
	char id[TALK_ID_MAX + 1];

	talk_new_id(&d->talk, id);
	if (!send_message(d, JUPYTER_SHELL, "execute_request", id, buf_str(&d->content)))
		return false;
	talk_begin(&d->talk, id);
	d->is_refused = d->has_begun = false;
	timer_in(&d->tick, BEAT_MS);
	return true;
}

static void on_tick(void *arg)
{
	struct code_driver *d = arg;
	uint64_t now = loop_now_ms(d->host->host.loop);

	if (d->has_ended || d->is_left) {
		if (is_paused(d))
			timer_in(&d->tick, LAST_WORDS_MS);
		else if (d->has_ended)
			die_of_end(d);
		else
			talk_die(&d->talk, &d->left_why);
		return;
	}
	if (!d->is_ready) {
		tick_starting(d, now);
		return;
	}
	timer_in(&d->tick, BEAT_MS);
	dial(&d->channels[JUPYTER_CONTROL]);
	dial(&d->channels[JUPYTER_HEARTBEAT]);
	if (d->is_refused) {
		if (!send_code(d))
			talk_die_of(&d->talk, "the kernel does not take the code");
		return;
	}
	if (!d->talk.run[0]) {
		d->missed = 0;
		return;
	}
	if (d->talk.has_reply && !is_paused(d) && now >= d->heard_ms + IDLE_LOST_MS) {
		d->talk.has_idle = true;
		end_run(d);
		return;
	}
	beat(d);
}

/* ---- the process ---- */

static void on_started(void *arg)
{
	struct code_driver *d = arg;

	d->is_started = true;
	timer_in(&d->tick, DIAL_AGAIN_MS);
}

static void on_failed(const struct err *why, void *arg)
{
	struct code_driver *d = arg;

	talk_die(&d->talk, why);
}

static void on_ended(const struct process_end *end, void *arg)
{
	struct code_driver *d = arg;

	d->has_ended = true;
	d->end = *end;
	if (d->channels[JUPYTER_IOPUB].z && d->is_ready)
		timer_in(&d->tick, LAST_WORDS_MS);
	else
		timer_in(&d->tick, 0); /* what it wrote last is read before */
}

static void keep_tail(struct tail *t, struct str bytes)
{
	size_t keep;

	bytes = str_skip(bytes, bytes.n > sizeof(t->bytes) ? bytes.n - sizeof(t->bytes) : 0);
	keep = MIN(t->n, sizeof(t->bytes) - bytes.n);
	memmove(t->bytes, t->bytes + t->n - keep, keep);
	memcpy(t->bytes + keep, bytes.p, bytes.n);
	t->n = keep + bytes.n;
}

static void on_tail(unsigned ready, void *arg)
{
	struct code_driver *d = arg;
	struct drains *drains = d->host->host.drains;
	ssize_t n = read(d->tail.fd, drains->scratch, sizeof(drains->scratch));

	(void)ready;
	if (n > 0)
		keep_tail(&d->tail, (struct str){ drains->scratch, (size_t)n });
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		io_del(&d->tail.io);
		closep(&d->tail.fd);
		d->tail.fd = -1;
		return;
	}
	io_want(&d->tail.io, 0); /* who does nothing but write is to cost next to nothing */
	timer_in(&d->tail.rest, REST_MS);
}

static void on_rested(void *arg)
{
	struct code_driver *d = arg;

	if (d->tail.fd >= 0)
		io_want(&d->tail.io, IO_IN);
}

static int open_tail(struct code_driver *d, int *ret_write, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	d->tail.fd = ends[0];
	*ret_write = ends[1];
	if (fd_set_nonblock(ends[0], true, e) < 0)
		return -1;
	return io_add(&d->tail.io, d->host->host.loop, ends[0], IO_IN, on_tail, d, "kernel output", e);
}

static const char *temp_dir(const struct env *env)
{
	const char *dir = env_get(env, STR("TMPDIR"));
	struct stat st;

	if (!dir || dir[0] != '/')
		dir = "/tmp";
	return stat(dir, &st) == 0 && S_ISDIR(st.st_mode) ? dir : ""; /* else in the root */
}

static int spawn(struct code_driver *d, const struct code_spec *sp, const struct kernelspec *k, struct arena *a, struct err *e)
{
	static const struct child_ops ops = { .started = on_started, .failed = on_failed, .ended = on_ended };
	AUTO_FD cwd = launch_open_made(sp->cwd, e);
	AUTO_FD out = -1;
	struct launch launch = { d->host->leaf, sp->as, cwd };
	struct spawn_spec spawn = SPAWN_INIT(NULL, NULL);
	struct env env;

	if (cwd < 0 || env_copy(&env, a, sp->env->items, NULL, e) < 0 || kernelspec_env(k, &env, a, e) < 0)
		return -1;
	if (jupyter_files_make(&d->files, temp_dir(&env), sp->as, k->name, e) < 0 || open_tail(d, &out, e) < 0 ||
	    kernelspec_argv(k, &env, d->files.path, a, &spawn.path, &spawn.argv, e) < 0)
		return -1;
	spawn.envp = env.items;
	spawn.out = spawn.err = out;
	spawn.new_session = true;
	spawn.setup = launch_setup;
	spawn.setup_arg = &launch;
	d->oom_before = leaf_oom_kills(d->host->leaf);
	return child_start(&d->child, d->host->init, &spawn, &ops, d, e);
}

/* ---- for contexts ---- */

static int kernel_offers(const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(KERNELSPEC_ARENA_MAX);
	struct kernelspec k;

	(void)host;
	return kernelspec_find(sp->env, sp->language, sp->kernel, &a, &k, e);
}

static void kernel_end(struct code_driver *d)
{
	child_signal(&d->child, SIGKILL);
	child_forget(&d->child);
	disconnect(d);
	jupyter_files_release(&d->files);
	timer_done(&d->tick);
	timer_done(&d->tail.rest);
	io_del(&d->tail.io);
	closep(&d->tail.fd);
	talk_done(&d->talk);
	forget_request(d);
	budget_give(d->host->host.budget, d->memory);
	free(d);
}
DEFINE_AUTO(struct code_driver *, kernel_end)

static struct code_driver *kernel_start(struct code_context *c, const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(START_ARENA_MAX);
	AUTO(kernel_end) struct code_driver *d = calloc(1, sizeof(*d));
	struct kernelspec k;
	int found;

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	d->host = host;
	d->files = JUPYTER_FILES_INIT;
	d->tail.fd = -1;
	for (int i = 0; i < CHANNELS; i++)
		d->channels[i] = (struct channel){ .of = d, .which = (enum jupyter_port)i };
	if (!budget_take(host->host.budget, MEMORY)) {
		(void)err_set(e, ERR_UNAVAILABLE, "no memory for another kernel, try again later");
		return NULL;
	}
	d->memory = MEMORY;
	found = kernelspec_find(sp->env, sp->language, sp->kernel, &a, &k, e);
	if (found == 0)
		(void)err_set(e, ERR_NOT_FOUND, "there is no kernel for '%s'", sp->kernel ? sp->kernel : sp->language);
	if (found <= 0 || talk_init(&d->talk, c, host->host.budget, disconnect, d, e) < 0 ||
	    timer_init(&d->tick, host->host.loop, on_tick, d, "kernel", e) < 0 ||
	    timer_init(&d->tail.rest, host->host.loop, on_rested, d, "kernel output", e) < 0 || spawn(d, sp, &k, &a, e) < 0)
		return NULL;
	d->talk.shell.key = d->talk.iopub.key = str_of(d->files.key);
	d->interrupts_by_message = k.interrupts_by_message;
	return take_ptr(&d);
}

/* Once in the request and once on its way to the kernel. */
static int grant(struct code_driver *d, size_t n, struct err *e)
{
	size_t need = 2 * n;

	if (need > d->granted && !budget_take(d->host->host.budget, need - d->granted))
		return err_set(e, ERR_UNAVAILABLE, "no memory for code of this size, try again later");
	d->granted = MAX(d->granted, need);
	return 0;
}

/* Most text grows little by being written as JSON, some six times. */
static int write_request(struct code_driver *d, struct str code, size_t max, struct err *e)
{
	if (grant(d, max, e) < 0)
		return -1;
	d->content = BUF_INIT(max);
	jupyter_put_execute(&d->content, code);
	if (!d->content.failed)
		return 0;
	buf_done(&d->content);
	return max < 6 * code.n ? write_request(d, code, 6 * code.n + 1024, e) : err_no_memory(e);
}

static int kernel_run(struct code_driver *d, struct str code, struct err *e)
{
	int r = write_request(d, code, code.n + code.n / 4 + 1024, e);

	d->missed = d->n_refused = 0;
	d->is_interrupted = false;
	if (r == 0 && !send_code(d))
		r = err_set(e, ERR_UNAVAILABLE, "the kernel does not take the code");
	if (r < 0)
		forget_request(d);
	return r;
}

static void kernel_interrupt(struct code_driver *d)
{
	char id[TALK_ID_MAX + 1];

	d->is_interrupted = true;
	if (d->interrupts_by_message) {
		talk_new_id(&d->talk, id);
		(void)send_message(d, JUPYTER_CONTROL, "interrupt_request", id, STR("{}"));
	} else {
		child_signal(&d->child, SIGINT);
	}
}

static void kernel_proceed(struct code_driver *d)
{
	if (d->talk.is_dead || !talk_proceed(&d->talk))
		return;
	end_run(d);
	d->heard_ms = loop_now_ms(d->host->host.loop); /* until now it could not be heard */
	if (d->channels[JUPYTER_IOPUB].z)
		zmtp_resume(d->channels[JUPYTER_IOPUB].z);
}

const struct code_driver_type jupyter_kernel_driver = {
	.name = "kernel",
	.offers = kernel_offers,
	.start = kernel_start,
	.run = kernel_run,
	.interrupt = kernel_interrupt,
	.proceed = kernel_proceed,
	.end = kernel_end,
};
