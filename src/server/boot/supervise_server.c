// SPDX-License-Identifier: Apache-2.0
/* The server as the supervisor starts it: a copy of this process, without its rights. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "server/boot/confine.h"
#include "server/boot/supervise_impl.h"

#include "base/banned.h"

#define SERVER_NICE (-10)
#define SERVER_NICE_TEXT "-10"

/* For serve(): what only root can open has been opened. */
static int drop_rights(void *arg, struct err *e)
{
	const struct supervisor *s = arg;

	if (confine_server(s->about.uid, s->about.gid, e) < 0)
		return -1;
	/* After the ids: a change of them clears it. There is nothing to drain for: who is started next must have the ports and
	 * the database at once. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, errno, "follow the supervisor");
	return getppid() == s->pid ? 0 : err_set(e, ERR_UNAVAILABLE, "the supervisor has ended");
}

/* Whoever calls waits for the server in every sandbox's name: it goes before what runs in them, which would otherwise make it
 * wait for a tick. Kernels that group processes by session (autogroup) weigh sessions first, so it has one of its own. Where
 * neither may be set, it is as all others are. */
static void go_first(void)
{
	AUTO_FD group = -1;

	(void)setsid();
	(void)setpriority(PRIO_PROCESS, 0, SERVER_NICE);
	group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (group >= 0)
		(void)!write(group, SERVER_NICE_TEXT, strlen(SERVER_NICE_TEXT));
}

/* In the child. Everything of the supervisor's but the sockets for clients goes, then every right. */
static _Noreturn void run_server(struct supervisor *s, int ready)
{
	struct serve_spec spec = *s->spec;
	int status = SERVE_FAILED;
	struct err e = { 0 };

	spec.sockets = &s->sockets;
	spec.state_dir = s->about.state_dir;
	spec.has_network = s->about.has_network;
	spec.network_lacks = s->about.network_lacks;
	spec.drop_rights = drop_rights;
	spec.drop_arg = s;
	spec.ready_fd = ready;
	spec.ret_status = &status;
#ifdef KILL_POINTS
	kill_point_open(s->kill_points);
#endif
	closep(&s->signals);
	for (size_t i = 0; i < s->n_children; i++) {
		closep(&s->children[i].pidfd);
		closep(&s->children[i].pulse);
	}
	closep(&s->ready);
	for (size_t i = 0; i < HELPERS_MAX; i++)
		closep(&s->helpers[i]);
	spec.kind->release(s->host);
	go_first();
	if ((is_job(s) ? spec.job : serve)(&spec, &e) == 0)
		status = EXIT_SUCCESS;
	else
		(void)fprintf(stderr, "opensandbox-server: %s\n", e.msg);
	if (status == SERVE_DAMAGED)
		(void)fputs("opensandbox-server: nothing was changed; 'opensandbox-server recover' makes a new database from what "
			    "is left of it and from the sandboxes that run\n", stderr);
	confine_end();
	exit(status);
}

int supervise_start_server(struct supervisor *s, struct err *e)
{
	struct child *server = server_of(s);
	AUTO_FD ready = -1;
	AUTO_FD told = -1;
	pid_t pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	ready = ends[0];
	told = ends[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "start the server");
	if (pid == 0) {
		(void)close(take_fd(&ready));
		run_server(s, take_fd(&told));
	}
	server->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* it stays its own until it is collected */
	if (server->pidfd < 0) {
		(void)err_sys(e, errno, "follow the server");
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return -1;
	}
	closep(&s->ready);
	s->ready = take_fd(&ready);
	closep(&server->pulse);
	server->pulse = -1;
	return 0;
}
