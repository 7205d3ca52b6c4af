// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_language.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/guest.h"
#include "execd/code/code_driver.h"
#include "execd/code/code_texts.h"
#include "execd/env.h"
#include "execd/launch.h"
#include "sys/path.h"

#include "base/banned.h"

#define ARENA_MAX ((size_t)64 * 1024)

_Static_assert(GUEST_FD_CGROUPS > 8, "node's socket is no descriptor of the leaf");

/* What interpreters are started with is short: it is what lists of processes show. */
#define PYTHON_BOOT \
	"import os,zlib\nd=b''\nwhile len(d)<%zu:d+=os.read(250,%zu-len(d))or exit()\n" \
	"exec(compile(zlib.decompress(d,-15),'<driver>','exec'),{'__name__':'driver'})"
#define NODE_BOOT "{const b=Buffer.alloc(%zu);for(let n=0;n<%zu;)n+=require('fs').readSync(8,b,n,%zu-n,null)||process.exit();eval(require('zlib').inflateRawSync(b).toString())}"
#define BASH_BOOT "IFS= LC_ALL=C read -r -N %zu -u 250 __osb_text && eval \"$__osb_text\""
#define NODE { "node", "nodejs" }, .flag = "-e", .boot = NODE_BOOT, .text = &code_text_node, .has_name = true, .control = 8

/* Our socket is where hardly any code looks for free descriptors. Of its first 16 node sees to it by itself that programs do not
 * inherit them, and lets nobody do that for others: one that launch_setup() does not need. */
static const struct code_language languages[] = {
	{ .name = "python", .programs = { "python3", "python" }, .flag = "-c", .boot = PYTHON_BOOT, .text = &code_text_python, .control = 250,
	  .can_be_warm = true },
	{ .name = "javascript", .programs = NODE },
	{ .name = "typescript", .programs = NODE },
	{ .name = "bash", .programs = { "bash" }, .flag = "-c", .boot = BASH_BOOT, .text = &code_text_bash, .control = 250, .keeps_state = true },
};

const struct code_language *code_language_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

const char *code_language_program(const struct code_language *l, const struct code_spec *sp, struct arena *a)
{
	const char *path = NULL;

	for (size_t i = 0; !path && l->programs[i]; i++)
		path = env_find_program(sp->env, a, l->programs[i], &(struct err){ 0 });
	return path;
}

void code_ends_done(struct code_ends *ends)
{
	closep(&ends->control);
	closep(&ends->out[0]);
	closep(&ends->out[1]);
	*ends = CODE_ENDS_INIT;
}

int code_ends_open(struct code_ends *ours, struct code_ends *theirs, struct err *e)
{
	const int send_buffer = CODE_SEND_BUFFER / 2; /* the kernel doubles it */
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "create a socket");
	ours->control = pair[0];
	theirs->control = pair[1];
	if (setsockopt(ours->control, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) < 0)
		return err_sys(e, errno, "make a socket small");
	for (int i = 0; i < 2; i++) {
		if (pipe2(pair, O_CLOEXEC) < 0)
			return err_sys(e, errno, "create a pipe");
		ours->out[i] = pair[0];
		theirs->out[i] = pair[1];
	}
	if (fcntl(ours->control, F_SETFL, O_NONBLOCK) < 0 || fcntl(ours->out[0], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(ours->out[1], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe non-blocking");
	return 0;
}

/* Above all numbers that a program may be given: launch_setup() finds it where it is. */
static int open_cwd(const char *path, struct err *e)
{
	AUTO_FD fd = launch_open_made(path, e);
	int high;

	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FD_NUMBER_MAX + 1);
	return high < 0 ? err_sys(e, errno, "open '%s'", path) : high;
}

/* Its program waits in the socket, which is larger. */
static int send_text(const struct code_language *l, int control, struct err *e)
{
	ssize_t n = send(control, l->text->p, l->text->n, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n == (ssize_t)l->text->n ? 0 : err_set(e, ERR_UNAVAILABLE, "no room for the program of '%s'", l->name);
}

/* The length stands in it wherever it is needed. */
static const char *boot_text(const struct code_language *l, struct arena *a)
{
	AUTO(buf_done) struct buf text = BUF_INIT(1024);

	for (const char *p = l->boot; *p;) {
		if (str_starts(str_of(p), STR("%zu"))) {
			buf_addf(&text, "%zu", l->text->n);
			p += 3;
		} else
			buf_add_char(&text, *p++);
	}
	return text.failed ? NULL : arena_dup(a, buf_str(&text));
}

int code_start(struct child *c, const struct code_host *host, const struct code_start *st, struct code_ends *ret, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
	AUTO(code_ends_done) struct code_ends ours = CODE_ENDS_INIT, theirs = CODE_ENDS_INIT;
	AUTO_FD cwd = open_cwd(st->spec->cwd, e);
	const struct code_language *l = st->language;
	const char *path = code_language_program(l, st->spec, &a);
	const char *const argv[] = { path, l->flag, boot_text(l, &a), l->has_name ? l->name : NULL, NULL };
	struct launch launch = { .leaf = host->leaf, .as = st->spec->as, .cwd_fd = cwd };
	struct spawn_spec sp = SPAWN_INIT(path, (char *const *)(uintptr_t)argv);
	struct spawn_fd fds[] = { { -1, l->control }, { st->state_fd, CODE_STATE_FD }, { host->init->null_fd, CODE_NULL_FD } };

	if (cwd < 0 || code_ends_open(&ours, &theirs, e) < 0)
		return -1;
	if (!path)
		return err_set(e, ERR_NOT_FOUND, "there is no '%s'", l->programs[0]);
	if (!argv[2])
		return err_no_memory(e);
	if (send_text(l, ours.control, e) < 0)
		return -1;
	fds[0].fd = theirs.control;
	sp.envp = st->spec->env->items;
	sp.out = theirs.out[0];
	sp.err = theirs.out[1];
	sp.fds = fds;
	sp.n_fds = st->state_fd >= 0 ? (size_t)ARRAY_LEN(fds) : 1;
	sp.new_session = true;
	sp.setup = launch_setup;
	sp.setup_arg = &launch;
	if (child_start(c, host->init, &sp, st->ops, st->arg, e) < 0)
		return -1;
	*ret = ours;
	ours = CODE_ENDS_INIT;
	return 0;
}
