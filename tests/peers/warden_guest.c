// SPDX-License-Identifier: Apache-2.0
/* A small PID 1 for the tests of the warden: it speaks base/guest.h as the description of its sandbox tells it to, well or
 * badly, and then runs one line of shell for each connection. Static, so that it runs in any root. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guest.h"

#include "base/banned.h"

static char spec[GUEST_SPEC_MAX + 1];

static void record(int kind, int code, const char *text)
{
	struct guest_record r = { .magic = GUEST_RECORD_MAGIC, .version = GUEST_RECORD_VERSION, .kind = (uint16_t)kind,
				  .exit_code = code };

	(void)snprintf(r.text, sizeof(r.text), "%s", text); /* texts of ours are short */
	if (write(GUEST_FD_STATE, &r, sizeof(r)) != (ssize_t)sizeof(r))
		_exit(9);
}

static int asked(const char *what)
{
	return strstr(spec, what) != NULL;
}

static void read_pipe(void *to, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = read(GUEST_FD_SPEC, (char *)to + at, n - at);

		if (got <= 0)
			_exit(0); /* there will be none */
		at += (size_t)got;
	}
}

static void read_spec(void)
{
	uint32_t size;

	if (pread(GUEST_FD_SPEC, spec, GUEST_SPEC_MAX, 0) >= 0)
		return;
	if (errno != ESPIPE)
		_exit(8);
	read_pipe(&size, sizeof(size));
	if (size > GUEST_SPEC_MAX)
		_exit(8);
	read_pipe(spec, size);
}

/* The line of our name, at the address that the warden tells with --hosts. */
static void add_name(int argc, char **argv)
{
	char name[65] = "", line[128];
	int next = GUEST_FD_CGROUPS, n;

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--cgroups=", 10) == 0)
			next += argv[i][10] - '0' + 1 + GUEST_STATS; /* fewer than ten */
		if (strncmp(argv[i], "--hosts=", 8) != 0)
			continue;
		(void)gethostname(name, sizeof(name) - 1);
		n = snprintf(line, sizeof(line), "%.40s\t%s\n", argv[i] + 8, name);
		if (write(next, line, (size_t)n) != n)
			_exit(6);
	}
}

static void start(int argc, char **argv)
{
	read_spec();
	add_name(argc, argv);
	if (asked("never-ready"))
		for (;;)
			(void)pause();
	if (asked("die-early"))
		_exit(3);
	if (asked("cannot-start")) {
		record(GUEST_FAILED, 0, "exec 'x\x1b[31m\ny\xff': No such file or directory");
		_exit(1);
	}
	record(GUEST_READY, 0, "");
	if (write(GUEST_FD_LOG_0, "2026-06-15T09:46:58.120431123Z hello\n", 37) != 37 || write(GUEST_FD_READY, "r", 1) != 1)
		_exit(7);
	(void)close(GUEST_FD_READY);
}

static void run(int conn, char *line)
{
	if (strncmp(line, "exit ", 5) == 0) {
		record(GUEST_EXITED, line[5] - '0', "");
		record(GUEST_EXITED, 99, "again, differently");
		_exit(0);
	}
	if (strcmp(line, "die") == 0)
		_exit(5);
	if (fork() == 0) {
		(void)setsid();
		if (dup2(conn, 0) < 0 || dup2(conn, 1) < 0 || dup2(conn, 2) < 0)
			_exit(126);
		for (int fd = 3; fd < 64; fd++)
			(void)close(fd);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
}

int main(int argc, char **argv)
{
	start(argc, argv);
	for (;;) {
		char line[4096] = "";
		int conn = accept(GUEST_FD_LISTEN, NULL, NULL);

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (conn < 0) {
			(void)usleep(2000); /* the socket does not block */
			continue;
		}
		if (read(conn, line, sizeof(line) - 1) > 0) {
			line[strcspn(line, "\n")] = '\0';
			run(conn, line);
		}
		(void)close(conn);
	}
}
