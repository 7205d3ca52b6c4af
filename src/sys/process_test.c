// SPDX-License-Identifier: Apache-2.0
/* The program starts itself with a word that says what to be; see roles[] at the end. */
#include "sys/process.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "sys/fd.h"
#include "sys/refuse_test.h"
#include "sys/signals.h"
#include "sys/spawn_child.h"

#include "base/banned.h"

#define SELF "/proc/self/exe"
#define SOON_MS 10000 /* for what takes milliseconds on an idle machine */
#define NOBODY 65534

static char self_name[] = SELF;
#define ROLE(...) ((char *[]){ self_name, __VA_ARGS__, NULL })

/* Runs SP with its output in B (NUL-terminated) and returns how it ended. */
static struct process_end run(struct spawn_spec *sp, struct buf *b)
{
	struct process_end end = { 0 };
	struct err e = { 0 };
	AUTO_FD pidfd = -1;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	sp->out = ends[1];
	pidfd = process_spawn(sp, NULL, &e);
	(void)close(ends[1]);
	if (pidfd < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fd_read_all(ends[0], 4096, b, &e), 0);
	(void)close(ends[0]);
	assert_int_equal(process_wait(pidfd, SOON_MS, &end, &e), 0);
	return end;
}

static void check_output(struct spawn_spec *sp, const char *want)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct process_end end = run(sp, &b);

	assert_string_equal(buf_z(&b), want);
	assert_false(end.by_signal);
	assert_int_equal(end.code, 0);
}

static void exit_codes_and_signals_are_told_apart(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct spawn_spec sp = SPAWN_INIT(SELF, NULL);
	struct process_end end;

	(void)state;
	sp.argv = ROLE((char[]){ "exit" }, (char[]){ "0" });
	end = run(&sp, &b);
	assert_true(!end.by_signal && end.code == 0);
	sp.argv = ROLE((char[]){ "exit" }, (char[]){ "9" });
	end = run(&sp, &b);
	assert_true(!end.by_signal && end.code == 9 && !end.dumped_core);
	sp.argv = ROLE((char[]){ "die" });
	end = run(&sp, &b);
	assert_true(end.by_signal && end.code == SIGTERM);
}

/* As nohup-like starters leave it. Without signals_prepare() the kernel collects, and how it ended is lost. */
static int wait_with_sigchld_ignored(void *arg)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "exit" }, (char[]){ "7" }));
	struct process_end end = { 0 };
	struct err e = { 0 };
	AUTO_FD pidfd = -1;

	(void)arg;
	if (signal(SIGCHLD, SIG_IGN) == SIG_ERR)
		return 1;
	signals_prepare();
	pidfd = process_spawn(&sp, NULL, &e);
	if (pidfd < 0 || process_wait(pidfd, SOON_MS, &end, &e) < 0)
		return 2;
	return end.code == 7 ? 0 : 3;
}

static void an_inherited_sigchld_does_not_hide_the_end(void **state)
{
	(void)state;
	assert_int_equal(in_child(wait_with_sigchld_ignored, NULL), 0);
}

static void a_failing_exec_is_reported(void **state)
{
	static const struct {
		const char *path, *cwd, *want;
		enum err_code code;
	} cases[] = {
		{ "/no/such", NULL, "start '/no/such': exec: No such file or directory", ERR_NOT_FOUND },
		{ "/etc/passwd", NULL, "start '/etc/passwd': exec: Permission denied", ERR_DENIED },
		{ SELF, "/no", "start '" SELF "': change directory to '/no': No such file or directory", ERR_NOT_FOUND },
		{ SELF, "/etc/passwd", "start '" SELF "': change directory to '/etc/passwd': Not a directory",
		  ERR_INVALID },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spawn_spec sp = SPAWN_INIT(cases[i].path, ROLE((char[]){ "exit" }, (char[]){ "0" }));
		struct err e = { 0 };

		sp.cwd = cases[i].cwd;
		assert_int_equal(process_spawn(&sp, NULL, &e), -1);
		assert_string_equal(e.msg, cases[i].want);
		assert_int_equal(e.code, cases[i].code);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* the child has been collected */
		assert_int_equal(errno, ECHILD);
	}
}

static void the_program_has_only_its_three_descriptors(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "fds" }));
	int open_ones[40];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(open_ones); i++)
		open_ones[i] = dup(0); /* not close-on-exec: somebody's mistake */
	check_output(&sp, "0 1 2");
	for (size_t i = 0; i < ARRAY_LEN(open_ones); i++)
		(void)close(open_ones[i]);
}

static void standard_descriptors_default_to_null(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "stdio" }));

	(void)state;
	check_output(&sp, "in=null err=null");
}

/* Sources and numbers overlap in every way: 5 -> 6, 6 -> 5, 7 -> 7. */
static void descriptors_are_mapped_to_numbers(void **state)
{
	static const struct spawn_fd fds[] = { { 105, 106 }, { 106, 105 }, { 107, 107 }, { 107, 3 } };
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "read" }, (char[]){ "105" }, (char[]){ "106" },
						      (char[]){ "107" }));

	(void)state;
	for (int i = 0; i < 3; i++) {
		int ends[2];
		char c = (char)('a' + i);

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		assert_int_equal(write(ends[1], &c, 1), 1);
		(void)close(ends[1]);
		assert_int_equal(dup3(ends[0], 105 + i, O_CLOEXEC), 105 + i);
		(void)close(ends[0]);
	}
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	check_output(&sp, "bac"); /* 105 reads what was 106, and so on */
	sp.argv = ROLE((char[]){ "fds" });
	check_output(&sp, "0 1 2 3 105 106 107");
	for (int fd = 105; fd < 108; fd++)
		(void)close(fd);
}

static void bad_maps_are_refused(void **state)
{
	static const struct spawn_fd twice[] = { { 0, 5 }, { 1, 5 } }, low[] = { { 0, 2 } }, high[] = { { 0, 256 } },
				     none[] = { { -1, 5 } }, closed[] = { { 200, 5 } }, many[SPAWN_FDS_MAX + 1];
	static const struct {
		const struct spawn_fd *fds;
		size_t n;
		const char *want;
	} cases[] = {
		{ twice, 2, "start '" SELF "': descriptor number 5 twice" },
		{ low, 1, "start '" SELF "': descriptor 0 as number 2" },
		{ high, 1, "start '" SELF "': descriptor 0 as number 256" },
		{ none, 1, "start '" SELF "': descriptor -1 as number 5" },
		{ many, ARRAY_LEN(many), "start '" SELF "': more than 16 descriptors" },
		{ closed, 1, "start '" SELF "': descriptors: Bad file descriptor" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "fds" }));
		struct err e = { 0 };

		sp.fds = cases[i].fds;
		sp.n_fds = cases[i].n;
		assert_int_equal(process_spawn(&sp, NULL, &e), -1);
		assert_string_equal(e.msg, cases[i].want);
	}
}

static void the_environment_is_what_was_given(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "env" }));
	char one[] = "A=1", two[] = "B=2";
	char *const envp[] = { one, two, NULL };

	(void)state;
	check_output(&sp, "");
	sp.envp = envp;
	check_output(&sp, "A=1 B=2 ");
}

static void the_directory_comes_by_descriptor_or_path(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "cwd" }));
	AUTO_FD proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	sp.cwd = "/";
	check_output(&sp, "/");
	sp.cwd_fd = proc;
	sp.cwd = NULL;
	check_output(&sp, "/proc");
	sp.cwd = "sys";
	check_output(&sp, "/proc/sys");
}

static void a_bad_directory_descriptor_is_reported(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "cwd" }));
	AUTO_FD file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	struct err e = { 0 };

	(void)state;
	sp.cwd_fd = file;
	assert_int_equal(process_spawn(&sp, NULL, &e), -1);
	assert_string_equal(e.msg, "start '" SELF "': change directory to '.': Not a directory");
	sp.cwd_fd = 250;
	assert_int_equal(process_spawn(&sp, NULL, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

static void signals_are_reset(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "signals" }));
	sigset_t set, old, now;

	(void)state;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	check_output(&sp, "blocked=0 ignored=0");
	(void)sigprocmask(SIG_SETMASK, NULL, &now);
	assert_true(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGTERM)); /* ours are as they were */
	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
}

static void limits_and_umask_are_set(void **state)
{
	static const struct spawn_limit limits[] = { { RLIMIT_CORE, { 0, 0 } }, { RLIMIT_NOFILE, { 77, 88 } } };
	static const struct spawn_limit bad[] = { { 999, { 0, 0 } } };
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "limits" }));
	struct err e = { 0 };

	(void)state;
	sp.limits = limits;
	sp.n_limits = ARRAY_LEN(limits);
	sp.umask = 0027;
	check_output(&sp, "nofile=77/88 core=0 umask=0027");
	sp.limits = bad;
	sp.n_limits = 1;
	assert_int_equal(process_spawn(&sp, NULL, &e), -1);
	assert_string_equal(e.msg, "start '" SELF "': resource limits: Invalid argument");
}

static void sessions_and_groups(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "groups" }));

	(void)state;
	check_output(&sp, "leads nothing");
	sp.new_group = true;
	check_output(&sp, "leads group");
	sp.new_session = true;
	check_output(&sp, "leads session group");
}

static void ids_change_with_no_groups_left(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "ids" }));

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: changing ids needs root\n");
		skip();
	}
	sp.keep_ids = false;
	sp.uid = NOBODY;
	sp.gid = NOBODY - 1;
	sp.death_signal = SIGKILL;
	check_output(&sp, "65534 65534 65533 65533 0 death=9");
}

static int spawn_as_nobody(void *arg)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "ids" }));
	struct err e = { 0 };

	(void)arg;
	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return 1;
	sp.keep_ids = false;
	if (process_spawn(&sp, NULL, &e) >= 0)
		return 2;
	return e.code == ERR_DENIED && strstr(e.msg, "user and group ids: Operation not permitted") ? 0 : 3;
}

static void ids_that_cannot_change_are_an_error(void **state)
{
	(void)state;
	assert_int_equal(in_child(spawn_as_nobody, NULL), 0);
}

static int fail_setup(void *arg, struct err *e)
{
	return err_set(e, ERR_CONFLICT, "cannot set up '%s'", (const char *)arg);
}

static int say_setup(void *arg, struct err *e)
{
	(void)e;
	return write(1, arg, 5) == 5 ? 0 : -1;
}

static void the_setup_callback_runs_last(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "cwd" }));
	char said[] = "setup";
	struct err e = { 0 };

	(void)state;
	sp.cwd = "/";
	sp.setup = say_setup;
	sp.setup_arg = said;
	check_output(&sp, "setup/");
	sp.setup = fail_setup;
	assert_int_equal(process_spawn(&sp, NULL, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_string_equal(e.msg, "start '" SELF "': cannot set up 'setup'");
}

static void waiting_has_a_timeout(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "sleep" }));
	struct process_end end = { 0 };
	struct err e = { 0 };
	uint64_t start = clock_mono_ms();
	pid_t pid = 0;
	AUTO_FD pidfd = process_spawn(&sp, &pid, &e);

	(void)state;
	assert_true(pidfd >= 0 && pid > 0 && kill(pid, 0) == 0);
	assert_int_equal(process_wait(pidfd, 0, &end, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	start = clock_mono_ms();
	assert_int_equal(process_wait(pidfd, 20, &end, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	assert_true(clock_mono_ms() - start >= 19);
	assert_int_equal(process_kill_and_wait(pidfd, SOON_MS, &end, &e), 0);
	assert_true(end.by_signal && end.code == SIGKILL);
	assert_int_equal(process_kill_and_wait(pidfd, SOON_MS, &end, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(process_wait(pidfd, -1, &end, &e), -1);
	assert_int_equal(e.sys, ECHILD);
}

static int wait_interrupted(void *arg)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "sleep" }));
	struct process_end end = { 0 };
	struct err e = { 0 };
	uint64_t start;
	int pidfd;

	(void)arg;
	if (interrupt_often() < 0)
		return 1;
	pidfd = process_spawn(&sp, NULL, &e);
	if (pidfd < 0)
		return 2;
	start = clock_mono_ms();
	if (process_wait(pidfd, 50, &end, &e) == 0 || e.code != ERR_TIMEOUT)
		return 3;
	if (clock_mono_ms() - start < 49 || clock_mono_ms() - start > SOON_MS)
		return 4;
	return process_kill_and_wait(pidfd, -1, &end, &e) == 0 && end.code == SIGKILL ? 0 : 5;
}

static void signals_do_not_shorten_a_wait(void **state)
{
	(void)state;
	assert_int_equal(in_child(wait_interrupted, NULL), 0);
}

static void a_signal_reaches_the_process(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "sleep" }));
	struct process_end end = { 0 };
	struct err e = { 0 };
	AUTO_FD pidfd = process_spawn(&sp, NULL, &e);

	(void)state;
	assert_true(pidfd >= 0);
	assert_int_equal(process_signal(pidfd, SIGTERM, &e), 0);
	assert_int_equal(process_wait(pidfd, -1, &end, &e), 0);
	assert_true(end.by_signal && end.code == SIGTERM);
	assert_int_equal(process_signal(-1, SIGTERM, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

static bool ends_soon(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	return poll(&p, 1, SOON_MS) == 1 && read(fd, &c, 1) == 0;
}

/* A "parent" starts a "sleep" with a death signal and ends when its input does. */
static void the_death_signal_follows_the_parent(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "parent" }));
	struct process_end end = { 0 };
	struct err e = { 0 };
	AUTO_FD pidfd = -1;
	int in[2], out[2];
	char ready;

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	sp.in = in[0];
	sp.out = out[1];
	pidfd = process_spawn(&sp, NULL, &e);
	(void)close(in[0]);
	(void)close(out[1]);
	assert_true(pidfd >= 0);
	assert_int_equal(read(out[0], &ready, 1), 1);
	(void)close(in[1]);
	assert_int_equal(process_wait(pidfd, SOON_MS, &end, &e), 0);
	assert_true(!end.by_signal && end.code == 0);
	assert_true(ends_soon(out[0])); /* the sleeper held the other end */
	(void)close(out[0]);
}

static void a_parent_that_is_gone_already_is_noticed(void **state)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "sleep" }));
	struct spawn_report report;
	struct err e = { 0 };
	int ends[2];
	pid_t pid;

	(void)state;
	sp.death_signal = SIGKILL;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		spawn_child(&sp, getpid(), ends[1]); /* nobody is one's own parent */
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], &report, sizeof(report)), sizeof(report));
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(report.stage, SPAWN_DEATH_SIGNAL);
	assert_int_equal(spawn_report_read(&report, &sp, &e), -1);
	assert_string_equal(e.msg, "parent: No such process");
}

static int spawn_seven(void *arg)
{
	const unsigned *refused = arg; /* ends with 0 */
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "exit" }, (char[]){ "7" }));
	struct process_end end = { 0 };
	struct err e = { 0 };
	int pidfd;

	for (; *refused; refused++)
		if (refuse_syscall(*refused) < 0)
			return 1;
	pidfd = process_spawn(&sp, NULL, &e);
	if (pidfd < 0)
		return e.code == ERR_UNAVAILABLE && strstr(e.msg, "the kernel lacks pidfd_open") ? 100 : 2;
	if (fcntl(pidfd, F_GETFD) != FD_CLOEXEC || process_wait(pidfd, SOON_MS, &end, &e) < 0)
		return 3;
	return end.code;
}

static void without_clone3_it_forks(void **state)
{
	unsigned clone3[] = { SYS_clone3, 0 }, both[] = { SYS_clone3, SYS_close_range, 0 };

	(void)state;
	assert_int_equal(in_child(spawn_seven, clone3), 7);
	assert_int_equal(in_child(spawn_seven, both), 7);
}

static void without_any_pidfd_it_refuses_by_name(void **state)
{
	unsigned nrs[] = { SYS_clone3, SYS_pidfd_open, 0 };

	(void)state;
	assert_int_equal(in_child(spawn_seven, nrs), 100);
}

/* fork() fails with EAGAIN (as an ordinary user), pipes with EMFILE. */
static int spawn_without_room(void *arg)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "exit" }, (char[]){ "0" }));
	struct rlimit none = { 0, 0 };
	struct err e = { 0 };

	(void)arg;
	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return 1;
	if (setrlimit(RLIMIT_NPROC, &none) < 0 || process_spawn(&sp, NULL, &e) >= 0 || e.sys != EAGAIN)
		return 2;
	if (refuse_syscall(SYS_clone3) < 0 || process_spawn(&sp, NULL, &e) >= 0 || e.sys != EAGAIN)
		return 3;
	none = (struct rlimit){ 3, 3 };
	if (setrlimit(RLIMIT_NOFILE, &none) < 0 || process_spawn(&sp, NULL, &e) >= 0 || e.sys != EMFILE)
		return 4;
	return 0;
}

static void no_room_for_a_process_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(in_child(spawn_without_room, NULL), 0);
}

/* ---- what the program is when it is started by itself -------------------------------------------------- */

static int be_exit(char **args)
{
	return args[0][0] - '0';
}

static int be_die(char **args)
{
	(void)args;
	return raise(SIGTERM);
}

static int be_fds(char **args)
{
	const char *gap = "";

	(void)args;
	for (int fd = 0; fd < 1000; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		printf("%s%d", gap, fd);
		gap = " ";
	}
	return 0;
}

static bool is_null(int fd)
{
	struct stat null, st;

	return stat("/dev/null", &null) == 0 && fstat(fd, &st) == 0 && st.st_rdev == null.st_rdev &&
	       S_ISCHR(st.st_mode);
}

static int be_stdio(char **args)
{
	(void)args;
	printf("in=%s err=%s", is_null(0) ? "null" : "other", is_null(2) ? "null" : "other");
	return 0;
}

static int be_read(char **args)
{
	for (; *args; args++) {
		uint64_t fd;
		char c;

		if (!str_to_u64(str_of(*args), 3, 1000, &fd) || read((int)fd, &c, 1) != 1)
			return 1;
		putchar(c);
	}
	return 0;
}

static int be_env(char **args)
{
	(void)args;
	for (char **v = environ; *v; v++)
		printf("%s ", *v);
	return 0;
}

static int be_cwd(char **args)
{
	char path[4096];

	(void)args;
	printf("%s", getcwd(path, sizeof(path)) ? path : "?");
	return 0;
}

static int be_signals(char **args)
{
	int blocked = 0, ignored = 0;
	struct sigaction sa;
	sigset_t set;

	(void)args;
	(void)sigprocmask(SIG_SETMASK, NULL, &set);
	for (int i = 1; i < 64; i++) {
		blocked += sigismember(&set, i) == 1;
		ignored += sigaction(i, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
	}
	printf("blocked=%d ignored=%d", blocked, ignored);
	return 0;
}

static int be_limits(char **args)
{
	struct rlimit n = { 0 }, c = { 0 };

	(void)args;
	(void)getrlimit(RLIMIT_NOFILE, &n);
	(void)getrlimit(RLIMIT_CORE, &c);
	printf("nofile=%d/%d core=%d umask=%04o", (int)n.rlim_cur, (int)n.rlim_max, (int)c.rlim_cur,
	       (unsigned)umask(0));
	return 0;
}

static int be_groups(char **args)
{
	bool session = getsid(0) == getpid(), group = getpgrp() == getpid();

	(void)args;
	printf("leads%s%s%s", session ? " session" : "", group ? " group" : "", session || group ? "" : " nothing");
	return 0;
}

static int be_ids(char **args)
{
	int death = 0;

	(void)args;
	(void)prctl(PR_GET_PDEATHSIG, &death);
	printf("%d %d %d %d %d death=%d", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid(),
	       getgroups(0, NULL), death);
	return 0;
}

static int be_sleep(char **args)
{
	(void)args;
	(void)poll(NULL, 0, 4 * SOON_MS);
	return 0;
}

/* Starts a "sleep" that keeps our output, and says so with one byte. */
static int start_sleeper(int death_signal)
{
	struct spawn_spec sp = SPAWN_INIT(SELF, ROLE((char[]){ "sleep" }));
	struct err e = { 0 };

	sp.out = 1;
	sp.death_signal = death_signal;
	return process_spawn(&sp, NULL, &e) >= 0 && write(1, "r", 1) == 1 ? 0 : -1;
}

static int be_parent(char **args)
{
	char c;

	(void)args;
	return start_sleeper(SIGKILL) < 0 || read(0, &c, 1) != 0;
}

static const struct {
	const char *name;
	int (*be)(char **args);
} roles[] = {
	{ "exit", be_exit },     { "die", be_die },       { "fds", be_fds },       { "stdio", be_stdio },
	{ "read", be_read },     { "env", be_env },       { "cwd", be_cwd },       { "signals", be_signals },
	{ "limits", be_limits }, { "groups", be_groups }, { "ids", be_ids },       { "sleep", be_sleep },
	{ "parent", be_parent },
};

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_codes_and_signals_are_told_apart),
		cmocka_unit_test(an_inherited_sigchld_does_not_hide_the_end),
		cmocka_unit_test(a_failing_exec_is_reported),
		cmocka_unit_test(the_program_has_only_its_three_descriptors),
		cmocka_unit_test(standard_descriptors_default_to_null),
		cmocka_unit_test(descriptors_are_mapped_to_numbers),
		cmocka_unit_test(bad_maps_are_refused),
		cmocka_unit_test(the_environment_is_what_was_given),
		cmocka_unit_test(the_directory_comes_by_descriptor_or_path),
		cmocka_unit_test(a_bad_directory_descriptor_is_reported),
		cmocka_unit_test(signals_are_reset),
		cmocka_unit_test(limits_and_umask_are_set),
		cmocka_unit_test(sessions_and_groups),
		cmocka_unit_test(ids_change_with_no_groups_left),
		cmocka_unit_test(ids_that_cannot_change_are_an_error),
		cmocka_unit_test(the_setup_callback_runs_last),
		cmocka_unit_test(waiting_has_a_timeout),
		cmocka_unit_test(signals_do_not_shorten_a_wait),
		cmocka_unit_test(a_signal_reaches_the_process),
		cmocka_unit_test(the_death_signal_follows_the_parent),
		cmocka_unit_test(a_parent_that_is_gone_already_is_noticed),
		cmocka_unit_test(without_clone3_it_forks),
		cmocka_unit_test(without_any_pidfd_it_refuses_by_name),
		cmocka_unit_test(no_room_for_a_process_is_an_error),
	};

	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(roles); i++)
		if (str_is(str_of(argv[1]), roles[i].name))
			return roles[i].be(argv + 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
