// SPDX-License-Identifier: Apache-2.0
/* Sandboxes as the server knows them. */
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rfc3339.h"
#include "client/archive.h"
#include "client/client_impl.h"
#include "client/create_body.h"
#include "client/model.h"
#include "client/models.h"
#include "client/sandbox.h"
#include "net/http/url.h"

#include "base/banned.h"

#define SECONDS_MAX (INT64_C(100) * 366 * 24 * 3600)

/* One request about one sandbox, of which MODEL (or NULL) comes back. TAIL goes behind its path. */
static int about_one(struct osb_client *c, const char *id, const char *what, const char *method, const char *tail,
		     const struct model *model, void *ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, what, ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = method, .model = model,
				   .path = op_text(op, "/sandboxes/%s%s", op_segment(op, id, "sandbox id"), tail) });
	return op_run(op);
}

int osb_sandbox_get(struct osb_client *c, const char *id, struct osb_sandbox_info **ret, struct osb_call *call)
{
	return about_one(c, id, "get sandbox", "GET", "", &sandbox_info_model, ret, call);
}

int osb_sandbox_pause(struct osb_client *c, const char *id, struct osb_call *call)
{
	return about_one(c, id, "pause sandbox", "POST", "/pause", NULL, NULL, call);
}

int osb_sandbox_kill(struct osb_client *c, const char *id, struct osb_call *call)
{
	return about_one(c, id, "kill sandbox", "DELETE", "", NULL, NULL, call);
}

/* ---- lists ---- */

/* "k=v&k2=v2", of which each part is escaped before the whole is. */
static const char *metadata_filter(struct op *op, const struct osb_map *m)
{
	AUTO(buf_done) struct buf b = BUF_INIT(HTTP_LINE_MAX);

	for (size_t i = 0; i < m->n; i++) {
		if (i > 0)
			buf_add_char(&b, '&');
		url_encode_query(&b, str_of(m->items[i].key));
		buf_add_char(&b, '=');
		url_encode_query(&b, str_of(m->items[i].value));
	}
	if (b.failed) {
		op_fail_buf(op, &b, "a filter");
		return NULL;
	}
	return m->n > 0 ? op_text(op, "%s", buf_z(&b)) : NULL;
}

int osb_sandbox_list(struct osb_client *c, const struct osb_list *filter, struct osb_sandboxes **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "list sandboxes", ret);
	struct osb_list f;
	const char *path;

	if (!op)
		return -1;
	struct_take(&f, sizeof(f), filter, filter ? filter->size : 0, sizeof(f));
	path = op_query_states(op, "/sandboxes", &f.states);
	path = op_query(op, path, "metadata", metadata_filter(op, &f.metadata));
	op_send(op, &(struct ask){ .method = "GET", .path = op_query_page(op, path, f.page, f.page_size), .model = &sandboxes_model });
	return op_run(op);
}

/* ---- changes ---- */

int osb_sandbox_renew(struct osb_client *c, const char *id, int64_t timeout_s, struct osb_expiry **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "renew sandbox", ret);
	char when[RFC3339_SIZE] = "";
	struct json_out *o;

	if (!op)
		return -1;
	if (op_need(op, timeout_s > 0 && timeout_s <= SECONDS_MAX, "the timeout is no number of seconds to live"))
		(void)rfc3339_format(timespec_from_us(clock_wall_us() + timeout_s * 1000000), when);
	o = op_body(op);
	json_open(o, '{');
	json_key(o, "expiresAt"), json_cstr(o, when);
	json_close(o, '}');
	op_send(op, &(struct ask){ .method = "POST", .model = &expiry_model,
				   .path = op_text(op, "/sandboxes/%s/renew-expiration", op_segment(op, id, "sandbox id")) });
	return op_run(op);
}

int osb_sandbox_patch_metadata(struct osb_client *c, const char *id, const struct osb_map *patch, struct osb_sandbox_info **ret,
			       struct osb_call *call)
{
	struct op *op = op_begin(c, call, "patch metadata", ret);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '{');
	for (size_t i = 0; patch && i < patch->n; i++)
		json_key(o, patch->items[i].key ? patch->items[i].key : ""), json_cstr(o, patch->items[i].value);
	json_close(o, '}');
	op_send(op, &(struct ask){ .method = "PATCH", .model = &sandbox_info_model,
				   .path = op_text(op, "/sandboxes/%s/metadata", op_segment(op, id, "sandbox id")) });
	return op_run(op);
}

int osb_sandbox_fork(struct osb_client *c, const char *id, const struct osb_fork *fork, struct osb_sandboxes **ret,
		     struct osb_call *call)
{
	struct op *op = op_begin(c, call, "fork sandbox", ret);
	struct osb_fork f;

	if (!op)
		return -1;
	struct_take(&f, sizeof(f), fork, fork ? fork->size : 0, sizeof(f));
	fork_body(op, &f);
	op_send(op, &(struct ask){ .method = "POST", .model = &forks_model,
				   .path = op_text(op, "/sandboxes/%s/fork", op_segment(op, id, "sandbox id")) });
	return op_run(op);
}

int osb_sandbox_rollback(struct osb_client *c, const char *id, const char *snapshot_id, const struct osb_map *env,
			 struct osb_sandbox_info **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "roll back sandbox", ret);
	struct json_out *o;

	if (!op)
		return -1;
	(void)op_need(op, snapshot_id && *snapshot_id, "the snapshot is missing");
	o = op_body(op);
	json_open(o, '{');
	json_key(o, "snapshotId"), json_cstr(o, snapshot_id);
	if (env)
		body_map(o, "env", env);
	json_close(o, '}');
	op_send(op, &(struct ask){ .method = "POST", .model = &sandbox_info_model,
				   .path = op_text(op, "/sandboxes/%s/rollback", op_segment(op, id, "sandbox id")) });
	return op_run(op);
}

/* ---- endpoints ---- */

static void on_endpoint(struct op *op, const struct op_answer *a)
{
	const struct json *v = op_json(op, a);
	struct err e = { 0 };
	struct osb_endpoint *ep = v ? model_read(&endpoint_model, v, &e) : NULL;

	if (!v)
		return;
	if (ep)
		ep->url = arena_printf(result_arena(ep), "%s://%s", op->client->is_tls ? "https" : "http", ep->endpoint);
	if (ep && ep->url) {
		op_result(op, ep, NULL);
		op_done(op);
		return;
	}
	result_free(ep);
	if (ep)
		op_no_memory(op);
	else
		op_fail_err(op, &e);
}

int osb_sandbox_endpoint(struct osb_client *c, const char *id, unsigned port, int64_t expires, struct osb_endpoint **ret,
			 struct osb_call *call)
{
	struct op *op = op_begin(c, call, "get endpoint", ret);
	const char *path;

	if (!op)
		return -1;
	(void)op_need(op, port >= 1 && port <= 65535, "it is no port");
	path = sandbox_endpoint_path(op, id, port);
	if (expires > 0) /* never with the server's own proxy, which signs nothing */
		path = op_query(op, path, "expires", op_text(op, "%lld", (long long)expires));
	else
		path = op_query(op, path, "use_server_proxy", c->use_server_proxy ? "true" : "false");
	op_send(op, &(struct ask){ .method = "GET", .path = path, .on_answer = on_endpoint });
	return op_run(op);
}
