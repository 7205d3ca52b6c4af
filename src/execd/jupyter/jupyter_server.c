// SPDX-License-Identifier: Apache-2.0
/* A kernel behind a Jupyter server that the image runs:
 *
 *     GET  /api/kernelspecs            which kernels there are
 *     POST /api/sessions               starts one
 *     WS   /api/kernels/ID/channels    its messages
 *     POST /api/kernels/ID/interrupt
 *     DELETE /api/sessions/ID          ends it
 *
 * The server may start after us and learn of its kernels one by one: for a while, what is not there yet is asked for again. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/own.h"
#include "base/uuid.h"
#include "execd/budget.h"
#include "execd/execd.h"
#include "execd/jupyter/jupyter.h"
#include "execd/jupyter/jupyter_talk.h"
#include "execd/launch.h"
#include "net/addr.h"
#include "net/http/client.h"
#include "net/loop.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define AGAIN_MS 500
#define WAIT_MS 25000      /* for the server and the kernelspec to appear; a client waits for 30 seconds */
#define START_MS 60000     /* for an answer to a session: the kernel has started then */
#define RESTART_MS 3000    /* a session cannot be ended while the server puts a new kernel in the place of one that died */
#define FAREWELL_MS 200    /* for the server to take the end of a session */
#define PIECE ((size_t)8 * 1024)
#define MESSAGE_MAX ((size_t)4 * 1024 * 1024)
#define ANSWER_ARENA_MAX ((size_t)2 * 1024 * 1024)
#define BODY_MAX ((uint64_t)64 * 1024) /* of an answer */
#define MEMORY ((size_t)128 * 1024) /* of answers, connections, and text on its way */
#define TEXT_MAX ((size_t)4096) /* of a target or a small body */
#define ID_TEXT_MAX 128

struct code_driver {
	const struct code_host *host;
	const struct code_spec *spec;
	struct talk talk;
	struct str authority, base; /* of the server's URL */
	struct addr to;
	struct http_client *client;
	struct http_fetch *fetch;
	struct ws_conn *ws;
	struct timer again;
	uint64_t until_ms;
	char session[ID_TEXT_MAX + 1], kernel[ID_TEXT_MAX + 1];
	struct str data; /* a message that is being told, up to `at` */
	size_t at, held, memory, granted; /* of the budget: for a message; for all else; for code */
	bool is_open, is_ready;
	bool is_gone; /* its kernel has ended */
	uint64_t oom_before; /* what the sandbox had lost to the OOM killer when the run began */
	struct err why; /* of the last attempt */
};

/* ---- the end ---- */

static void disconnect(void *arg)
{
	struct code_driver *d = arg;

	http_fetch_cancel(take_ptr(&d->fetch));
	ws_conn_cancel(take_ptr(&d->ws));
	timer_cancel(&d->again);
	budget_give(d->host->host.budget, d->held);
	d->held = 0;
	d->is_open = false;
}

/* What went wrong may be right in a moment. */
static void try_again(struct code_driver *d)
{
	if (loop_now_ms(d->host->host.loop) < d->until_ms)
		timer_in(&d->again, AGAIN_MS);
	else
		talk_die(&d->talk, &d->why);
}

/* ---- requests ---- */

static size_t auth_header(const struct code_driver *d, struct buf *b, struct http_header *ret)
{
	const char *token = d->host->config->jupyter_token;

	if (!token || !*token)
		return 0;
	buf_addf(b, "Token %s", token);
	*ret = (struct http_header){ STR("Authorization"), buf_str(b) };
	return 1;
}

static struct http_fetch *ask(struct code_driver *d, const char *method, const char *target, struct str body, http_fetch_fn *fn,
			      struct err *e)
{
	AUTO(buf_done) struct buf auth = BUF_INIT(TEXT_MAX), path = BUF_INIT(TEXT_MAX);
	struct http_header headers[2] = { { STR("Content-Type"), STR("application/json") } };
	static const struct http_deadlines deadlines = { .connect_ms = 2000, .send_ms = 5000, .head_ms = START_MS, .body_ms = 5000 };
	size_t n = 1 + auth_header(d, &auth, &headers[1]);

	buf_addf(&path, "%.*s%s", STR_ARG(d->base), target);
	if (auth.failed || path.failed) {
		(void)err_set(e, ERR_LIMIT, "the URL or the token is too long");
		return NULL;
	}
	return http_fetch(d->client,
			  &(struct http_request){ .method = str_of(method), .target = buf_str(&path), .host = d->authority, .headers = headers,
						  .n_headers = n, .body = body, .max_body = BODY_MAX, .deadlines = &deadlines },
			  fn, d, e);
}

/* The answer as JSON. NULL: d->why gives the reason. */
static const struct json *read_answer(struct code_driver *d, const struct http_answer *answer, const struct err *e, struct arena *a)
{
	d->fetch = NULL;
	if (!answer)
		d->why = *e;
	else if (answer->head->status / 100 != 2)
		(void)err_set(&d->why, ERR_UNAVAILABLE, "it answers %u", answer->head->status);
	if (!answer || answer->head->status / 100 != 2) {
		(void)err_wrap(&d->why, "the Jupyter server");
		if (answer && answer->head->status < 500 && answer->head->status != 404)
			d->until_ms = 0; /* a wrong token stays wrong */
		return NULL;
	}
	return json_parse(a, answer->body, NULL, NULL, &d->why);
}

static struct str text_of(const struct json *object, const char *key)
{
	const struct json *v = object && object->type == JSON_OBJECT ? json_get(object, key) : NULL;

	return v && v->type == JSON_STRING ? v->s : (struct str){ "", 0 };
}

/* An id becomes a part of paths. */
static bool take_id(char out[ID_TEXT_MAX + 1], struct str id)
{
	if (!id_valid(id))
		return false;
	memcpy(out, id.p, id.n);
	out[id.n] = '\0';
	return true;
}

/* ---- messages ---- */

static bool send_object(struct code_driver *d, const char *type, const char *id, struct str content, size_t max)
{
	AUTO(buf_done) struct buf b = BUF_INIT(max + JUPYTER_HEAD_MAX);
	struct jupyter_out m = { str_of(type), str_of(id), str_of(d->talk.session), content };

	jupyter_put_object(&b, &m, "shell");
	return !b.failed && d->is_open && b.n <= WS_SEND_MAX && ws_conn_send(d->ws, true, buf_str(&b));
}

static void on_open(struct ws_conn *ws, struct str protocol, void *arg)
{
	struct code_driver *d = arg;
	char id[TALK_ID_MAX + 1];

	(void)ws, (void)protocol;
	d->is_open = true;
	talk_new_id(&d->talk, id);
	if (!send_object(d, "kernel_info_request", id, STR("{}"), 0))
		talk_die_of(&d->talk, "the Jupyter server does not take a request");
}

/* Tells what is there of the message. False: no room. */
static bool tell(struct code_driver *d)
{
	bool is_free = talk_proceed(&d->talk);

	while (is_free && d->at < d->data.n) {
		struct str piece = str_first(str_skip(d->data, d->at), PIECE);

		d->at += piece.n;
		(void)jupyter_take_content(&d->talk.iopub, piece); /* that it is JSON was seen before */
		if (d->at == d->data.n && d->talk.iopub.kind == JUPYTER_STATUS && d->talk.iopub.is_gone) {
			d->is_gone = true;
			timer_in(&d->again, RESTART_MS);
		}
		is_free = talk_piece(&d->talk, d->at == d->data.n);
	}
	if (is_free)
		talk_end_run(&d->talk);
	return is_free;
}

static void take_shell(struct code_driver *d, struct str data)
{
	if (d->talk.iopub.kind == JUPYTER_INFO && !d->is_ready) {
		d->is_ready = true;
		code_ready(d->talk.context);
	}
	if (d->talk.iopub.kind != JUPYTER_REPLY || d->talk.has_reply || !talk_is_answer(&d->talk.iopub, d->talk.run))
		return;
	(void)jupyter_take_heads(&d->talk.shell, data);
	(void)jupyter_take_content(&d->talk.shell, data);
	talk_reply(&d->talk);
	jupyter_next(&d->talk.iopub);
	talk_end_run(&d->talk);
}

static void on_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	struct code_driver *d = arg;

	if (!is_text)
		return; /* only messages with buffers are */
	if (!jupyter_take_heads(&d->talk.iopub, data)) {
		talk_die_of(&d->talk, "the Jupyter server sent a message that is not JSON");
		return;
	}
	if (d->talk.iopub.channel != 'i') {
		take_shell(d, data);
		return;
	}
	d->data = data;
	d->at = 0;
	if (!tell(d) && !d->talk.is_dead)
		ws_conn_pause(ws); /* its data stay */
}

static void on_close(uint16_t code, struct str reason, void *arg)
{
	struct code_driver *d = arg;
	struct err e = { 0 };

	d->ws = NULL;
	(void)err_set(&e, ERR_UNAVAILABLE, "the Jupyter server ended the connection: %u %.*s", code, STR_ARG(reason));
	talk_die(&d->talk, &e);
}

static bool on_memory(struct ws_conn *ws, size_t bytes, void *arg)
{
	struct code_driver *d = arg;

	(void)ws;
	budget_give(d->host->host.budget, d->held);
	d->held = 0;
	if (!budget_take_spare(d->host->host.budget, bytes))
		return false;
	d->held = bytes;
	return true;
}

static int open_channels(struct code_driver *d, struct err *e)
{
	static const struct ws_ops ops = { .on_open = on_open, .on_message = on_message, .on_close = on_close, .on_memory = on_memory };
	AUTO(buf_done) struct buf auth = BUF_INIT(TEXT_MAX), path = BUF_INIT(TEXT_MAX);
	struct ws_options options = WS_OPTIONS;
	struct http_header header;
	struct ws_target target = { .host = d->authority, .headers = &header };

	options.message_max = MESSAGE_MAX;
	options.high_water = WS_SEND_MAX;
	target.n_headers = auth_header(d, &auth, &header);
	buf_addf(&path, "%.*s/api/kernels/%s/channels?session_id=%s", STR_ARG(d->base), d->kernel, d->talk.session);
	target.target = buf_str(&path);
	d->ws = ws_conn_connect(d->client, d->host->host.loop, &target, &options, &ops, d, e);
	return d->ws ? 0 : -1;
}

/* ---- starting ---- */

static void on_session(const struct http_answer *answer, const struct err *e, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ANSWER_ARENA_MAX);
	struct code_driver *d = arg;
	const struct json *v = read_answer(d, answer, e, &a);

	if (!v) {
		talk_die(&d->talk, &d->why);
		return;
	}
	if (v->type != JSON_OBJECT || !take_id(d->session, text_of(v, "id")) || !take_id(d->kernel, text_of(json_get(v, "kernel"), "id")))
		talk_die_of(&d->talk, "the Jupyter server does not say which session it made");
	else if (open_channels(d, &d->why) < 0)
		talk_die(&d->talk, &d->why);
}

static int make_session(struct code_driver *d, struct str kernel, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(TEXT_MAX);
	struct json_out o = json_out(&body);
	char name[UUID_HEX_LEN + 1];

	if (uuid_hex32(NULL, name, e) < 0)
		return -1;
	json_open(&o, '{');
	json_key(&o, "path"), buf_addf(&body, "\"%s.ipynb\"", name), o.comma = true;
	json_key(&o, "name"), json_cstr(&o, name);
	json_key(&o, "type"), json_cstr(&o, "notebook");
	json_key(&o, "kernel"), json_open(&o, '{'), json_key(&o, "name"), json_str(&o, kernel), json_close(&o, '}');
	json_close(&o, '}');
	if (body.failed)
		return err_no_memory(e);
	d->fetch = ask(d, "POST", "/api/sessions", buf_str(&body), on_session, e);
	return d->fetch ? 0 : -1;
}

/* By name, or by language: "python3" is there in every environment, another one was put there on purpose. */
static struct str choose(const struct code_spec *sp, const struct json *specs)
{
	struct str found = { "", 0 };

	for (const struct json *k = json_first(specs); k; k = k->next) {
		const struct json *spec = k->type == JSON_OBJECT ? json_get(k, "spec") : NULL;

		if (sp->kernel ? str_is(k->key, sp->kernel) : str_is(text_of(spec, "language"), sp->language))
			if (found.n == 0 || str_is(found, "python3"))
				found = k->key;
	}
	return found;
}

static void on_specs(const struct http_answer *answer, const struct err *e, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ANSWER_ARENA_MAX);
	struct code_driver *d = arg;
	const struct json *v = read_answer(d, answer, e, &a);
	struct str name = v && v->type == JSON_OBJECT ? choose(d->spec, json_get(v, "kernelspecs")) : (struct str){ "", 0 };

	if (v && name.n == 0)
		(void)err_set(&d->why, ERR_NOT_FOUND, "the Jupyter server has no kernel for '%s'", d->spec->kernel ? d->spec->kernel : d->spec->language);
	if (name.n == 0)
		try_again(d);
	else if (make_session(d, name, &d->why) < 0)
		talk_die(&d->talk, &d->why);
}

/* The server does not say how: that memory ran out under the run tells enough. */
static void die_of_end(struct code_driver *d)
{
	bool is_oom = d->talk.run[0] && leaf_oom_kills(d->host->leaf) > d->oom_before;
	struct err e = { 0 };

	(void)err_set(&e, is_oom ? ERR_LIMIT : ERR_UNAVAILABLE, "the kernel has ended");
	talk_die(&d->talk, &e);
}

static void on_again(void *arg)
{
	struct code_driver *d = arg;

	if (d->is_gone) {
		die_of_end(d);
		return;
	}
	if (d->authority.n == 0) { /* the server's URL is no good */
		talk_die(&d->talk, &d->why);
		return;
	}
	d->fetch = ask(d, "GET", "/api/kernelspecs", (struct str){ "", 0 }, on_specs, &d->why);
	if (!d->fetch)
		talk_die(&d->talk, &d->why);
}

/* "http://127.0.0.1:8888/base": no names but localhost, which nobody has to be asked for. */
static int parse_host(struct code_driver *d, struct str url, struct err *e)
{
	struct str authority, rest, name, port;
	char text[64];

	if (!str_starts(url, STR("http://")))
		return err_set(e, ERR_UNAVAILABLE, "JUPYTER_HOST: only http:// is supported");
	url = str_skip(url, 7);
	(void)str_cut(url, '/', &authority, &rest);
	d->base = str_skip(url, authority.n);
	while (d->base.n > 0 && d->base.p[d->base.n - 1] == '/')
		d->base.n--;
	d->authority = authority;
	if (!str_cut(authority, ':', &name, &port))
		port = STR("80");
	if (str_is(name, "localhost"))
		name = STR("127.0.0.1");
	(void)snprintf(text, sizeof(text), "%.*s:%.*s", STR_ARG(str_first(name, 32)), STR_ARG(str_first(port, 8)));
	return sockaddr_parse(str_of(text), &d->to, e) < 0 ? err_wrap(e, "JUPYTER_HOST") : 0;
}

/* ---- for contexts ---- */

static int server_offers(const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	(void)sp, (void)e;
	return host->config->jupyter_host != NULL;
}

/* Nobody waits for the answer: the request is put on its way, which takes a moment on this host, and no longer than
 * FAREWELL_MS anywhere. */
static void say_farewell(const struct code_driver *d)
{
	AUTO_FD fd = socket(d->to.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO(buf_done) struct buf b = BUF_INIT(2 * TEXT_MAX);
	struct timeval limit = { .tv_usec = FAREWELL_MS * 1000 };

	buf_addf(&b, "DELETE %.*s/api/sessions/%s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n", STR_ARG(d->base), d->session,
		 STR_ARG(d->authority));
	if (d->host->config->jupyter_token && *d->host->config->jupyter_token)
		buf_addf(&b, "Authorization: Token %s\r\n", d->host->config->jupyter_token);
	buf_addf(&b, "\r\n");
	if (fd >= 0 && !b.failed && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, &d->to.sa, d->to.len) == 0)
		(void)!send(fd, b.p, b.n, MSG_NOSIGNAL);
}

static void server_end(struct code_driver *d)
{
	disconnect(d);
	if (d->session[0])
		say_farewell(d);
	http_client_free(d->client);
	timer_done(&d->again);
	talk_done(&d->talk);
	budget_give(d->host->host.budget, d->memory + d->granted);
	free(d);
}
DEFINE_AUTO(struct code_driver *, server_end)

static struct code_driver *server_start(struct code_context *c, const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(server_end) struct code_driver *d = calloc(1, sizeof(*d));
	struct http_client_options options = HTTP_CLIENT_OPTIONS;

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	d->host = host;
	d->spec = sp;
	d->until_ms = loop_now_ms(host->host.loop) + WAIT_MS;
	if (!budget_take(host->host.budget, MEMORY)) {
		(void)err_set(e, ERR_UNAVAILABLE, "no memory for another kernel, try again later");
		return NULL;
	}
	d->memory = MEMORY;
	if (parse_host(d, str_of(host->config->jupyter_host), &d->why) < 0)
		d->authority.n = 0; /* told like all that goes wrong on the way, so that another driver may try */
	if (talk_init(&d->talk, c, host->host.budget, disconnect, d, e) < 0 ||
	    timer_init(&d->again, host->host.loop, on_again, d, "jupyter server", e) < 0)
		return NULL;
	options.to = &d->to.sa;
	options.to_len = d->to.len;
	options.max_idle = 1;
	d->client = d->authority.n > 0 ? http_client_new(host->host.loop, &options, e) : NULL;
	if (d->authority.n > 0 && !d->client)
		return NULL;
	timer_in(&d->again, 0);
	return take_ptr(&d);
}

static int server_run(struct code_driver *d, struct str code, struct err *e)
{
	AUTO(buf_done) struct buf content = BUF_INIT(WS_SEND_MAX);
	char id[TALK_ID_MAX + 1];

	if (code.n >= WS_SEND_MAX || !budget_take(d->host->host.budget, 3 * code.n))
		return err_set(e, ERR_LIMIT, "too much code for a Jupyter server");
	budget_give(d->host->host.budget, d->granted);
	d->granted = 3 * code.n; /* as it comes, as a message, and on its way; until there is more of it */
	jupyter_put_execute(&content, code);
	talk_new_id(&d->talk, id);
	if (content.failed || !send_object(d, "execute_request", id, buf_str(&content), content.n))
		return err_set(e, ERR_UNAVAILABLE, "the Jupyter server does not take the code");
	talk_begin(&d->talk, id);
	d->oom_before = leaf_oom_kills(d->host->leaf);
	return 0;
}

static void on_interrupted(const struct http_answer *answer, const struct err *e, void *arg)
{
	struct code_driver *d = arg;

	(void)answer, (void)e;
	d->fetch = NULL;
}

static void server_interrupt(struct code_driver *d)
{
	char target[sizeof(d->kernel) + 32];
	struct err ignored = { 0 };

	(void)snprintf(target, sizeof(target), "/api/kernels/%s/interrupt", d->kernel);
	if (!d->fetch && !d->talk.is_dead)
		d->fetch = ask(d, "POST", target, STR("{}"), on_interrupted, &ignored);
}

static void server_proceed(struct code_driver *d)
{
	if (!d->talk.is_dead && tell(d) && d->ws)
		ws_conn_resume(d->ws);
}

const struct code_driver_type jupyter_server_driver = {
	.name = "jupyter server",
	.offers = server_offers,
	.start = server_start,
	.run = server_run,
	.interrupt = server_interrupt,
	.proceed = server_proceed,
	.end = server_end,
};
