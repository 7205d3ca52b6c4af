// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "base/version.h"
#include "client/client_impl.h"
#include "client/pty.h"
#include "client/sandbox.h"
#include "net/tls.h"

#include "base/banned.h"

#define TIMEOUT_DEFAULT_MS 30000
#define IDLE_DEFAULT 20
#define OPTIONS_MAX ((size_t)1024 * 1024) /* of all their text */
#define FREE_UNDO_MS 1000 /* for what has to be deleted before a client may go */
#define API_KEY_HEADER "OPEN-SANDBOX-API-KEY"

const char *osb_version(void)
{
	return OPENSANDBOX_VERSION;
}

/* ---- options ---- */

static const char *choose(const char *given, const char *variable, const char *fallback)
{
	const char *value = given && *given ? given : variable ? getenv(variable) : NULL;

	return value && *value ? value : fallback;
}

static int choose_protocol(const struct osb_options *o, const struct address *a, bool *ret_is_tls, struct err *e)
{
	const char *protocol = choose(o->protocol, "OPEN_SANDBOX_PROTOCOL", "http");

	*ret_is_tls = a->has_scheme ? a->is_tls : str_eq_nocase(str_of(protocol), STR("https"));
	if (!a->has_scheme && !*ret_is_tls && !str_eq_nocase(str_of(protocol), STR("http")))
		return err_set(e, ERR_INVALID, "'%.64s' is no protocol: http or https", protocol);
	return 0;
}

/* The key and what the options add: only ever for the server. */
static int server_headers(struct osb_client *c, const struct osb_options *o, struct osb_map *ret, struct err *e)
{
	const char *key = choose(o->api_key, "OPEN_SANDBOX_API_KEY", NULL);
	struct osb_pair *pairs;

	if (o->headers.n >= ENDPOINT_HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "%zu headers", o->headers.n);
	pairs = arena_array(&c->arena, o->headers.n + 1, sizeof(*pairs));
	if (!pairs)
		return err_no_memory(e);
	*ret = (struct osb_map){ .items = pairs };
	c->has_key = key;
	if (key)
		pairs[ret->n++] = (struct osb_pair){ API_KEY_HEADER, key };
	for (size_t i = 0; i < o->headers.n; i++)
		pairs[ret->n++] = o->headers.items[i];
	return 0;
}

static int open_server(struct osb_client *c, const struct osb_options *o, struct err *e)
{
	const char *domain = choose(o->domain, "OPEN_SANDBOX_DOMAIN", "localhost:8080");
	struct address a;
	struct osb_map headers;
	struct str path;
	const char *text;

	if (address_parse(str_of(domain), &a, e) < 0)
		return err_wrap(e, "domain '%.200s'", domain);
	if (choose_protocol(o, &a, &c->is_tls, e) < 0 || server_headers(c, o, &headers, e) < 0)
		return -1;
	path = str_of(a.path);
	if (str_ends(path, STR("/v1")))
		path.n -= 3;
	text = arena_printf(&c->arena, strchr(a.host, ':') ? "[%s]:%u%.*s/v1" : "%s:%u%.*s/v1", a.host,
			    a.port ? a.port : c->is_tls ? 443U : 80U, STR_ARG(path));
	if (!text)
		return err_no_memory(e);
	if (endpoint_init(&c->server, c, text, &headers, e) < 0)
		return -1;
	text = arena_dup(&c->arena, (struct str){ text, strlen(text) - strlen("/v1") });
	return text ? endpoint_init(&c->root, c, text, &headers, e) : err_no_memory(e);
}

static int take_options(struct osb_client *c, const struct osb_options *options, struct err *e)
{
	const char *agent;
	struct osb_options o;

	struct_take(&o, sizeof(o), options, options ? options->size : 0, sizeof(o));
	c->arena = ARENA_INIT(OPTIONS_MAX);
	agent = choose(o.user_agent, NULL, "OpenSandbox-C-SDK/" OPENSANDBOX_VERSION);
	if (!http_is_field_value(str_of(agent)))
		return err_set(e, ERR_INVALID, "a user agent that cannot be sent");
	c->user_agent = arena_dup(&c->arena, str_of(agent));
	c->ca_file = o.ca_file ? arena_dup(&c->arena, str_of(o.ca_file)) : NULL;
	if (!c->user_agent || (o.ca_file && !c->ca_file))
		return err_no_memory(e);
	c->is_insecure = o.is_insecure;
	c->use_server_proxy = o.use_server_proxy;
	c->request_timeout_ms = o.request_timeout_ms ? o.request_timeout_ms : TIMEOUT_DEFAULT_MS;
	c->max_idle = o.max_idle ? o.max_idle : IDLE_DEFAULT;
	return open_server(c, &o, e);
}

/* ---- life ---- */

void wake_unref(struct wake *w)
{
	if (!w || atomic_fetch_sub(&w->holders, 1) != 1)
		return;
	closep(&w->fd);
	free(w);
}

/* Some call is cancelled. Ending an operation runs no function of the user's yet. */
static void on_wake(unsigned ready, void *arg)
{
	struct osb_client *c = arg;
	eventfd_t count;

	(void)ready;
	(void)eventfd_read(c->wake->fd, &count);
	for (struct osb_call *call = c->calls; call; call = call->next)
		if (atomic_exchange(&call->is_cancelled, false) && call->op.state_now == OP_RUNNING)
			op_fail(&call->op, OSB_CANCELLED, NULL, "it was cancelled");
}

static int open_loop(struct osb_client *c, struct err *e)
{
	c->loop = loop_new(e);
	if (!c->loop)
		return -1;
	c->wake = malloc(sizeof(*c->wake));
	if (!c->wake)
		return err_no_memory(e);
	*c->wake = (struct wake){ .holders = 1, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (c->wake->fd < 0)
		return err_sys(e, errno, "create eventfd");
	return io_add(&c->wake_io, c->loop, c->wake->fd, IO_IN, on_wake, c, "client", e);
}

static void release(struct osb_client *c)
{
	while (c->sandboxes)
		osb_sandbox_free(c->sandboxes);
	ptys_free(c, NULL);
	endpoint_done(&c->server);
	endpoint_done(&c->root);
	remotes_free(c);
	assert(!c->remotes);
	tls_client_free(c->tls);
	io_del(&c->wake_io);
	wake_unref(c->wake);
	loop_free(c->loop);
	arena_done(&c->arena);
	random_pool_done(&c->random);
	free(c);
}

struct osb_client *osb_client_new(const struct osb_options *options, struct osb_error *e)
{
	struct osb_client *c = calloc(1, sizeof(*c));
	struct osb_error scratch = { 0 };
	struct err why = { 0 };

	if (!e)
		e = &scratch;
	*e = (struct osb_error){ 0 };
	if (!c) {
		error_set(e, OSB_MEMORY, NULL, "make client: out of memory");
		return NULL;
	}
	c->own.client = c;
	if (open_loop(c, &why) == 0 && take_options(c, options, &why) == 0)
		return c;
	error_from_err(e, &why);
	error_set(e, e->kind == OSB_MEMORY ? OSB_MEMORY : why.code == ERR_INVALID || why.code == ERR_LIMIT ? OSB_INVALID : OSB_LOCAL, NULL,
		  "make client: %s", why.msg);
	release(c);
	return NULL;
}

static bool is_undoing(const struct osb_client *c)
{
	for (const struct osb_call *call = c->calls; call; call = call->next)
		if (call->op.state_now == OP_UNDOING)
			return true;
	return false;
}

static bool is_busy(const struct osb_client *c)
{
	for (const struct osb_call *call = c->calls; call; call = call->next)
		if (call->op.state_now != OP_IDLE)
			return true;
	return false;
}

/* Ends what is under way; who waits to be called back is. */
static void end_calls(struct osb_client *c)
{
	struct err e = { 0 };
	uint64_t until;

	for (struct osb_call *call = c->calls; call; call = call->next)
		if (call->op.state_now == OP_RUNNING)
			op_fail(&call->op, OSB_CANCELLED, NULL, "the client was freed");
	loop_look_at_clock(c->loop);
	until = loop_now_ms(c->loop) + FREE_UNDO_MS;
	while (is_undoing(c) && loop_now_ms(c->loop) < until && client_turn(c, 50, &e) == 0)
		;
	for (struct osb_call *call = c->calls; call; call = call->next)
		op_undone(&call->op);
	while (is_busy(c) && client_turn(c, 0, &e) == 0)
		;
}

void osb_client_free(struct osb_client *c)
{
	if (!c)
		return;
	assert(!c->is_turning);
	c->is_closing = true;
	end_calls(c);
	while (c->calls) {
		struct osb_call *call = c->calls;

		c->calls = call->next;
		call->client = NULL;
		call->prev = call->next = NULL;
	}
	release(c);
}

const struct osb_error *osb_client_error(const struct osb_client *c)
{
	return &c->error;
}

/* ---- turning ---- */

int client_turn(struct osb_client *c, int wait_ms, struct err *e)
{
	int r;

	c->is_turning = true;
	r = loop_turn(c->loop, wait_ms, e);
	c->is_turning = false;
	return r;
}

int osb_client_fd(const struct osb_client *c)
{
	return loop_fd(c->loop);
}

int osb_client_timeout_ms(const struct osb_client *c)
{
	return loop_due_ms(c->loop);
}

int osb_client_dispatch(struct osb_client *c, int wait_ms)
{
	struct err e = { 0 };

	if (c->is_turning) /* inside a call back: that is what is going on already */
		return 0;
	return client_turn(c, wait_ms, &e);
}
