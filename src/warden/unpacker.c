// SPDX-License-Identifier: Apache-2.0
#include "warden/unpacker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/own.h"
#include "image/unpack.h"
#include "sys/fd.h"
#include "sys/passing.h"
#include "sys/process.h"
#include "sys/userns.h"

#include "base/banned.h"

#define OPAQUE_ATTR "trusted.overlay.opaque"

struct run {
	const struct unpacker_spec *spec;
	int report, report_end, marks, marks_end; /* ours, and those of the unpacker */
	int pidfd;
	dev_t dev; /* of the target */
	bool is_busy; /* meanwhile() has more to do */
};

static void run_done(struct run *r)
{
	closep(&r->report);
	closep(&r->report_end);
	closep(&r->marks);
	closep(&r->marks_end);
	if (r->pidfd >= 0)
		(void)process_kill_and_wait(r->pidfd, -1, &(struct process_end){ 0 }, &(struct err){ 0 });
	closep(&r->pidfd);
}
DEFINE_AUTO_DONE(struct run, run_done)

/* ---- starting ---- */

static int open_ends(struct run *r, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	r->report = ends[0];
	r->report_end = ends[1];
	if (passing_pair(ends, e) < 0)
		return -1;
	r->marks = ends[0];
	r->marks_end = ends[1];
	return fd_set_nonblock(r->marks_end, false, e);
}

static int start(struct run *r, struct err *e)
{
	AUTO_FD userns = userns_make(r->spec->id_base, e);
	char name[] = "opensandbox-unpack", diff_id[SHA256_HEX_LEN + 1] = "";
	char *const argv[] = { name, r->spec->diff_id ? diff_id : NULL, NULL };
	struct spawn_spec sp = SPAWN_INIT(r->spec->program, argv);
	const struct spawn_fd fds[] = {
		{ r->spec->blob, UNPACK_FD_TAR },     { r->spec->target, UNPACK_FD_TARGET }, { userns, UNPACK_FD_USERNS },
		{ r->report_end, UNPACK_FD_REPORT }, { r->marks_end, UNPACK_FD_MARKS },
	};

	if (userns < 0)
		return -1;
	if (r->spec->diff_id)
		hex_encode(diff_id, r->spec->diff_id, SHA256_SIZE);
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	sp.cwd = "/";
	sp.new_session = true;
	sp.death_signal = SIGKILL; /* with us, who end with the warden */
	r->pidfd = process_spawn(&sp, NULL, e);
	closep(&r->report_end);
	closep(&r->marks_end);
	r->report_end = r->marks_end = -1;
	return r->pidfd < 0 ? -1 : 0;
}

/* ---- while it runs ---- */

static int mark(const struct run *r, int dir, struct err *e)
{
	struct stat st;

	if (fstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_dev != r->dev)
		return err_set(e, ERR_INVALID, "the unpacker asks for what it has no right to");
	return fsetxattr(dir, OPAQUE_ATTR, "y", 1, 0) < 0 ? err_sys(e, errno, "mark a directory") : 0;
}

/* 0 as well when it has closed its end. */
static int serve_mark(struct run *r, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	char byte;
	int k = passing_recv(r->marks, &byte, sizeof(byte), 1, &got, e);

	if (k < 0)
		return -1;
	if (k == PASSING_END) {
		closep(&r->marks);
		r->marks = -1;
	}
	if (k != PASSING_MESSAGE)
		return 0;
	if (got.n_fds != 1)
		return err_set(e, ERR_INVALID, "the unpacker sends what nobody asked for");
	if (mark(r, got.fds[0], e) < 0)
		return -1;
	(void)passing_send(r->marks, "o", 1, NULL, 0, &(struct err){ 0 }); /* that it has ended is seen elsewhere */
	return 0;
}

/* 1: it has ended. */
static int turn(struct run *r, int timeout_ms, struct err *e)
{
	struct pollfd at[2] = { { .fd = r->pidfd, .events = POLLIN }, { .fd = r->marks, .events = POLLIN } };

	if (poll(at, ARRAY_LEN(at), r->is_busy ? 0 : timeout_ms) < 0 && errno != EINTR)
		return err_sys(e, errno, "wait for the unpacker");
	if (at[1].revents && serve_mark(r, e) < 0)
		return -1;
	if (r->is_busy) {
		int k = r->spec->meanwhile(r->spec->arg, e);

		if (k < 0)
			return -1;
		r->is_busy = k > 0;
	}
	return at[0].revents != 0;
}

static int follow(struct run *r, struct err *e)
{
	const uint64_t until = clock_mono_ms() + (uint64_t)UNPACK_SECONDS_MAX * 1000;
	int k = 0;

	while (k == 0 || r->is_busy) {
		uint64_t now = clock_mono_ms();

		if (now >= until)
			return err_set(e, ERR_INVALID, "it is not unpacked after %d s", UNPACK_SECONDS_MAX);
		k = turn(r, (int)(until - now), e);
		if (k < 0)
			return -1;
	}
	return 0;
}

/* Its own words are the blob's. */
static int read_report(const struct run *r, const struct process_end *end, struct err *e)
{
	struct err told;

	if (read(r->report, &told, sizeof(told)) != (ssize_t)sizeof(told) || told.code > ERR_INTERNAL)
		return err_set(e, ERR_INVALID, "the unpacker ended without a word, by %s %d", end->by_signal ? "signal" : "status",
			       end->code);
	if (told.code == ERR_NONE && !end->by_signal && end->code == 0)
		return 0;
	if (told.sys == ENOSPC || told.sys == EDQUOT)
		return err_set(e, ERR_LIMIT, "there is no room for it");
	told.msg[sizeof(told.msg) - 1] = '\0';
	return err_set(e, ERR_INVALID, "%s", told.msg);
}

int unpacker_run(const struct unpacker_spec *spec, struct err *e)
{
	AUTO(run_done) struct run r = { .spec = spec, .report = -1, .report_end = -1, .marks = -1, .marks_end = -1, .pidfd = -1,
					.is_busy = spec->meanwhile };
	struct process_end end;
	struct stat st;

	if (fstat(spec->target, &st) < 0)
		return err_sys(e, errno, "look at where to unpack");
	r.dev = st.st_dev;
	if (open_ends(&r, e) < 0 || start(&r, e) < 0 || follow(&r, e) < 0 || process_wait(r.pidfd, 1000, &end, e) < 0)
		return -1;
	closep(&r.pidfd); /* collected */
	r.pidfd = -1;
	return read_report(&r, &end, e);
}
