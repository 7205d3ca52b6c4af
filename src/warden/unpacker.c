// SPDX-License-Identifier: Apache-2.0
#include "warden/unpacker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/own.h"
#include "box/store_guard.h"
#include "image/unpack.h"
#include "sys/fd.h"
#include "sys/passing.h"
#include "sys/process.h"
#include "sys/room.h"
#include "sys/userns.h"
#include "warden/layer_dir.h"

#include "base/banned.h"

#define PROGRAM "opensandbox-unpack"
#define ROOM_LOOK_MS 25 /* between two looks at what is left: some tens of megabytes */

struct run {
	const struct unpacker_spec *spec;
	bool packs;
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

static int spawn(struct run *r, char *const argv[], const struct spawn_fd *fds, size_t n, struct err *e)
{
	struct spawn_spec sp = SPAWN_INIT(r->spec->program, argv);

	sp.fds = fds;
	sp.n_fds = n;
	sp.cwd = "/";
	sp.new_session = true;
	sp.death_signal = SIGKILL; /* with us, who end with the warden */
	r->pidfd = process_spawn(&sp, NULL, e);
	closep(&r->report_end);
	closep(&r->marks_end);
	r->report_end = r->marks_end = -1;
	return r->pidfd < 0 ? -1 : 0;
}

static int start(struct run *r, struct err *e)
{
	AUTO_FD userns = userns_make(-1, r->spec->id_base, e);
	char name[] = PROGRAM, diff_id[DIGEST_TEXT_MAX + 1] = "";
	char *const argv[] = { name, r->spec->diff_id ? diff_id : NULL, NULL };
	const struct spawn_fd fds[] = {
		{ r->spec->blob, UNPACK_FD_TAR },     { r->spec->target, UNPACK_FD_TARGET }, { userns, UNPACK_FD_USERNS },
		{ r->report_end, UNPACK_FD_REPORT }, { r->marks_end, UNPACK_FD_MARKS },
	};

	if (userns < 0)
		return -1;
	if (r->spec->diff_id)
		digest_write(r->spec->diff_id, diff_id);
	return spawn(r, argv, fds, ARRAY_LEN(fds), e);
}

/* What has the ids of the directory is shown as what the packer has. */
static int make_map(const struct packer_spec *spec, int userns, struct err *e)
{
	AUTO_FD proc = -1;

	if (spec->from_base == 0)
		return fcntl(userns, F_DUPFD_CLOEXEC, 3);
	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return proc < 0 ? err_sys(e, errno, "open '/proc'") : userns_map(proc, spec->from_base, spec->id_base, e);
}

static int start_packer(struct run *r, const struct packer_spec *spec, struct err *e)
{
	AUTO_FD userns = userns_make(-1, spec->id_base, e);
	AUTO_FD map = userns < 0 ? -1 : make_map(spec, userns, e);
	char name[] = PROGRAM, kind[] = "pack", bytes[24], disk[24];
	char *argv[4 + PACK_LEFT_OUT_MAX + 1] = { name, kind, bytes, disk };
	const struct spawn_fd fds[] = {
		{ spec->out, UNPACK_FD_TAR },        { spec->dir, UNPACK_FD_TARGET },    { userns, UNPACK_FD_USERNS },
		{ r->report_end, UNPACK_FD_REPORT }, { r->marks_end, UNPACK_FD_MARKS }, { map, UNPACK_FD_MAP },
	};

	if (map < 0)
		return -1;
	(void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)spec->bytes_max);
	(void)snprintf(disk, sizeof(disk), "%llu", (unsigned long long)spec->disk_max);
	for (size_t i = 0; spec->left_out && spec->left_out[i]; i++) {
		assert(i < PACK_LEFT_OUT_MAX);
		argv[4 + i] = (char *)(uintptr_t)spec->left_out[i];
	}
	return spawn(r, argv, fds, ARRAY_LEN(fds), e);
}

/* ---- while it runs ---- */

/* What is answered, or -1. */
static int mark(const struct run *r, int dir, struct err *e)
{
	struct stat st;
	char is = 'n';

	if (fstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_dev != r->dev)
		return err_set(e, ERR_INVALID, "the unpacker asks for what it has no right to");
	if (r->packs)
		return fgetxattr(dir, LAYER_OPAQUE_ATTR, &is, 1) == 1 && is == 'y' ? PACK_OPAQUE : 'n';
	return fsetxattr(dir, LAYER_OPAQUE_ATTR, "y", 1, 0) < 0 ? err_sys(e, errno, "mark a directory") : 'o';
}

/* 0 as well when it has closed its end. */
static int serve_mark(struct run *r, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	char byte;
	int answer, k = passing_recv(r->marks, &byte, sizeof(byte), 1, &got, e);

	if (k < 0)
		return -1;
	if (k == PASSING_END) {
		closep(&r->marks);
		r->marks = -1;
	}
	if (k != PASSING_MESSAGE)
		return 0;
	if (got.n_fds != 1)
		return err_set(e, ERR_INVALID, "unexpected message from the unpacker");
	answer = mark(r, got.fds[0], e);
	if (answer < 0)
		return -1;
	byte = (char)answer;
	(void)passing_send(r->marks, &byte, 1, NULL, 0, &(struct err){ 0 }); /* that it has ended is seen elsewhere */
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
		k = turn(r, MIN((int)(until - now), ROOM_LOOK_MS), e);
		if (k < 0 || (r->spec->store && store_check_room(r->spec->store, e) < 0))
			return -1;
	}
	return 0;
}

/* Its own words are the blob's. */
static int read_report(const struct run *r, const struct process_end *end, unsigned char *ret_digest, struct err *e)
{
	struct unpack_report told;

	if (read(r->report, &told, sizeof(told)) != (ssize_t)sizeof(told) || told.err.code > ERR_INTERNAL)
		return err_set(e, ERR_INVALID, "the unpacker ended without a word, by %s %d", end->by_signal ? "signal" : "status",
			       end->code);
	if (told.err.code == ERR_NONE && !end->by_signal && end->code == 0) {
		if (ret_digest)
			memcpy(ret_digest, told.digest, sizeof(told.digest));
		return 0;
	}
	if (told.err.sys == ENOSPC || told.err.sys == EDQUOT)
		return room_refuse(e);
	told.err.msg[sizeof(told.err.msg) - 1] = '\0';
	return err_set(e, r->packs && told.err.code == ERR_LIMIT ? ERR_LIMIT : ERR_INVALID, "%s", told.err.msg);
}

static int finish(struct run *r, unsigned char *ret_digest, struct err *e)
{
	struct process_end end;

	if (follow(r, e) < 0 || process_wait(r->pidfd, 1000, &end, e) < 0)
		return -1;
	closep(&r->pidfd); /* collected */
	r->pidfd = -1;
	return read_report(r, &end, ret_digest, e);
}

static int look_at(struct run *r, int target, struct err *e)
{
	struct stat st;

	if (fstat(target, &st) < 0)
		return err_sys(e, errno, "look at the directory");
	r->dev = st.st_dev;
	return open_ends(r, e);
}

#define RUN_INIT(...) ((struct run){ .report = -1, .report_end = -1, .marks = -1, .marks_end = -1, .pidfd = -1, __VA_ARGS__ })

int unpacker_run(const struct unpacker_spec *spec, struct err *e)
{
	AUTO(run_done) struct run r = RUN_INIT(.spec = spec, .is_busy = spec->meanwhile);

	return look_at(&r, spec->target, e) < 0 || start(&r, e) < 0 ? -1 : finish(&r, NULL, e);
}

int packer_run(const struct packer_spec *spec, unsigned char ret_digest[SHA256_SIZE], struct err *e)
{
	const struct unpacker_spec as = { .program = spec->program };
	AUTO(run_done) struct run r = RUN_INIT(.spec = &as, .packs = true);

	return look_at(&r, spec->dir, e) < 0 || start_packer(&r, spec, e) < 0 ? -1 : finish(&r, ret_digest, e);
}
