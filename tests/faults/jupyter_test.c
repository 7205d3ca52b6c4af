// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of the drivers of Jupyter kernels, from the start of a kernel to the end of a run: each failure
 * must be an error, or a note that something was left out, or something that is tried again; never a crash, a leak, a wrong result or a
 * run that does not end.
 *
 * The kernel is this program, started as execd starts one ("jupyter_test kernel FILE"); the server is a child. Contexts are not
 * under test: what they are told is kept here (code_driver.h). */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/execd.h"
#include "execd/jupyter/jupyter.h"
#include "execd/jupyter/jupyter_files.h"
#include "execd/jupyter/jupyter_message.h"
#include "execd/jupyter/kernelspec.h"
#include "net/ws/websocket.h"
#include "net/ws/ws_handshake.h"
#include "net/zmtp/zmtp.h"
#include "sys/fd.h"
#include "sys/signals.h"

#include "failing_alloc.h"

#include "base/banned.h"

#define RUN_SECONDS 30
#define HASTE 10 /* how many times faster than the world our clock goes: some failures are waited for */
#define OUTPUT "some output"
#define VALUE "a value that is longer than what a struct could have inside of itself"

/* ---- a context ---- */

struct code_context {
	char out[4096], notes[4096];
	size_t n_out, n_notes;
	bool is_ready, has_value, has_error, is_done, has_died;
	struct err why;
};

void code_ready(struct code_context *c)
{
	c->is_ready = true;
}

size_t code_output(struct code_context *c, enum event_stream stream, struct str bytes)
{
	char *to = stream == EVENT_STDERR ? c->notes : c->out;
	size_t *n = stream == EVENT_STDERR ? &c->n_notes : &c->n_out;

	assert_true(*n + bytes.n < sizeof(c->out));
	memcpy(to + *n, bytes.p, bytes.n);
	*n += bytes.n;
	return bytes.n;
}

bool code_result(struct code_context *c, const struct code_result *r)
{
	assert_int_equal(r->n, 1);
	assert_true(str_is(r->mimes[0].type, "text/plain") && str_is(r->mimes[0].value, VALUE));
	c->has_value = true;
	return true;
}

bool code_error(struct code_context *c, const struct code_error *er)
{
	(void)er;
	c->has_error = true;
	return true;
}

void code_done(struct code_context *c)
{
	c->is_done = true;
}

void code_died(struct code_context *c, const struct err *why)
{
	c->has_died = true;
	c->why = *why;
}

/* ---- what a kernel says ---- */

static const struct {
	const char *channel, *type, *content;
} answers[] = {
	{ "iopub", "stream", "{\"name\":\"stdout\",\"text\":\"" OUTPUT "\"}" },
	{ "iopub", "execute_result", "{\"execution_count\":1,\"data\":{\"text/plain\":\"" VALUE "\"},\"metadata\":{}}" },
	{ "shell", "execute_reply", "{\"status\":\"ok\",\"execution_count\":1}" },
	{ "iopub", "status", "{\"execution_state\":\"idle\"}" },
}, info[] = {
	{ "shell", "kernel_info_reply", "{\"status\":\"ok\"}" },
	{ "iopub", "status", "{\"execution_state\":\"idle\"}" },
};

static struct str message_id(const char *header)
{
	const char *at = strstr(header, "\"msg_id\":\"");
	const char *end = at ? strchr(at + 10, '"') : NULL;

	return end ? (struct str){ at + 10, (size_t)(end - at - 10) } : (struct str){ "", 0 };
}

/* ---- a kernel ---- */

struct line {
	int fd;
	struct zmtp_decoder in;
	char frames[8][2048];
	size_t lengths[8];
};

struct kernel {
	char key[JUPYTER_KEY_LEN + 1];
	int listeners[JUPYTER_PORTS];
	struct line lines[JUPYTER_PORTS]; /* the last one that came, each */
};

static int listen_on(const struct json *file, const char *name)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	a.sin_port = htons((unsigned short)json_get(file, name)->i);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0)
		exit(4);
	return fd;
}

static void kernel_open(struct kernel *k, const char *path)
{
	static const char *const names[] = { "shell_port", "iopub_port", "control_port", "hb_port", "stdin_port" };
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf text = BUF_INIT(4096);
	struct err e = { 0 };
	const struct json *file = fd_read_file(AT_FDCWD, path, 4096, &text, &e) < 0 ? NULL : json_parse(&a, buf_str(&text), NULL, NULL, &e);

	if (!file)
		exit(5);
	(void)snprintf(k->key, sizeof(k->key), "%.*s", STR_ARG(json_get(file, "key")->s));
	for (int i = 0; i < JUPYTER_PORTS; i++) {
		k->listeners[i] = listen_on(file, names[i]);
		k->lines[i].fd = -1;
	}
}

static void send_all(int fd, struct buf *b)
{
	if (fd >= 0 && !b->failed && send(fd, b->p, b->n, MSG_NOSIGNAL) < 0)
		exit(6);
}

static void publish(struct kernel *k, const char *channel, const char *type, const char *content, struct str parent_id)
{
	struct line *to = &k->lines[channel[0] == 's' ? JUPYTER_SHELL : JUPYTER_IOPUB];
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);
	char header[256], parent[256], signature[SHA256_HEX_LEN + 1];
	struct str frames[] = { STR("<IDS|MSG>"), { signature, SHA256_HEX_LEN }, { header, 0 }, { parent, 0 }, STR("{}"), str_of(content) };

	frames[2].n = (size_t)snprintf(header, sizeof(header), "{\"msg_id\":\"m\",\"msg_type\":\"%s\"}", type);
	frames[3].n = (size_t)snprintf(parent, sizeof(parent), "{\"msg_id\":\"%.*s\"}", STR_ARG(parent_id));
	jupyter_sign(str_of(k->key), frames + 2, signature);
	for (size_t i = 0; i < ARRAY_LEN(frames); i++)
		zmtp_put_frame(&b, frames[i], i + 1 == ARRAY_LEN(frames));
	send_all(to->fd, &b);
}

static void answer(struct kernel *k, struct line *from)
{
	struct str id = message_id(from->frames[2]);

	if (strstr(from->frames[2], "kernel_info_request"))
		for (size_t i = 0; i < ARRAY_LEN(info); i++)
			publish(k, info[i].channel, info[i].type, info[i].content, id);
	if (strstr(from->frames[2], "execute_request"))
		for (size_t i = 0; i < ARRAY_LEN(answers); i++)
			publish(k, answers[i].channel, answers[i].type, answers[i].content, id);
}

static void kernel_read(struct kernel *k, struct line *l)
{
	char bytes[8192];
	ssize_t n = read(l->fd, bytes, sizeof(bytes));
	struct str in = { bytes, n > 0 ? (size_t)n : 0 };
	struct zmtp_event ev;

	if (n <= 0) {
		closep(&l->fd);
		l->fd = -1;
	}
	while (in.n > 0 && zmtp_decode(&l->in, &in, &ev) != ZMTP_EVENT_NONE && ev.kind != ZMTP_EVENT_ERROR) {
		if (ev.kind != ZMTP_EVENT_BYTES || ev.frame >= ARRAY_LEN(l->frames))
			continue;
		(void)snprintf(l->frames[ev.frame] + l->lengths[ev.frame], sizeof(l->frames[0]) - l->lengths[ev.frame], "%.*s", STR_ARG(ev.data));
		l->lengths[ev.frame] += ev.data.n;
		if (ev.is_last && ev.left == 0) {
			if (l == &k->lines[JUPYTER_SHELL])
				answer(k, l);
			memset(l->frames, 0, sizeof(l->frames));
			memset(l->lengths, 0, sizeof(l->lengths));
		}
	}
}

static void kernel_accept(struct kernel *k, int i)
{
	static const char *const types[] = { "ROUTER", "PUB", "ROUTER", "REP", "ROUTER" };
	AUTO(buf_done) struct buf b = BUF_INIT(4096);

	closep(&k->lines[i].fd);
	k->lines[i] = (struct line){ .fd = accept4(k->listeners[i], NULL, NULL, SOCK_CLOEXEC) };
	zmtp_decoder_init(&k->lines[i].in, 1 << 20);
	zmtp_put_greeting(&b);
	zmtp_put_ready(&b, str_of(types[i]));
	send_all(k->lines[i].fd, &b);
}

/* A process of the sandbox, without rights of its own; ends by the signal that ends kernels. */
static int kernel_main(const char *path)
{
	static struct kernel k;
	struct pollfd fds[2 * JUPYTER_PORTS];

	kernel_open(&k, path);
	for (;;) {
		for (int i = 0; i < JUPYTER_PORTS; i++) {
			fds[i] = (struct pollfd){ .fd = k.listeners[i], .events = POLLIN };
			fds[JUPYTER_PORTS + i] = (struct pollfd){ .fd = k.lines[i].fd, .events = POLLIN };
		}
		if (poll(fds, ARRAY_LEN(fds), RUN_SECONDS * 1000) <= 0)
			return 0;
		for (int i = 0; i < JUPYTER_PORTS; i++) {
			if (fds[i].revents)
				kernel_accept(&k, i);
			else if (fds[JUPYTER_PORTS + i].revents && k.lines[i].fd >= 0)
				kernel_read(&k, &k.lines[i]);
		}
	}
}

/* ---- a server ---- */

static void say_frame(int fd, const char *channel, const char *type, const char *content, struct str parent)
{
	AUTO(buf_done) struct buf text = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16);

	buf_addf(&text, "{\"channel\":\"%s\",\"header\":{\"msg_id\":\"m\",\"msg_type\":\"%s\"},\"parent_header\":{\"msg_id\":\"%.*s\"},\"metadata\":{},\"content\":%s}",
		 channel, type, STR_ARG(parent), content);
	ws_encode(&b, WS_TEXT, true, buf_str(&text), NULL);
	send_all(fd, &b);
}

static void serve_channels(int fd)
{
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct ws_event ev;
	char bytes[8192];
	ssize_t n;

	ws_decoder_init(&d, WS_SERVER, 1 << 20);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		struct str in = { bytes, (size_t)n };

		while (ws_decode(&d, &in, &ev) == WS_EVENT_MESSAGE) {
			char text[4096];

			(void)snprintf(text, sizeof(text), "%.*s", STR_ARG(ev.data));
			for (size_t i = 0; strstr(text, "kernel_info_request") && i < ARRAY_LEN(info); i++)
				say_frame(fd, info[i].channel, info[i].type, info[i].content, message_id(text));
			for (size_t i = 0; strstr(text, "execute_request") && i < ARRAY_LEN(answers); i++)
				say_frame(fd, answers[i].channel, answers[i].type, answers[i].content, message_id(text));
		}
	}
}

static void serve_request(int fd, const char *head)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);
	const char *body = strstr(head, "/api/kernelspecs") ? "{\"kernelspecs\":{\"ours\":{\"spec\":{\"language\":\"ours\"}}}}"
							    : "{\"id\":\"session\",\"kernel\":{\"id\":\"kernel\"}}";
	const char *key = strcasestr(head, "Sec-WebSocket-Key: ");
	char accept[WS_ACCEPT_LEN + 1];

	if (!key) {
		buf_addf(&b, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
		send_all(fd, &b);
		return;
	}
	key += 19;
	ws_accept((struct str){ key, strcspn(key, "\r\n") }, accept);
	buf_addf(&b, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
	send_all(fd, &b);
	serve_channels(fd);
}

/* One connection, in a process of its own: a request has come as a whole when it has come at all, for it is short. */
static void serve_connection(int fd)
{
	char head[8192];
	ssize_t n;

	while ((n = read(fd, head, sizeof(head) - 1)) > 0) {
		head[n] = '\0';
		serve_request(fd, head);
	}
	_exit(0);
}

static pid_t start_server(unsigned short *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(a);
	pid_t pid;

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	*ret_port = ntohs(a.sin_port);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGCHLD, SIG_IGN);
		for (;;) {
			int c = accept(fd, NULL, NULL);

			if (c >= 0 && fork() == 0)
				serve_connection(c);
			closep(&c);
		}
	}
	(void)close(fd);
	return pid;
}

/* ---- the drivers ---- */

struct stage {
	struct loop *loop;
	struct init init;
	struct drains drains;
	struct budget budget;
	struct leaf leaf;
	struct execd_config config;
	struct code_host host;
	struct arena arena;
	struct env env;
	struct code_spec spec;
};

static uint64_t fast_now(void *arg)
{
	(void)arg;
	return HASTE * clock_mono_ms();
}

static void on_stop(int signo, void *arg)
{
	(void)signo, (void)arg;
}

/* Everything around the driver: not under test. */
static void stage_open(struct stage *s)
{
	struct err e = { 0 };

	signals_prepare();
	*s = (struct stage){ .init = INIT_INIT, .budget.max = EXECD_BUDGET, .leaf = LEAF_INIT, .arena = ARENA_INIT(1 << 20) };
	s->loop = loop_new(&e);
	assert_non_null(s->loop);
	loop_set_clock(s->loop, fast_now, NULL);
	assert_int_equal(init_open(&s->init, s->loop, on_stop, NULL, &e), 0);
	drains_init(&s->drains, s->loop, 8);
	s->host = (struct code_host){ .host = { s->loop, &s->budget, &s->drains }, .init = &s->init, .leaf = &s->leaf, .config = &s->config };
	s->spec = (struct code_spec){ .language = "ours", .env = &s->env, .cwd = "/" };
}

static void stage_close(struct stage *s)
{
	struct err e = { 0 };

	for (int i = 0; i < 5; i++) /* what the driver has left for later */
		(void)loop_turn(s->loop, 1, &e);
	assert_int_equal(s->budget.used, 0);
	drains_done(&s->drains);
	init_done(&s->init);
	loop_free(s->loop);
	arena_done(&s->arena);
}

/* Until one of them is true, or the context has died. */
static void turn_until(struct stage *s, const struct code_context *c, const bool *what)
{
	uint64_t deadline = clock_mono_ms() + RUN_SECONDS * 1000;
	struct err e = { 0 };

	while (!*what && !c->has_died) {
		if (clock_mono_ms() > deadline)
			fail_msg("nothing happens any more");
		assert_int_equal(loop_turn(s->loop, 10, &e), 0);
	}
}

/* A run from start to end, with the driver's allocation N failing. */
static void drive(const struct code_driver_type *type, struct stage *s, long n)
{
	struct code_context c = { 0 };
	struct code_driver *d = NULL;
	struct err e = { 0 };
	bool is_whole;

	countdown = n;
	has_failed = false;
	if (type->offers(&s->host, &s->spec, &e) == 1)
		d = type->start(&c, &s->host, &s->spec, &e);
	if (d) {
		turn_until(s, &c, &c.is_ready);
		if (!c.has_died && type->run(d, STR("code"), &e) == 0)
			turn_until(s, &c, &c.is_done);
		type->end(d);
	}
	countdown = -1;
	is_whole = c.is_done && c.has_value && c.n_out == strlen(OUTPUT) && memcmp(c.out, OUTPUT, c.n_out) == 0 && !c.has_error && c.n_notes == 0;
	if (!is_whole && e.code == ERR_NONE && !c.has_died && !c.has_error && c.n_notes == 0)
		fail_msg("%s: allocation %ld failed, and nothing was said", type->name, n);
	if (!is_whole && !has_failed)
		fail_msg("%s: no allocation failed, and yet: %s%s", type->name, e.msg, c.why.msg);
}

static void fail_each(const struct code_driver_type *type, void (*prepare)(struct stage *s))
{
	for (long n = 0;; n++) {
		struct stage s;

		stage_open(&s);
		prepare(&s);
		drive(type, &s, n);
		stage_close(&s);
		if (!has_failed) {
			assert_true(n > 10); /* it allocates at all */
			return;
		}
	}
}

static char folder[] = "/tmp/jupyter-faults-XXXXXX";

static void with_kernel(struct stage *s)
{
	struct err e = { 0 };

	assert_int_equal(env_set(&s->env, &s->arena, STR("JUPYTER_PATH"), str_of(folder), &e), 0);
	assert_int_equal(env_set(&s->env, &s->arena, STR("TMPDIR"), str_of(folder), &e), 0);
}

static char server_url[64];

static void with_server(struct stage *s)
{
	s->config.jupyter_host = server_url;
	s->config.jupyter_token = "token";
}

static const char *in_folder(const char *name, char out[128])
{
	(void)snprintf(out, 128, "%s%s", folder, name);
	return out;
}

static void write_spec(void)
{
	char path[128], self[256] = { 0 };
	FILE *f;

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(mkdir(in_folder("/kernels", path), 0700), 0);
	assert_int_equal(mkdir(in_folder("/kernels/ours", path), 0700), 0);
	f = fopen(in_folder("/kernels/ours/kernel.json", path), "we");
	assert_non_null(f);
	(void)fprintf(f, "{\"argv\":[\"%s\",\"kernel\",\"{connection_file}\"],\"language\":\"ours\",\"env\":{\"A\":\"b\"}}", self);
	assert_int_equal(fclose(f), 0);
}

static void a_kernel_of_ours_fails_softly(void **state)
{
	char path[128];

	(void)state;
	assert_non_null(mkdtemp(folder));
	write_spec();
	fail_each(&jupyter_kernel_driver, with_kernel);
	(void)unlink(in_folder("/kernels/ours/kernel.json", path));
	(void)rmdir(in_folder("/kernels/ours", path));
	(void)rmdir(in_folder("/kernels", path));
	assert_int_equal(rmdir(folder), 0); /* no file that named ports is left */
}

static void a_kernel_of_a_server_fails_softly(void **state)
{
	unsigned short port;
	pid_t pid = start_server(&port);

	(void)state;
	(void)snprintf(server_url, sizeof(server_url), "http://127.0.0.1:%u", port);
	fail_each(&jupyter_server_driver, with_server);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kernel_of_ours_fails_softly),
		cmocka_unit_test(a_kernel_of_a_server_fails_softly),
	};

	if (argc == 3 && strcmp(argv[1], "kernel") == 0)
		return kernel_main(argv[2]);
	failing_alloc_here();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
