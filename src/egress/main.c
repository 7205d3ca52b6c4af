// SPDX-License-Identifier: Apache-2.0
/* opensandbox-egress: resolver, policies and relay of all sandboxes of this host. It begins as a user of its own, with an empty
 * environment and the descriptors of box/egress_start.h, and before it hears anything it gives up what it does not need of the
 * little that this is. Its sockets for sandboxes come from the warden. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/own.h"
#include "box/confine.h"
#include "box/egress_start.h"
#include "egress/confine.h"
#include "egress/egress.h"
#include "egress/resolv.h"
#include "egress/sidecar.h"
#include "net/loop.h"
#include "sys/fd.h"
#include "sys/limits.h"
#include "sys/signals.h"

#include "base/banned.h"

#define PROGRAM "opensandbox-egress"
#define TEXT_MAX ((size_t)64 * 1024)
#define WEBHOOK_URL_MAX 4096

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

struct options {
	bool is_sidecar;
	const char *warden, *rules_dir, *log_level;
	struct opt_list upstreams, opened;
	int64_t max_rules, webhook_fd, pulse_fd;
	bool log_json;
};

static const struct opt opts[] = {
	OPT(struct options, is_sidecar, OPT_FLAG, "sidecar", 0, NULL,
	    "Run as a sidecar, for the sandbox whose network this process shares. Settings come from the environment (OPENSANDBOX_EGRESS_...); other options are ignored."),
	OPT(struct options, warden, OPT_STRING, "warden", 0, "PATH", "Socket of the warden."),
	OPT(struct options, upstreams, OPT_LIST, "upstream", 0, "ADDRESS[:PORT]",
	    "Upstream resolver; the first answer is used. Default: those of " RESOLV_CONF ", as it changes."),
	OPT(struct options, rules_dir, OPT_STRING, "rules-dir", 0, "DIR",
	    "Read operator rules from DIR: deny.always, allow.always, doh.always and log_skip.always. They precede every policy."),
	OPT(struct options, webhook_fd, OPT_INT, "deny-webhook-fd", 0, "N",
	    "POST denied names to the URL in the file N. The URL may contain a secret, so it is no argument.",
		    .min = 3,
	    .max = 1 << 20),
	OPT(struct options, pulse_fd, OPT_INT, "pulse-fd", 0, "N",
	    "Heartbeat: write a byte to the pipe N every second.", .min = 3,
	    .max = 1 << 20),
	OPT(struct options, max_rules, OPT_INT, "max-rules", 0, "N", "Refuse policies with more rules.", .min = 1, .max = POLICY_RULES_MAX),
	OPT(struct options, opened, OPT_LIST, "allow-private", 0, "NETWORK",
	    "Let policies allow this private or reserved network."),
	OPT(struct options, log_level, OPT_STRING, "log-level", 0, "LEVEL",
	    "Log messages of LEVEL and above."),
	OPT(struct options, log_json, OPT_FLAG, "log-json", 0, NULL, "Log in JSON."),
	{ 0 },
};

static const struct opt_section sections[] = {
	{ "SIGNALS", "SIGHUP", "Read the lists of --rules-dir again; also done every 10 seconds." },
	{ "SIGNALS", "SIGTERM, SIGINT",
	  "Stop. Rules about addresses stay in force; names are not resolved any more." },
	{ 0 },
};

static const struct opt_command program = {
	.name = PROGRAM,
	.summary = "resolver, network policies and relay of sandboxes",
	.about = "Started by opensandbox-server, or as a container beside a sandbox.",
	.opts = opts,
	.sections = sections,
};

static int fail(const struct err *e, int status)
{
	(void)fprintf(stderr, PROGRAM ": %s\n", e->msg);
	return status;
}

/* ---- the options ---- */

static int find_upstreams(const struct options *in, struct egress_options *o, struct err *e)
{
	struct addr a = { 0 };

	for (size_t i = 0; i < in->upstreams.n; i++) {
		if (resolv_address(str_of(in->upstreams.items[i]), &a, e) < 0)
			return -1;
		resolv_add(o->upstreams, &o->n_upstreams, UPSTREAMS_MAX, &a);
	}
	if (in->upstreams.n > 0)
		return 0;
	o->follows_resolv_conf = true;
	if (resolv_read(o->upstreams, UPSTREAMS_MAX, &o->n_upstreams, e) < 0)
		log_warn("no resolver is known", LOG_ERR(e));
	else if (o->n_upstreams == 0)
		log_warn("no resolver is known: no sandbox can resolve a name");
	return 0;
}

static int find_opened(const struct options *in, struct egress_options *o, struct err *e)
{
	char name[HOST_NAME_LEN_MAX + 1];

	for (size_t i = 0; i < in->opened.n; i++) {
		struct policy_rule r = { .action = POLICY_ALLOW };

		if (i == OPENED_MAX)
			return err_set(e, ERR_LIMIT, "--allow-private: at most %d networks", OPENED_MAX);
		if (policy_target(str_of(in->opened.items[i]), &r, name, e) < 0 || r.kind != POLICY_NET)
			return err_set(e, ERR_INVALID, "--allow-private: '%s' is no network", in->opened.items[i]);
		r.target = in->opened.items[i];
		o->opened[o->n_opened++] = r;
	}
	return 0;
}

/* *RET is of the process, for as long as it lives. */
static int read_webhook(int fd, const char **ret, struct err *e)
{
	static struct buf b = { .max = WEBHOOK_URL_MAX };
	int k = fd_read_all(fd, WEBHOOK_URL_MAX, &b, e);

	(void)close(fd);
	if (k < 0 || b.failed)
		return err_wrap(e, "--deny-webhook-fd");
	*ret = b.n > 0 ? buf_z(&b) : NULL;
	return 0;
}

static int check(const struct options *in, struct egress_options *o, struct err *e)
{
	if (!in->warden || in->warden[0] != '/')
		return err_set(e, ERR_INVALID, "--warden needs an absolute path");
	if (in->rules_dir && in->rules_dir[0] != '/')
		return err_set(e, ERR_INVALID, "--rules-dir needs an absolute path");
	if (fcntl(EGRESS_FD_API, F_GETFD) < 0 || fcntl(EGRESS_FD_STATE, F_GETFD) < 0)
		return err_set(e, ERR_INVALID, "started by opensandbox-server; it is of no use on its own");
	*o = (struct egress_options){ .warden = in->warden, .rules_dir = in->rules_dir, .max_rules = (size_t)in->max_rules,
				      .api = EGRESS_FD_API, .state = { .dir = EGRESS_FD_STATE }, .warden_fd = -1, .sockets_fd = -1,
				      .pulse = (int)in->pulse_fd };
	if (in->webhook_fd >= 0 && read_webhook((int)in->webhook_fd, &o->webhook, e) < 0)
		return -1;
	if (fd_set_cloexec(EGRESS_FD_API, true, e) < 0 || fd_set_nonblock(EGRESS_FD_API, true, e) < 0 ||
	    fd_set_cloexec(EGRESS_FD_STATE, true, e) < 0)
		return -1;
	return find_upstreams(in, o, e) < 0 ? -1 : find_opened(in, o, e);
}

static void set_log(const struct options *o)
{
	enum log_level level;

	if (o->log_level && log_level_parse(str_of(o->log_level), &level))
		log_set_level(level);
	if (o->log_json)
		log_set_format(LOG_FORMAT_JSON);
}

/* ---- running ---- */

struct signals {
	struct loop *loop;
	struct egress *egress;
	int fd;
	struct io io;
};

static void on_signal(unsigned ready, void *arg)
{
	struct signals *s = arg;
	int signo = 0;

	(void)ready;
	while (signals_read(s->fd, &signo, NULL, &(struct err){ 0 }) == 1)
		if (signo == SIGHUP)
			egress_reload(s->egress);
		else
			loop_stop(s->loop);
}

static int serve(const struct egress_options *o, const sigset_t *set, struct err *e)
{
	AUTO(loop_free) struct loop *l = loop_new(e);
	AUTO(egress_free) struct egress *g = NULL;
	struct signals s = { .loop = l, .fd = -1 };
	int status;

	if (!l)
		return -1;
	g = egress_new(l, o, e);
	if (!g)
		return -1;
	s.egress = g;
	s.fd = signals_open(set, e);
	if (s.fd < 0 || io_add(&s.io, l, s.fd, IO_IN, on_signal, &s, "signals", e) < 0) {
		closep(&s.fd);
		return -1;
	}
	status = loop_run(l, e);
	io_del(&s.io);
	closep(&s.fd);
	return status;
}

static int run_egress(const struct egress_options *o)
{
	const sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);
	struct err e = { 0 };
	int status = EXIT_OK;

	limits_raise(RLIMIT_NOFILE);
	if (signals_block(&set, &e) < 0 || confine_egress(o->state.dir, o->rules_dir, &e) < 0 || serve(o, &set, &e) < 0)
		status = fail(&e, EXIT_FAILED);
	confine_process_end();
	return status;
}

int main(int argc, char **argv)
{
	struct options in = { .max_rules = POLICY_RULES_MAX, .webhook_fd = -1, .pulse_fd = -1 };
	static struct egress_options o; /* the strings of argv last as long */
	struct opt_result r;
	struct err e;

	signals_prepare_daemon();
	(void)umask(077);
	if (opt_parse(&program, argc, argv, &in, &r, &e) < 0)
		return fail(&e, EXIT_USAGE);
	if (r.action == OPT_HELP) {
		AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

		opt_help(&program, PROGRAM, &b);
		return puts(buf_z(&b)) < 0 ? EXIT_FAILED : EXIT_OK;
	}
	(void)prctl(PR_SET_NAME, PROGRAM, 0, 0, 0); /* it was started by a number */
	if (in.is_sidecar)
		return sidecar_run(run_egress);
	set_log(&in);
	if (check(&in, &o, &e) < 0)
		return fail(&e, EXIT_USAGE);
	(void)close(EGRESS_FD_PROGRAM); /* or it was not there */
	return run_egress(&o);
}
