// SPDX-License-Identifier: Apache-2.0
#include "cli/local_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "sys/boot.h"
#include "sys/fd.h"
#include "sys/process.h"

#include "base/banned.h"

#define RECORD_MAX 4096
#define RECORD_TEMP ".server.run.new"
#define STAT_START 22 /* the field of a stat line, from 1; the second, in brackets, is anything that a program calls itself */

void local_server_done(struct local_server *s)
{
	closep(&s->pidfd);
	*s = LOCAL_SERVER_INIT;
}

/* ---- the record ---- */

static int local_stat_parse(struct str stat, pid_t *ret_pid, uint64_t *ret_start)
{
	struct str head, rest, word;
	uint64_t pid, start;
	size_t at = stat.n;

	while (at > 0 && stat.p[at - 1] != ')')
		at--;
	if (at == 0 || !str_cut(stat, ' ', &head, &rest) || !str_to_u64(head, 1, INT32_MAX, &pid))
		return -1;
	rest = str_skip(stat, at);
	for (int field = 3; field <= STAT_START; field++)
		if (!str_take_word(&rest, &word, 32))
			return -1;
	if (!str_to_u64(word, 0, UINT64_MAX, &start))
		return -1;
	*ret_pid = (pid_t)pid;
	*ret_start = start;
	return 0;
}

int local_record_parse(struct str text, struct local_record *ret, struct err *e)
{
	struct str line, stat, word[4];
	struct local_record r;

	if (!str_cut(text, '\n', &line, &stat))
		return err_set(e, ERR_INVALID, "'" LOCAL_RECORD "' is damaged");
	for (size_t i = 0; i < ARRAY_LEN(word); i++)
		if (!str_take_word(&line, &word[i], LOCAL_ADDRESS_MAX - 1))
			return err_set(e, ERR_INVALID, "'" LOCAL_RECORD "' is damaged");
	if (!str_is(word[0], "osb") || !str_is(word[1], "1") || local_stat_parse(stat, &r.pid, &r.start) < 0)
		return err_set(e, ERR_INVALID, "'" LOCAL_RECORD "' is damaged");
	r.boot = word[2];
	r.address = word[3];
	*ret = r;
	return 0;
}

/* ---- who it is ---- */

static int read_stat(pid_t pid, struct buf *out, struct err *e)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return fd_read_file(AT_FDCWD, path, RECORD_MAX, out, e);
}

/* The descriptor is opened first: if the number belongs to the right process then, it is that process. */
static int open_process(const struct local_record *r, struct err *e)
{
	AUTO(buf_done) struct buf stat = BUF_INIT(RECORD_MAX);
	AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	uint64_t start;
	pid_t pid;

	if (pidfd < 0)
		return errno == ESRCH ? -1 : err_sys(e, errno, "open process %d", (int)r->pid);
	if (read_stat(r->pid, &stat, &(struct err){ 0 }) < 0 || local_stat_parse(buf_str(&stat), &pid, &start) < 0 || start != r->start)
		return -1; /* gone, or somebody else */
	return take_fd(&pidfd);
}

int local_server_find(int dirfd, struct local_server *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RECORD_MAX);
	struct local_server s = LOCAL_SERVER_INIT;
	struct local_record r = { 0 };
	char boot[BOOT_ID_SIZE];
	struct err why = { 0 };

	if (fd_read_file(dirfd, LOCAL_RECORD, RECORD_MAX, &text, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*e = why;
		return -1;
	}
	if (local_record_parse(buf_str(&text), &r, e) < 0 || boot_id_read(boot, e) < 0)
		return -1;
	if (!str_is(r.boot, boot))
		return 0;
	s.pidfd = open_process(&r, &why);
	if (s.pidfd < 0) {
		*e = why;
		return why.code == ERR_NONE ? 0 : -1;
	}
	if (local_server_wait(&s, 0)) { /* it has ended, and its parent has not looked yet */
		local_server_done(&s);
		return 0;
	}
	s.pid = r.pid;
	(void)snprintf(s.address, sizeof(s.address), "%.*s", STR_ARG(r.address));
	*ret = s;
	return 1;
}

/* ---- its beginning ---- */

struct birth {
	int dir, record;
};

/* In the child, whose number and time of birth the server will have: exec changes neither. No heap. */
static int write_birth(void *arg, struct err *e)
{
	const struct birth *b = arg;
	char stat[RECORD_MAX];
	AUTO_FD fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat));

	if (n <= 0 || write(b->record, stat, (size_t)n) != n || fsync(b->record) < 0)
		return err_sys(e, errno, "write '" LOCAL_RECORD "'");
	if (renameat(b->dir, RECORD_TEMP, b->dir, LOCAL_RECORD) < 0)
		return err_sys(e, errno, "name '" LOCAL_RECORD "'");
	return 0;
}

static int open_record(int dirfd, const char *address, struct err *e)
{
	AUTO(buf_done) struct buf head = BUF_INIT(RECORD_MAX);
	AUTO_FD fd = -1;
	char boot[BOOT_ID_SIZE];

	if (boot_id_read(boot, e) < 0)
		return -1;
	fd = openat(dirfd, RECORD_TEMP, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "make '" LOCAL_RECORD "'");
	if (!buf_addf(&head, "osb 1 %s %s\n", boot, address))
		return err_no_memory(e);
	return fd_write_all(fd, head.p, head.n, e) < 0 ? -1 : take_fd(&fd);
}

int local_server_lock(int dirfd, struct err *e)
{
	return flock(dirfd, LOCK_EX) < 0 ? err_sys(e, errno, "lock the folder of the settings") : 0;
}

int local_server_start(int dirfd, const struct local_start *how, struct local_server *ret, struct err *e)
{
	AUTO(local_server_done) struct local_server s = LOCAL_SERVER_INIT;
	AUTO_FD record = -1;
	struct birth birth = { .dir = dirfd };
	struct spawn_spec sp = SPAWN_INIT(how->program, how->argv);
	int found;

	if (local_server_lock(dirfd, e) < 0)
		return -1;
	found = local_server_find(dirfd, &s, e);
	if (found != 0)
		return found < 0 ? -1 : err_set(e, ERR_CONFLICT, "it runs already, as process %d", (int)s.pid);
	record = open_record(dirfd, how->address, e);
	if (record < 0)
		return -1;
	birth.record = record;
	sp.envp = how->envp;
	sp.cwd = "/";
	sp.err = how->log;
	sp.new_session = true;
	sp.setup = write_birth;
	sp.setup_arg = &birth;
	s.pidfd = process_spawn(&sp, &s.pid, e);
	if (s.pidfd < 0) {
		(void)unlinkat(dirfd, LOCAL_RECORD, 0); /* of a process that never became the server */
		return -1;
	}
	(void)flock(dirfd, LOCK_UN);
	(void)snprintf(s.address, sizeof(s.address), "%s", how->address);
	*ret = s;
	s = LOCAL_SERVER_INIT;
	return 0;
}

/* ---- its end ---- */

int local_server_wait(const struct local_server *s, int timeout_ms)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) > 0;
}

/* Unless somebody has started another one since, whose record it is then. What remains tells of nobody, and does no harm. */
static void forget(int dirfd)
{
	AUTO(local_server_done) struct local_server next = LOCAL_SERVER_INIT;
	struct err e = { 0 };

	if (local_server_lock(dirfd, &e) == 0 && local_server_find(dirfd, &next, &e) == 0)
		(void)unlinkat(dirfd, LOCAL_RECORD, 0);
	(void)flock(dirfd, LOCK_UN);
}

int local_server_stop(int dirfd, struct local_server *s, int timeout_ms, struct err *e)
{
	struct err why = { 0 };

	if (process_signal(s->pidfd, SIGTERM, &why) < 0 && why.code != ERR_NOT_FOUND) {
		*e = why;
		return -1;
	}
	if (!local_server_wait(s, timeout_ms))
		return err_set(e, ERR_TIMEOUT, "process %d has not ended", (int)s->pid);
	forget(dirfd);
	local_server_done(s);
	return 0;
}
