// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "box/network_impl.h"
#include "sys/fd.h"
#include "sys/nft.h"
#include "sys/process.h"

#include "base/banned.h"

#define CHAIN "DOCKER-USER"
#define SAYS_MAX 4096
#define TAG_SIZE 32
#define PROGRAM_MS 10000

/* ---- programs ---- */

static const char *find_program(const char *name, char *path, size_t size)
{
	static const char *const places[] = { "/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, size, "%s/%s", places[i], name);
		if (access(path, X_OK) == 0)
			return path;
	}
	return NULL;
}

bool box_network_has_program(void)
{
	char path[64];

	return find_program("nft", path, sizeof(path)) != NULL;
}

/* The first line of what it says is for whoever has to mend it. */
static int await(int pidfd, int says, const char *name, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(SAYS_MAX);
	struct process_end end;
	struct str line, rest;

	(void)fd_read_all(says, SAYS_MAX, &text, &(struct err){ 0 }); /* cut, if there is more */
	if (process_wait(pidfd, PROGRAM_MS, &end, e) < 0) {
		(void)process_kill_and_wait(pidfd, PROGRAM_MS, &end, &(struct err){ 0 });
		return -1;
	}
	if (end.by_signal)
		return err_set(e, ERR_UNAVAILABLE, "%s was killed by signal %d", name, end.code);
	(void)str_cut(buf_str(&text), '\n', &line, &rest);
	if (end.code != 0 && line.n > 0)
		return err_set(e, ERR_UNAVAILABLE, "%s: %.*s", name, (int)MIN(line.n, (size_t)200), line.p);
	return end.code;
}

int network_run(const char *const *argv, int in, struct err *e)
{
	char path[64];
	const char *program = find_program(argv[0], path, sizeof(path));
	struct spawn_spec sp = SPAWN_INIT(program, (char *const *)(uintptr_t)argv);
	AUTO_FD pidfd = -1;
	AUTO_FD says = -1;
	AUTO_FD end = -1;
	int pair[2];

	if (!program)
		return err_set(e, ERR_UNAVAILABLE, "program '%s' is not installed", argv[0]);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	says = pair[0];
	end = pair[1];
	sp.in = in;
	sp.err = end;
	sp.death_signal = SIGKILL; /* whoever ends the process that asked for it wants no more of it */
	pidfd = process_spawn(&sp, NULL, e);
	(void)close(take_fd(&end));
	return pidfd < 0 ? -1 : await(pidfd, says, argv[0], e);
}

/* ---- the chain ---- */

/* Of the kernel's older tables, which cannot be looked into but by their own program. */
static bool is_blind(void)
{
	AUTO(buf_done) struct buf names = BUF_INIT(SAYS_MAX);

	return fd_read_file(AT_FDCWD, "/proc/net/ip_tables_names", SAYS_MAX, &names, &(struct err){ 0 }) == 0 && names.n > 0 &&
	       memmem(names.p, names.n, "filter", 6);
}

static int has_chain(struct network_io *io, struct err *e)
{
	const char *const argv[] = { "iptables", "-w", "2", "-n", "-L", CHAIN, NULL };

	if (is_blind())
		return network_run(argv, -1, &(struct err){ 0 }) == 0;
	return nft_has_chain(&io->nft, "filter", CHAIN, e);
}

static void tag(const struct box_network *n, char out[TAG_SIZE])
{
	(void)snprintf(out, TAG_SIZE, "opensandbox %s", n->prefix);
}

/* OPERATION is -C, -I or -D. Status 1 of -C says that it is not there. */
static int ask(const struct box_network *n, const char *operation, struct err *e)
{
	char mark[32], comment[TAG_SIZE];
	const char *const argv[] = { "iptables", "-w", "2", operation, CHAIN, "-m", "mark", "--mark", mark, "-m", "comment", "--comment",
				     comment, "-j", "ACCEPT", NULL };

	(void)snprintf(mark, sizeof(mark), "0x%x/0x%x", NETWORK_MARK, NETWORK_MARK);
	tag(n, comment);
	return network_run(argv, -1, e);
}

int network_is_let_by(const struct box_network *n, struct network_io *io, struct err *e)
{
	char comment[TAG_SIZE];
	int r = is_blind() ? 0 : nft_has_chain(&io->nft, "filter", CHAIN, e);

	if (r <= 0)
		return r < 0 ? -1 : 1;
	tag(n, comment);
	return nft_chain_mentions(&io->nft, "filter", CHAIN, comment, e);
}

int network_pass_docker(const struct box_network *n, struct network_io *io, struct err *e)
{
	int r = has_chain(io, e);

	if (r <= 0)
		return r;
	if (ask(n, "-C", &(struct err){ 0 }) == 0)
		return 0;
	r = ask(n, "-I", e);
	return r > 0 ? err_set(e, ERR_UNAVAILABLE, "iptables ended with status %d", r) : r;
}

int network_leave_docker(const struct box_network *n, struct network_io *io, struct err *e)
{
	int r = has_chain(io, e);

	if (r > 0)
		(void)ask(n, "-D", &(struct err){ 0 }); /* it may be gone already, with the chain */
	return r < 0 ? -1 : 0;
}
