// SPDX-License-Identifier: Apache-2.0
/* Pools that the server keeps, volumes, and the server itself. */
#include "base/err.h"
#include "base/json.h"
#include "client/client_impl.h"
#include "client/model.h"

#include "base/banned.h"

/* One request with METHOD to FOLDER, or to NAME in it; JSON is its body, MODEL what comes back. */
static int ask_folder(struct osb_client *c, const char *what, const char *method, const char *folder, bool has_name, const char *name,
		      const char *json, const struct model *model, struct osb_bytes **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, what, ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = method, .model = model, .bytes = str_of(json),
				   .path = has_name ? op_text(op, "%s/%s", folder, op_segment(op, name, "name")) : folder });
	return op_run(op);
}

int osb_server_pool_create(struct osb_client *c, const char *json, struct osb_bytes **ret, struct osb_call *call)
{
	return ask_folder(c, "create pool", "POST", "/pools", false, NULL, json, &json_model, ret, call);
}

int osb_server_pool_get(struct osb_client *c, const char *name, struct osb_bytes **ret, struct osb_call *call)
{
	return ask_folder(c, "get pool", "GET", "/pools", true, name, NULL, &json_model, ret, call);
}

int osb_server_pool_list(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call)
{
	return ask_folder(c, "list pools", "GET", "/pools", false, NULL, NULL, &json_model, ret, call);
}

int osb_server_pool_update(struct osb_client *c, const char *name, const char *json, struct osb_bytes **ret, struct osb_call *call)
{
	return ask_folder(c, "update pool", "PUT", "/pools", true, name, json, &json_model, ret, call);
}

int osb_server_pool_delete(struct osb_client *c, const char *name, struct osb_call *call)
{
	return ask_folder(c, "delete pool", "DELETE", "/pools", true, name, NULL, NULL, NULL, call);
}

int osb_volume_list(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call)
{
	return ask_folder(c, "list volumes", "GET", "/volumes", false, NULL, NULL, &json_model, ret, call);
}

int osb_volume_delete(struct osb_client *c, const char *name, struct osb_call *call)
{
	return ask_folder(c, "delete volume", "DELETE", "/volumes", true, name, NULL, NULL, NULL, call);
}

static void on_health(struct op *op, const struct op_answer *a)
{
	const struct json *v = op_json(op, a);

	if (!v)
		return;
	if (v->type == JSON_OBJECT && str_is(json_text(v, "status"), "healthy"))
		op_done(op);
	else
		op_fail(op, OSB_NOT_READY, "UNHEALTHY", "the server does not say that it is healthy");
}

int osb_server_health(struct osb_client *c, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "ask for health", NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &c->root, .method = "GET", .path = "/health", .on_answer = on_health });
	return op_run(op);
}
