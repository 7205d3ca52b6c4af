// SPDX-License-Identifier: Apache-2.0
/* opensandbox-warden: the only process with root's rights that runs while there are sandboxes. It holds a mount namespace
 * of its own, which sees what the host mounts and shows nothing, the host's other namespaces, all capabilities, one
 * listening socket from its parent, and reads nothing but the fixed messages of box/wire.h and files of the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/own.h"
#include "base/uuid.h"
#include "sys/room.h"
#include "sys/signals.h"
#include "warden/warden.h"

#include "base/banned.h"

#define PROGRAM "opensandbox-warden"
#define PREFIX_MAX 10 /* an interface name has 15 bytes, and a number comes behind it */
#define SLOTS_DEFAULT 4
#define SLOTS_MAX 256
#define TEXT_MAX ((size_t)64 * 1024)

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_TAKEN = 4 /* as of the server: another one runs there */ };

struct options {
	const char *state_dir, *prefix, *execd, *unpack;
	struct opt_list images, volume_prefixes, network_open;
	const char *network_range;
	int64_t egress_fd, egress_uid;
	bool no_network;
	int64_t socket_fd, pulse_fd, server_uid, slots, disk_size, disk_reserve;
	const char *log_level;
	bool no_disk_limit, log_json;
};

static const struct opt opts[] = {
	OPT(struct options, state_dir, OPT_STRING, "state-dir", 0, "PATH",
	    "State directory: boxes and layers."),
	OPT(struct options, prefix, OPT_STRING, "prefix", 0, "NAME", "Prefix of names in the kernel."),
	OPT(struct options, execd, OPT_STRING, "execd", 0, "PATH", "The program that becomes PID 1 of each sandbox."),
	OPT(struct options, unpack, OPT_STRING, "unpack", 0, "PATH",
	    "The program that unpacks images. Default: opensandbox-unpack beside this one."),
	OPT(struct options, images, OPT_LIST, "image", 0, "PATH",
	    "One more image: a directory or a tar. The first one is image 1."),
	OPT(struct options, volume_prefixes, OPT_LIST, "volume-prefix", 0, "PATH",
	    "Host folder that sandboxes may mount. The first one is number 0."),
	OPT(struct options, socket_fd, OPT_INT, "socket-fd", 0, "N",
	    "Accept requests on the listening socket N.", .min = 3,
	    .max = 1 << 20),
	OPT(struct options, pulse_fd, OPT_INT, "pulse-fd", 0, "N",
	    "Heartbeat: write a byte to the pipe N every second.", .min = 3,
	    .max = 1 << 20),
	OPT(struct options, server_uid, OPT_INT, "server-uid", 0, "UID",
	    "User that may send requests, besides root.", .min = -1,
	    .max = UINT32_MAX - 1),
	OPT(struct options, no_network, OPT_FLAG, "no-network", 0, NULL,
	    "Give sandboxes only their own loopback."),
	OPT(struct options, network_range, OPT_STRING, "network-range", 0, "CIDR",
	    "Take the addresses of sandboxes from CIDR, of at most 17 bits. Default: a part of 10.0.0.0/8 that is free."),
	OPT(struct options, network_open, OPT_LIST, "network-open", 0, "CIDR",
	    "Private network that policies may allow."),
	OPT(struct options, egress_fd, OPT_INT, "egress-fd", 0, "N", "opensandbox-egress connects to the listening socket N.", .min = 3,
	    .max = 1 << 20),
	OPT(struct options, egress_uid, OPT_INT, "egress-uid", 0, "UID",
	    "User that may connect as egress, besides root.", .min = -1,
	    .max = UINT32_MAX - 1),
	OPT(struct options, slots, OPT_INT, "slots", 0, "N", "Keep N slots ready.", .min = 0,
	    .max = SLOTS_MAX),
	OPT(struct options, log_level, OPT_STRING, "log-level", 0, "LEVEL",
	    "Log messages of LEVEL and above."),
	OPT(struct options, log_json, OPT_FLAG, "log-json", 0, NULL, "Log in JSON."),
	OPT(struct options, disk_size, OPT_INT, "disk-size", 0, "BYTES",
	    "Size of the store for all sandboxes; it only grows. Default: 80 % of the free space at first.",
	    .min = STORE_SIZE_MIN, .max = STORE_SIZE_MAX),
	OPT(struct options, disk_reserve, OPT_INT, "disk-reserve", 0, "BYTES",
	    "Free space that is kept as a reserve. Default: 5 % of the file system, at most 4 GiB.",
	    .min = ROOM_RESERVE_MIN, .max = ROOM_RESERVE_MAX),
	OPT(struct options, no_disk_limit, OPT_FLAG, "unsafe-no-disk-limit", 0, NULL,
	    "Allow sandboxes without a disk limit."),
	{ 0 },
};

static const struct opt_command program = {
	.name = PROGRAM,
	.summary = "makes, freezes and ends sandboxes",
	.about = "Started by opensandbox-server.",
	.opts = opts,
};

static int fail(const struct err *e, int status)
{
	(void)fprintf(stderr, PROGRAM ": %s\n", e->msg);
	return status;
}

static int fail_all(const struct buf *problems, const struct err *e)
{
	struct str rest = buf_str(problems), line;

	(void)fail(e, EXIT_FAILED);
	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		(void)fprintf(stderr, PROGRAM ":   %.*s\n", STR_ARG(line));
	}
	return EXIT_FAILED;
}

static int check(const struct options *o, struct err *e)
{
	struct stat st;

	if (!o->state_dir || o->state_dir[0] != '/')
		return err_set(e, ERR_INVALID, "--state-dir needs an absolute path");
	if (!o->prefix || strlen(o->prefix) > PREFIX_MAX || !id_valid(str_of(o->prefix)))
		return err_set(e, ERR_INVALID, "--prefix needs 1 to %d small letters, digits or '-'", PREFIX_MAX);
	if (!o->execd)
		return err_set(e, ERR_INVALID, "--execd needs a path");
	if (o->egress_fd >= 0 && (fstat((int)o->egress_fd, &st) < 0 || !S_ISSOCK(st.st_mode)))
		return err_set(e, ERR_INVALID, "--egress-fd needs the number of a socket");
	if (o->pulse_fd >= 0 && (fstat((int)o->pulse_fd, &st) < 0 || !S_ISFIFO(st.st_mode)))
		return err_set(e, ERR_INVALID, "--pulse-fd needs the number of a pipe");
	if (o->socket_fd < 0 || fstat((int)o->socket_fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return err_set(e, ERR_INVALID, "--socket-fd needs the number of a socket");
	return 0;
}

static void set_log(const struct options *o)
{
	enum log_level level;

	if (o->log_level && log_level_parse(str_of(o->log_level), &level))
		log_set_level(level);
	if (o->log_json)
		log_set_format(LOG_FORMAT_JSON);
}

static int run(const struct options *o)
{
	const struct warden_spec spec = { .state_dir = o->state_dir, .prefix = o->prefix, .execd = o->execd,
					  .listener = (int)o->socket_fd, .pulse = (int)o->pulse_fd, .server_uid = o->server_uid,
					  .slots = (unsigned)o->slots, .disk_size_bytes = (uint64_t)o->disk_size,
					  .disk_reserve_bytes = (uint64_t)o->disk_reserve,
					  .no_disk_limit = o->no_disk_limit,
					  .network = { .is_off = o->no_network, .range = o->network_range,
						       .opened = o->network_open.items, .n_opened = o->network_open.n,
						       .listener = (int)o->egress_fd, .egress_uid = o->egress_uid },
					  .images = { o->images.items, o->images.n, o->unpack },
					  .volumes = { o->volume_prefixes.items, o->volume_prefixes.n, o->state_dir } };
	static struct warden w; /* too large for the stack */
	struct err e = { 0 };
	int status = EXIT_OK;

	if (geteuid() != 0) {
		(void)err_set(&e, ERR_DENIED, "needs to run as root");
		return fail(&e, EXIT_FAILED);
	}
	if (warden_open(&w, &spec, &e) < 0 || warden_run(&w, &e) < 0)
		status = w.is_locked_out ? fail(&e, EXIT_TAKEN) : fail_all(&w.problems, &e);
	warden_done(&w);
	return status;
}

int main(int argc, char **argv)
{
	struct options o = { .socket_fd = -1, .pulse_fd = -1, .egress_fd = -1, .egress_uid = -1, .server_uid = -1, .slots = SLOTS_DEFAULT };
	struct opt_result r;
	struct err e;

	signals_prepare_daemon();
	(void)umask(077);
#ifdef KILL_POINTS
	kill_point_open(kill_point_env());
#endif
	if (opt_parse(&program, argc, argv, &o, &r, &e) < 0)
		return fail(&e, EXIT_USAGE);
	if (r.action == OPT_HELP) {
		AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

		opt_help(&program, PROGRAM, &b);
		return puts(buf_z(&b)) < 0 ? EXIT_FAILED : EXIT_OK;
	}
	set_log(&o);
	if (check(&o, &e) < 0)
		return fail(&e, EXIT_USAGE);
	return run(&o);
}
