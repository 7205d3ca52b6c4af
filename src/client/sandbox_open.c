// SPDX-License-Identifier: Apache-2.0
/* How handles come to be: create, connect and resume lead to the same end, both endpoints and a sandbox that answers. */
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_feed.h"
#include "client/client_impl.h"
#include "client/create_body.h"
#include "client/model.h"
#include "client/models.h"
#include "client/sandbox.h"

#include "base/banned.h"

#define READY_DEFAULT_MS 30000
#define POLL_DEFAULT_MS 200
#define PING_MS 5000 /* one that got lost must not use up all the time */
#define LOOK_MS 1000 /* between looks at the state of one that does not answer */
#define STATE_TREE_MAX ((size_t)1024 * 1024)
#define ID_BYTES_MAX 255

/* From the answer of a create on nothing may fail for want of memory that is needed to delete what was made. */
struct opening {
	char id[ID_BYTES_MAX + 1]; /* "": there is none yet */
	char path[ID_BYTES_MAX + 16];
	bool is_creating;  /* its request is under way */
	bool is_ours;      /* it was made here: it goes if anything fails */
	bool skips_health, answers;
	unsigned ready_ms, poll_ms;
	uint64_t give_up_ms, look_ms; /* look_ms: when its state is looked at next */
	struct osb_sandbox *s; /* the operation's result, once there is one */
};

static void open_endpoints(struct op *op);
static void ping(struct op *op);

/* ---- undoing ---- */

static void on_deleted(struct op *op, const struct op_answer *a)
{
	(void)a; /* what cannot be deleted ends by its timeout */
	op_undone(op);
}

static void delete_it(struct op *op)
{
	struct opening *o = op->state;

	(void)snprintf(o->path, sizeof(o->path), "/sandboxes/%s", o->id);
	op_send(op, &(struct ask){ .method = "DELETE", .path = o->path, .takes_failure = true, .timeout_ms = OP_UNDO_MS,
				   .on_answer = on_deleted });
}

/* One that is being made right now is waited for: nobody else will ever know its id. */
static bool undo_create(struct op *op)
{
	const struct opening *o = op->state;

	if (o->is_ours)
		delete_it(op);
	return o->is_ours || o->is_creating;
}

/* ---- waiting until it answers ---- */

static void check_open(struct op *op)
{
	const struct opening *o = op->state;

	if (o->s->execd.remote && o->s->egress.remote && (o->skips_health || o->answers))
		op_done(op);
}

/* Whatever else the server says about it, pinging goes on. */
static void on_state(struct op *op, const struct op_answer *a)
{
	const struct opening *o = op->state;
	AUTO(arena_done) struct arena tree = ARENA_INIT(STATE_TREE_MAX);
	const struct json *v = a->error ? NULL : json_parse(&tree, a->body, NULL, NULL, &(struct err){ 0 });
	struct err e = { 0 };
	struct osb_sandbox_info *info = v ? model_read(&sandbox_info_model, v, &e) : NULL;

	if (info && (strcmp(info->status.state, "Failed") == 0 || strcmp(info->status.state, "Terminated") == 0))
		op_fail(op, OSB_NOT_READY, "UNHEALTHY", "sandbox '%s' is %s: %s", o->id, info->status.state,
			info->status.message ? info->status.message : "no reason given");
	else
		op_pause(op, o->poll_ms, ping);
	result_free(info);
}

/* One that has ended will never answer: its image could not be pulled, or its entrypoint is over. */
static void look_at_state(struct op *op)
{
	struct opening *o = op->state;

	o->look_ms = loop_now_ms(op->client->loop) + LOOK_MS;
	(void)snprintf(o->path, sizeof(o->path), "/sandboxes/%s", o->id);
	op_send(op, &(struct ask){ .method = "GET", .path = o->path, .takes_failure = true, .on_answer = on_state });
}

static void on_pong(struct op *op, const struct op_answer *a)
{
	struct opening *o = op->state;
	uint64_t now = loop_now_ms(op->client->loop);

	if (!a->error) {
		o->answers = true;
		check_open(op);
	} else if (now + o->poll_ms >= o->give_up_ms) {
		op_fail(op, OSB_NOT_READY, NULL, "sandbox '%s' did not answer within %u ms, at last: %s", o->id, o->ready_ms, a->error->message);
	} else if (now >= o->look_ms) {
		look_at_state(op);
	} else {
		op_pause(op, o->poll_ms, ping);
	}
}

static void ping(struct op *op)
{
	const struct opening *o = op->state;
	unsigned limit = MIN(op->client->request_timeout_ms, (unsigned)PING_MS);
	uint64_t now = loop_now_ms(op->client->loop), left = o->give_up_ms > now ? o->give_up_ms - now : 1;

	op_send(op, &(struct ask){ .to = &o->s->execd, .method = "GET", .path = "/ping", .takes_failure = true, .on_answer = on_pong,
				   .timeout_ms = (unsigned)MIN(left, (uint64_t)limit) });
}

/* ---- endpoints ---- */

static void on_endpoint(struct op *op, const struct op_answer *a)
{
	struct opening *o = op->state;
	struct endpoint *ep = a->tag;
	const struct json *v = op_json(op, a);
	struct err e = { 0 };
	struct osb_endpoint *said = v ? model_read(&endpoint_model, v, &e) : NULL;

	if (!v)
		return;
	if (!said || endpoint_init(ep, op->client, said->endpoint, &said->headers, &e) < 0) {
		result_free(said);
		op_fail_err(op, &e);
		return;
	}
	result_free(said);
	if (ep == &o->s->execd && !o->skips_health)
		ping(op);
	check_open(op);
}

const char *sandbox_endpoint_path(struct op *op, const char *id, unsigned port)
{
	return op_text(op, "/sandboxes/%s/endpoints/%u", op_segment(op, id, "sandbox id"), port);
}

static void ask_endpoint(struct op *op, unsigned port, struct endpoint *ep)
{
	const struct opening *o = op->state;

	op_send(op, &(struct ask){ .method = "GET", .on_answer = on_endpoint, .tag = ep,
				   .path = op_query(op, sandbox_endpoint_path(op, o->id, port), "use_server_proxy",
						    op->client->use_server_proxy ? "true" : "false") });
}

static void free_sandbox(void *s)
{
	osb_sandbox_free(s);
}

static void open_endpoints(struct op *op)
{
	struct opening *o = op->state;

	o->s = sandbox_new(op->client, o->id);
	if (!o->s) {
		op_no_memory(op);
		return;
	}
	op_result(op, o->s, free_sandbox);
	o->give_up_ms = loop_now_ms(op->client->loop) + o->ready_ms;
	o->look_ms = loop_now_ms(op->client->loop) + LOOK_MS;
	ask_endpoint(op, PORT_EXECD, &o->s->execd);
	ask_endpoint(op, PORT_EGRESS, &o->s->egress);
}

static struct opening *opening_new(struct op *op, bool skips_health, unsigned ready_ms, unsigned poll_ms)
{
	struct opening *o = op_alloc(op, sizeof(*o));

	if (!o)
		return NULL;
	o->skips_health = skips_health;
	o->ready_ms = ready_ms ? ready_ms : READY_DEFAULT_MS;
	o->poll_ms = poll_ms ? poll_ms : POLL_DEFAULT_MS;
	op->state = o;
	return o;
}

/* ---- create ---- */

/* It becomes part of a path, as it is. */
static bool is_plain(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (!(id.p[i] >= 'a' && id.p[i] <= 'z') && !(id.p[i] >= 'A' && id.p[i] <= 'Z') &&
		    !(id.p[i] >= '0' && id.p[i] <= '9') && id.p[i] != '-' && id.p[i] != '_')
			return false;
	return id.n > 0;
}

struct found_id {
	char text[ID_BYTES_MAX + 1];
	size_t n;
	bool is_complete, is_bad;
};

static void on_json(const struct json_piece *piece, void *arg)
{
	struct found_id *f = arg;

	if (piece->depth != 1 || !str_is(piece->path[0], "id") || f->is_complete)
		return;
	f->is_bad |= !piece->is_string || piece->text.n > ID_BYTES_MAX - f->n;
	f->is_complete = piece->is_last;
	if (f->is_bad || piece->text.n == 0)
		return;
	memcpy(f->text + f->n, piece->text.p, piece->text.n);
	f->n += piece->text.n;
}

static bool read_id(struct str body, char out[ID_BYTES_MAX + 1])
{
	struct found_id f = { .n = 0 };
	struct json_feed feed;

	json_feed_init(&feed, 1, on_json, &f);
	if (!json_feed(&feed, body) || !json_feed_end(&feed) || !f.is_complete || f.is_bad || !is_plain((struct str){ f.text, f.n }))
		return false;
	memcpy(out, f.text, sizeof(f.text));
	return true;
}

/* Also when the operation has failed meanwhile: what was made must go. */
static void on_created(struct op *op, const struct op_answer *a)
{
	struct opening *o = op->state;

	o->is_creating = false;
	o->is_ours = !a->error && read_id(a->body, o->id);
	if (op->state_now == OP_UNDOING && o->is_ours)
		delete_it(op);
	else if (op->state_now == OP_UNDOING)
		op_undone(op);
	else if (a->error)
		op_fail_as(op, a->error);
	else if (!o->is_ours)
		op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the answer has no id");
	else
		open_endpoints(op);
}

int osb_sandbox_create(struct osb_client *c, const struct osb_create *create, struct osb_sandbox **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "create sandbox", ret);
	struct http_header key = { .name = STR("Idempotency-Key") };
	struct osb_create cr;
	struct opening *o;

	if (!op)
		return -1;
	struct_take(&cr, sizeof(cr), create, create ? create->size : 0, sizeof(cr));
	o = opening_new(op, cr.skip_health_check, cr.ready_timeout_ms, cr.poll_ms);
	create_body(op, &cr);
	if (o && !op_is_over(op)) {
		key.value = str_of(cr.idempotency_key);
		o->is_creating = true;
		op->undo = undo_create;
		op_send(op, &(struct ask){ .method = "POST", .path = "/sandboxes", .headers = &key, .n_headers = cr.idempotency_key ? 1 : 0,
					   .takes_failure = true, .is_kept = true, .on_answer = on_created });
	}
	return op_run(op);
}

/* ---- connect and resume ---- */

static struct op *open_begin(struct osb_client *c, const char *id, const struct osb_connect *options, const char *what,
			     struct osb_sandbox **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, what, ret);
	struct osb_connect how;
	struct opening *o;

	if (!op)
		return NULL;
	struct_take(&how, sizeof(how), options, options ? options->size : 0, sizeof(how));
	o = opening_new(op, how.skip_health_check, how.ready_timeout_ms, how.poll_ms);
	(void)op_segment(op, id, "sandbox id");
	if (o && id && (size_t)snprintf(o->id, sizeof(o->id), "%s", id) >= sizeof(o->id))
		(void)op_need(op, false, "the sandbox id is too long");
	return op;
}

int osb_sandbox_connect(struct osb_client *c, const char *id, const struct osb_connect *options, struct osb_sandbox **ret,
			struct osb_call *call)
{
	struct op *op = open_begin(c, id, options, "connect to sandbox", ret, call);

	if (!op)
		return -1;
	if (!op_is_over(op))
		open_endpoints(op);
	return op_run(op);
}

static void on_resumed(struct op *op, const struct op_answer *a)
{
	(void)a;
	open_endpoints(op);
}

int osb_sandbox_resume(struct osb_client *c, const char *id, const struct osb_connect *options, struct osb_sandbox **ret,
		       struct osb_call *call)
{
	struct op *op = open_begin(c, id, options, "resume sandbox", ret, call);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = "POST", .on_answer = on_resumed,
				   .path = op_text(op, "/sandboxes/%s/resume", op_segment(op, id, "sandbox id")) });
	return op_run(op);
}
