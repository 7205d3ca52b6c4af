// SPDX-License-Identifier: Apache-2.0
#include "execd/task.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "execd/execd.h"
#include "sys/fd.h"

#include "base/banned.h"

/* ---- answers ---- */

/* What cannot be written has no reader any more: our exit status says so. */
static void send_bytes(struct task *t, const void *p, size_t n)
{
	struct err ignored = { 0 };
	uint64_t began_ms = clock_mono_ms();

	t->has_answered = true;
	if (!t->is_lost && fd_write_all(WORK_OUT_FD, p, n, &ignored) < 0)
		t->is_lost = true;
	if (t->deadline_ms > 0)
		t->deadline_ms += clock_mono_ms() - began_ms; /* a slow reader is not our slowness */
}

static void send_head(struct task *t, enum work_answer answer, unsigned status, uint64_t length)
{
	struct work_head h = { .answer = answer, .status = status, .length = length };

	send_bytes(t, &h, sizeof(h));
}

int task_empty(struct task *t)
{
	send_head(t, WORK_EMPTY, 200, 0);
	return 0;
}

int task_fail(struct task *t, unsigned status, const char *code, const char *fmt, ...)
{
	struct work_head h = { .answer = WORK_ERROR, .status = status };
	va_list ap;

	if (t->has_answered) /* or what has been sent is not whole, which our exit status says */
		return -1;
	(void)snprintf(h.code, sizeof(h.code), "%s", code);
	va_start(ap, fmt);
	(void)vsnprintf(h.message, sizeof(h.message), fmt, ap); /* a message that repeats a long path is cut */
	va_end(ap);
	send_bytes(t, &h, sizeof(h));
	return -1;
}

static const char *reason(const struct err *why)
{
	return why->sys ? strerror(why->sys) : why->msg;
}

int task_fail_runtime(struct task *t, struct str sent, const struct err *why)
{
	if (err_is_disk_full(why))
		return task_fail(t, 507, CODE_DISK_FULL, "'%.*s': the disk is full: %s", STR_ARG(sent), reason(why));
	return task_fail(t, 500, CODE_RUNTIME, "'%.*s': %s", STR_ARG(sent), reason(why));
}

int task_fail_path(struct task *t, struct str sent, const struct err *why)
{
	if (why->sys == ENOENT)
		return task_fail(t, 404, CODE_FILE_NOT_FOUND, "file not found. '%.*s': %s", STR_ARG(sent), reason(why));
	if (why->code == ERR_INVALID && !why->sys)
		return task_fail(t, 400, CODE_INVALID_BODY, "'%.*s': %s", STR_ARG(sent), reason(why));
	if (why->code == ERR_TIMEOUT)
		return task_fail(t, 504, CODE_RUNTIME, "'%.*s': %s", STR_ARG(sent), reason(why));
	return task_fail_runtime(t, sent, why);
}

static void fail_by(struct task *t, const struct err *e)
{
	if (e->code == ERR_INVALID)
		(void)task_fail(t, 400, CODE_INVALID_BODY, "%s", e->msg);
	else if (e->code == ERR_NOT_FOUND)
		(void)task_fail(t, 404, CODE_FILE_NOT_FOUND, "%s", e->msg);
	else if (e->code == ERR_LIMIT && !e->sys)
		(void)task_fail(t, 413, CODE_TOO_LARGE, "%s", e->msg);
	else if (err_is_disk_full(e))
		(void)task_fail(t, 507, CODE_DISK_FULL, "the disk is full: %s", e->msg);
	else
		(void)task_fail(t, 500, CODE_RUNTIME, "%s", e->msg);
}

/* ---- bodies ---- */

static void begin(struct task *t, enum work_answer kind)
{
	t->kind = kind;
	t->has_begun = true;
	t->out = BUF_INIT(TASK_OUT_MAX);
}

struct json_out task_json(struct task *t)
{
	begin(t, WORK_JSON);
	return json_out(&t->out);
}

void task_text(struct task *t)
{
	begin(t, WORK_TEXT);
}

static int check_out(const struct task *t, struct err *e)
{
	return t->out.failed ? err_set(e, ERR_LIMIT, "the answer does not fit") : 0;
}

int task_spill(struct task *t, struct err *e)
{
	if (check_out(t, e) < 0)
		return -1;
	if (t->out.n < (t->is_streaming ? TASK_OUT_PIECE : TASK_OUT_WHOLE))
		return 0;
	if (!t->is_streaming)
		send_head(t, t->kind, 200, REPLY_UNSIZED);
	t->is_streaming = true;
	send_bytes(t, t->out.p, t->out.n);
	buf_clear(&t->out);
	return 0;
}

int task_end(struct task *t, struct err *e)
{
	if (check_out(t, e) < 0)
		return -1;
	if (!t->is_streaming)
		send_head(t, t->kind, 200, t->out.n);
	send_bytes(t, t->out.p, t->out.n);
	t->has_begun = false;
	return 0;
}

/* ---- what tasks need ---- */

bool task_is_late(const struct task *t)
{
	return t->deadline_ms > 0 && clock_mono_ms() > t->deadline_ms;
}

int task_in_time(const struct task *t, struct err *e)
{
	return task_is_late(t) ? err_set(e, ERR_TIMEOUT, "took too long") : 0;
}

const struct json *task_body(struct task *t, struct err *e)
{
	struct err why = { 0 };
	const struct json *v = NULL;

	if (str_trim(t->body).n == 0)
		(void)err_set(&why, ERR_INVALID, "the body is empty");
	else
		v = json_parse(&t->arena, t->body, NULL, NULL, &why);
	if (v)
		return v;
	if (why.code == ERR_INVALID)
		(void)task_fail(t, 400, CODE_INVALID_BODY, "invalid request body: %s", why.msg);
	else if (why.code == ERR_LIMIT)
		(void)task_fail(t, 413, CODE_TOO_LARGE, "request body too large: %s", why.msg);
	*e = why;
	return NULL;
}

const struct users_text *task_users(struct task *t, struct err *e)
{
	if (!t->has_users && users_read(&t->users, e) < 0)
		return NULL;
	t->has_users = true;
	return &t->users;
}

/* ---- the process ---- */

/* What is made belongs to the sandbox's user, while root's capabilities stay: the kernel takes them from whoever changes
 * his ids, unless told not to. A change of ids also forgets the signal of the parent's death. */
static int take_file_ids(const struct execd_config *config, struct err *e)
{
	const struct identity *as = &config->as;

	if (!config->has_identity || (as->uid == 0 && as->gid == 0))
		return 0;
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return err_sys(e, errno, "keep the capabilities");
	(void)syscall(SYS_setfsgid, as->gid);
	(void)syscall(SYS_setfsuid, as->uid);
	if ((uid_t)syscall(SYS_setfsuid, -1) != as->uid || (gid_t)syscall(SYS_setfsgid, -1) != as->gid)
		return err_set(e, ERR_DENIED, "files cannot be made for the user %u:%u", as->uid, as->gid);
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? err_sys(e, errno, "die with the parent") : 0;
}

static uint64_t deadline_of(enum work_class class)
{
	switch (class) {
	case WORK_READ:
		return clock_mono_ms() + WORK_READ_MS;
	case WORK_CHANGE:
		return clock_mono_ms() + WORK_CHANGE_MS;
	case WORK_UPLOAD:
	case WORK_CLASSES:
		break;
	}
	return 0;
}

static _Noreturn void run(struct task *t, work_fn *fn)
{
	struct err e = { 0 };
	int r;

	t->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->root < 0)
		r = err_sys(&e, errno, "open '/'");
	else
		r = query_parse_bytes(t->rq->query, "path", &t->arena, &t->query, &e);
	if (r < 0 && e.code == ERR_LIMIT)
		e.code = ERR_INVALID;
	if (r == 0)
		r = fn(t, &e);
	if (r < 0)
		fail_by(t, &e);
	_exit((t->is_streaming && t->has_begun) || !t->has_answered || t->is_lost ? 1 : 0);
}

int task_run(void *arg, struct err *e)
{
	const struct task_start *ts = arg;
	struct task t = {
		.config = ts->config,
		.rq = ts->rq,
		.body = ts->body,
		.arena = ARENA_INIT(TASK_ARENA_MAX),
		.deadline_ms = deadline_of(ts->spec->class),
	};

	if (leaf_enter(&ts->config->leaf, e) < 0 || take_file_ids(ts->config, e) < 0)
		return -1;
	(void)signal(SIGPIPE, SIG_IGN); /* a peer that has gone is no reason to leave things behind */
	t.umask = umask(0);
	(void)umask(t.umask);
	/* The report to the parent is among these: from here on we count as started. */
	if (close_from(ts->spec->class == WORK_UPLOAD ? WORK_GO_FD + 1 : 3, e) < 0)
		return -1;
	run(&t, ts->spec->fn);
}
