// SPDX-License-Identifier: Apache-2.0
/* opensandbox-ingress: the gateway in front of sandboxes. It may be started as root for a low port or for keys that only root can
 * read; before the first request it has an id of its own and no rights. */
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/version.h"
#include "box/confine.h"
#include "ingress/confine.h"
#include "ingress/run.h"
#include "sys/signals.h"

#include "base/banned.h"

#define PROGRAM "opensandbox-ingress"
#define TEXT_MAX ((size_t)256 * 1024)

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

struct options {
	int64_t port;
	const char *listen, *metrics_listen, *mode, *provider, *namespace, *log_level, *log_format, *user;
	struct opt_list servers, proxies;
	const char *server_key_file, *server_ca_file, *gateway_socket, *tls_cert, *tls_key;
	bool tells_intents;
	const char *redis_dsn, *redis_queue;
	int64_t queue_max, interval;
	const char *keys, *keys_file;
	bool man;
	const char *completion;
};

static const char *const modes[] = { "header", "wildcard", "uri", NULL };
static const char *const providers[] = { "server", NULL };
static const char *const levels[] = { "debug", "info", "warn", "warning", "error", NULL };
static const char *const formats[] = { "text", "json", NULL };
static const char *const shells[] = { "bash", "zsh", "fish", NULL };

#define O(member, kind, name, arg, help, ...) OPT(struct options, member, kind, name, 0, arg, help, __VA_ARGS__)

static const struct opt opts[] = {
	O(port, OPT_INT, "port", "PORT", "Listen on PORT of all interfaces.", .min = 1, .max = 65535),
	O(listen, OPT_STRING, "listen", "ADDRESS:PORT", "Listen on this address instead of --port."),
	O(mode, OPT_STRING, "mode", "MODE",
	  "How requests name a sandbox: 'header', by the header OpenSandbox-Ingress-To or the first label of the host (ID-PORT); "
	  "'wildcard' is the same; 'uri', by the path (/ID/PORT/...).", .choices = modes),
	O(provider, OPT_STRING, "provider-type", "TYPE",
	  "How sandboxes are found: 'server', by one or several opensandbox-servers.",
	  .choices = providers),
	O(servers, OPT_LIST, "server", "URL", "An opensandbox-server, http://HOST[:PORT] or https://HOST[:PORT]."),
	O(server_key_file, OPT_STRING, "server-key-file", "FILE", "The API key of the servers.",
	  .is_file = true),
	O(server_ca_file, OPT_STRING, "server-ca-file", "FILE",
	  "Trust the certificates of FILE for https servers instead of the system's.",
	  .is_file = true),
	O(gateway_socket, OPT_STRING, "gateway-socket", "SOCKET",
	  "The gateway socket of the first --server, which runs on this host (its setting ingress.gateway_socket): requests go "
	  "straight into its sandboxes instead of through its proxy.", .is_file = true),
	O(tls_cert, OPT_STRING, "tls-cert", "FILE", "Serve https with this certificate chain (PEM).", .is_file = true),
	O(tls_key, OPT_STRING, "tls-key", "FILE", "The private key of --tls-cert (PEM).", .is_file = true),
	O(keys, OPT_STRING, "secure-access-keys", "KEYS",
	  "Keys of signed routes: ID=BASE64, separated by commas. Visible in process lists; see --secure-access-keys-file."),
	O(keys_file, OPT_STRING, "secure-access-keys-file", "FILE",
	  "Keys of signed routes from a file, one or several in each line.", .is_file = true),
	O(tells_intents, OPT_FLAG, "renew-intent-enabled", NULL,
	  "Report used sandboxes to the servers, through a list in Redis."),
	O(redis_dsn, OPT_STRING, "renew-intent-redis-dsn", "DSN",
	  "Address of Redis: redis://, rediss:// or unix://."),
	O(redis_queue, OPT_STRING, "renew-intent-queue-key", "KEY", "Name of the list."),
	O(queue_max, OPT_INT, "renew-intent-queue-max-len", "N",
	  "Maximum length of the list, newest first; 0: no limit.", .min = 0,
	  .max = INT64_MAX),
	O(interval, OPT_INT, "renew-intent-min-interval", "SECONDS",
	  "Report each sandbox once in this time; 0: every request.", .min = 0,
	  .max = 86400),
	O(proxies, OPT_LIST, "trusted-proxy", "NETWORK",
	  "Address or network (10.0.0.0/8) of proxies in front whose X-Forwarded-For is trusted."),
	O(metrics_listen, OPT_STRING, "metrics-listen", "ADDRESS:PORT", "Serve /metrics (for Prometheus) and /healthz there."),
	O(user, OPT_STRING, "user", "NAME", "Account to run as when started as root. Default: an unused id."),
	O(log_level, OPT_STRING, "log-level", "LEVEL", "Log messages of LEVEL and above.", .choices = levels),
	O(log_format, OPT_STRING, "log-format", "FORMAT", "Format of log lines: text or JSON.",
	  .choices = formats),
	O(namespace, OPT_STRING, "namespace", "NAME", "Known; sandboxes are found by their id alone.", .is_hidden = true),
	O(man, OPT_FLAG, "man", NULL, "Print the page of the manual.", .is_hidden = true),
	O(completion, OPT_STRING, "completion", "SHELL", "Print a completion script.", .choices = shells, .is_hidden = true),
	{ 0 },
};

static const struct opt_section sections[] = {
	{ "ROUTES", "ID-PORT", "Port PORT of the sandbox ID, in OpenSandbox-Ingress-To or as the first label of the host." },
	{ "ROUTES", "ID-PORT-EXPIRES-SIGNATURE", "The same, signed: for sandboxes with secureAccess, without their header." },
	{ "ROUTES", "/ID/PORT/REST, /ID/PORT/EXPIRES/SIGNATURE/REST", "The same in the mode 'uri'; the sandbox sees /REST." },
	{ "ROUTES", "/status.ok", "Answers OK where a request names no sandbox." },
	{ "SIGNALS", "SIGTERM, SIGINT", "Stop: requests in progress get 10 seconds to end. A second one stops at once." },
	{ "SIGNALS", "SIGHUP",
	  "Read the certificate, the keys and the servers' key anew, as the gateway's own user, and look up the servers' names." },
	{ "EXIT STATUS", "0", "Stopped by a signal." },
	{ "EXIT STATUS", "1", "Failed; see standard error." },
	{ "EXIT STATUS", "2", "Wrong command line." },
	{ 0 },
};

static const struct opt_command program = {
	.name = PROGRAM,
	.summary = "the gateway in front of OpenSandbox sandboxes",
	.about = "Passes HTTP requests and WebSockets on to ports of sandboxes, which it looks up at one or several opensandbox-servers. "
		 "Sandboxes with secureAccess are open to requests with their token or with a signed route alone.",
	.version = OPENSANDBOX_VERSION,
	.opts = opts,
	.sections = sections,
};

static int fail(const struct err *e, int status)
{
	(void)fprintf(stderr, PROGRAM ": %s\n", e->msg);
	if (status == EXIT_USAGE)
		(void)fputs("Try '" PROGRAM " --help'.\n", stderr);
	return status;
}

static int print(const struct buf *text)
{
	return text->failed || fputs(buf_z(text), stdout) < 0 || fflush(stdout) < 0 ? EXIT_FAILED : EXIT_OK;
}

/* Texts about the program. */
static int print_about(const struct options *o, const struct opt_result *r)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	char date[16] = "";
	time_t now = time(NULL);
	struct tm tm;
	struct err e = { 0 };

	if (r->action == OPT_VERSION)
		buf_addf(&text, PROGRAM " " OPENSANDBOX_VERSION "\n");
	else if (r->action == OPT_HELP)
		opt_help(&program, PROGRAM, &text);
	else if (o->completion && opt_completion(o->completion, &program, &text, &e) < 0)
		return fail(&e, EXIT_FAILED);
	else if (o->man && gmtime_r(&now, &tm) && strftime(date, sizeof(date), "%Y-%m-%d", &tm) > 0)
		opt_man(&program, PROGRAM, date, "opensandbox " OPENSANDBOX_VERSION, &text);
	return print(&text);
}

static int check(const struct options *o, struct err *e)
{
	if (o->servers.n == 0)
		return err_set(e, ERR_INVALID, "at least one --server is needed");
	if (!o->tls_cert != !o->tls_key)
		return err_set(e, ERR_INVALID, "--tls-cert and --tls-key need each other");
	return 0;
}

static int serve(const struct options *o)
{
	struct run_spec spec = {
		.listen = o->listen, .port = (unsigned)o->port, .metrics = o->metrics_listen,
		.mode = str_is(str_of(o->mode), "uri") ? GATEWAY_URI : GATEWAY_HEADER, .user = o->user,
		.servers = o->servers.items, .n_servers = o->servers.n, .proxies = o->proxies.items, .n_proxies = o->proxies.n, .server_key_file = o->server_key_file,
		.server_ca_file = o->server_ca_file, .gateway_socket = o->gateway_socket,
			.tls_cert = o->tls_cert, .tls_key = o->tls_key, .keys = o->keys,
		.keys_file = o->keys_file, .tells_intents = o->tells_intents, .redis_dsn = o->redis_dsn,
		.redis_queue = o->redis_queue, .queue_max = (uint64_t)o->queue_max, .interval_s = (uint64_t)o->interval,
	};
	enum log_level level = LOG_LEVEL_INFO;
	enum log_format format = LOG_FORMAT_TEXT;
	struct err e = { 0 };
	int status;

	if (check(o, &e) < 0)
		return fail(&e, EXIT_USAGE);
	(void)log_level_parse(str_of(o->log_level), &level); /* one of the choices */
	(void)log_format_parse(str_of(o->log_format), &format);
	log_set_level(level);
	log_set_format(format);
	status = run(&spec, &e) == 0 ? EXIT_OK : fail(&e, EXIT_FAILED);
	confine_process_end();
	return status;
}

int main(int argc, char **argv)
{
	struct options o = {
		.port = 28888, .mode = "header", .provider = "server", .log_level = "info", .log_format = "text", .user = PROGRAM,
		.redis_dsn = "redis://127.0.0.1:6379/0", .redis_queue = "opensandbox:renew:intent", .interval = 60,
	};
	struct opt_result r;
	struct err e = { 0 };

	signals_prepare_daemon();
	if (opt_parse(&program, argc, argv, &o, &r, &e) < 0)
		return fail(&e, EXIT_USAGE);
	if (r.action != OPT_RUN || o.man || o.completion)
		return print_about(&o, &r);
	return serve(&o);
}
