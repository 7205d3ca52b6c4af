// SPDX-License-Identifier: Apache-2.0
/* execd: runs what the clients of a sandbox ask for, inside it. As `execd --guest` it is the sandbox's PID 1: root of
 * its user namespace, with the capabilities and the syscall filter of every process there, and holds the descriptors of
 * base/guest.h. Otherwise it is an ordinary process with the privileges of its caller. One thread, no threads to come. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/str.h"
#include "execd/command/record.h"
#include "execd/config.h"
#include "execd/execd.h"
#include "sys/signals.h"

#include "base/banned.h"

#define PROGRAM "execd"
#define HELP_MAX ((size_t)64 * 1024)

#define OF_GUESTS "With --guest: see base/guest.h."

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

static const struct opt opts[] = {
	OPT(struct options, port, OPT_INT, "port", 0, "PORT", "Listen on PORT of every IPv4 address (44772).", .min = 1,
	    .max = 65535),
	OPT(struct options, socket, OPT_STRING, "socket", 0, "PATH", "Listen on a unix socket instead.", .is_file = true),
	OPT(struct options, token, OPT_STRING, "access-token", 0, "TOKEN",
	    "Require TOKEN in the header X-EXECD-ACCESS-TOKEN of every request."),
	OPT(struct options, log_level, OPT_INT, "log-level", 0, "N", "0 to 3: errors; 4: warnings; 5, 6: what happens (6); "
	    "7: more.", .min = 0, .max = 100),
	OPT(struct options, guest, OPT_FLAG, "guest", 0, NULL,
	    "Run as PID 1 of a sandbox (started by the warden)."),
	OPT(struct options, cgroups, OPT_INT, "cgroups", 0, "N", OF_GUESTS, .min = 0, .max = GUEST_CGROUPS_MAX, .is_hidden = true),
	OPT(struct options, oom_counter, OPT_FLAG, "oom-counter", 0, NULL, OF_GUESTS, .is_hidden = true),
	OPT(struct options, stats, OPT_FLAG, "stats", 0, NULL, OF_GUESTS, .is_hidden = true),
	OPT(struct options, hosts, OPT_STRING, "hosts", 0, "ADDRESS", OF_GUESTS, .is_hidden = true),
	OPT(struct options, jupyter_host, OPT_STRING, "jupyter-host", 0, "URL",
	    "Run code in the Jupyter server at URL (http://127.0.0.1:8888)."),
	OPT(struct options, jupyter_token, OPT_STRING, "jupyter-token", 0, "TOKEN", "Token of that server."),
	OPT(struct options, grace, OPT_STRING, "graceful-shutdown-timeout", 0, "TIME",
	    "Without effect: streams end at once.", .is_hidden = true),
	OPT(struct options, idle_poll, OPT_STRING, "jupyter-idle-poll-interval", 0, "TIME", "Without effect.",
	    .is_hidden = true),
	{ 0 },
};

static const struct opt_section sections[] = {
	{ "ENVIRONMENT", "EXECD_ACCESS_TOKEN", "The token, when --access-token is not given. Programs do not see it." },
	{ "ENVIRONMENT", "EXECD_ENVS", "A file of NAME=value lines, read for each command." },
	{ "ENVIRONMENT", "JUPYTER_HOST, JUPYTER_TOKEN", "The server and its token, when --jupyter-host and --jupyter-token are not given." },
	{ "SIGNALS", "SIGTERM, SIGINT", "Passed on to PROGRAM; what still runs after 5 seconds is killed." },
	{ "EXIT STATUS", "0, 1, 2", "Stopped; failed, with the reason on standard error; the command line is wrong." },
	{ "EXIT STATUS", "N", "That of PROGRAM, 128 plus the signal's number if it died of one." },
	{ 0 },
};

static const struct opt_command program = {
	.name = PROGRAM,
	.summary = "run commands in a sandbox for its clients",
	.about = "Serves the execution API over HTTP. With PROGRAM it runs that as well and ends with it.",
	.operands = "[PROGRAM [ARGUMENT...]]",
	.opts = opts,
	.sections = sections,
	.max_operands = OPT_OPERANDS_ANY,
	.stops_at_operand = true,
};

static int fail(const struct err *e, int code)
{
	(void)fprintf(stderr, PROGRAM ": %s\n", e->msg);
	return code;
}

/* Long options with one dash are taken for the same with two. */
static void double_dashes(int argc, char **argv, struct arena *a)
{
	for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		struct str name, value;
		bool has_value = str_cut(str_skip(str_of(argv[i]), 1), '=', &name, &value);
		const struct opt *o = opts;

		if (str_starts(name, STR("-")))
			name = str_skip(name, 1);
		while (o->name && !str_is(name, o->name))
			o++;
		if (o->name && argv[i][1] != '-') {
			char *fixed = arena_printf(a, "-%s", argv[i]);

			if (fixed)
				secret_wipe(argv[i], strlen(argv[i])); /* it may hold the token, for all to see */
			argv[i] = fixed ? fixed : argv[i];
		}
		if (o->name && o->kind != OPT_FLAG && !has_value)
			i++; /* its value is no option */
	}
}

static int print_help(void)
{
	AUTO(buf_done) struct buf text = BUF_INIT(HELP_MAX);

	opt_help(&program, PROGRAM, &text);
	return fputs(buf_z(&text), stdout) < 0 || fflush(stdout) < 0 ? EXIT_FAILED : EXIT_OK;
}

static enum log_level level_of(int64_t n)
{
	return n <= 3 ? LOG_LEVEL_ERROR : n == 4 ? LOG_LEVEL_WARN : n <= 6 ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
}

static int run(const struct options *o, const struct opt_result *r, struct arena *a)
{
	struct execd_config config = { .listen_fd = -1, .ready_fd = -1, .state_fd = -1, .gauges = CGROUP_GAUGES_INIT };
	struct err e = { 0 };
	int code;

	log_set_format(LOG_FORMAT_JSON);
	log_set_level(level_of(o->log_level));
	if (o->guest) {
		if (config_from_guest(o, a, &config, &e) < 0) {
			record_failed(config.state_fd, &e, config.is_image_bad);
			return fail(&e, EXIT_FAILED);
		}
	} else {
		(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* programs of our user are not to read the token */
		if (config_from_options(o, r->argv, environ, a, &config, &e) < 0)
			return fail(&e, EXIT_FAILED);
	}
	code = execd_run(&config, &e);
	return code < 0 ? fail(&e, EXIT_FAILED) : code;
}

/* The C library keeps what it knows about the heap where the kernel lets a program grow, which is far away from all that we have
 * mapped and needs page tables of its own: 12 KiB of every sandbox. With something in its way it takes a mapping. */
static void keep_heap_near(void)
{
#ifndef __GLIBC__
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = ((uintptr_t)sbrk(0) + page - 1) & ~(page - 1);

	(void)mmap((void *)at, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
#endif
}

int main(int argc, char **argv)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(CONFIG_ARENA_MAX);
	struct options o = { .port = EXECD_PORT, .log_level = 6 };
	struct opt_result r;
	struct err e = { 0 };

	keep_heap_near();
	signals_prepare_daemon();
	double_dashes(argc, argv, &a);
	if (opt_parse(&program, argc, argv, &o, &r, &e) < 0)
		return fail(&e, EXIT_USAGE);
	if (r.action == OPT_HELP)
		return print_help();
	return run(&o, &r, &a);
}
