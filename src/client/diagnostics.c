// SPDX-License-Identifier: Apache-2.0
/* What happened to a sandbox. */
#include "client/client_impl.h"
#include "client/model.h"
#include "client/models.h"

#include "base/banned.h"

static const char *diagnostics_path(struct op *op, const char *id, const char *kind)
{
	return op_text(op, "/sandboxes/%s/diagnostics/%s", op_segment(op, id, "sandbox id"), op_segment(op, kind, "kind"));
}

int osb_diagnostics(struct osb_client *c, const char *id, const char *kind, const char *scope, struct osb_diagnostics **ret,
		    struct osb_call *call)
{
	struct op *op = op_begin(c, call, "get diagnostics", ret);

	if (!op)
		return -1;
	(void)op_need(op, scope && *scope, "the scope is missing"); /* without one the answer would be text */
	op_send(op, &(struct ask){ .method = "GET", .path = op_query(op, diagnostics_path(op, id, kind), "scope", scope),
				   .model = &diagnostics_model });
	return op_run(op);
}

int osb_diagnostics_text(struct osb_client *c, const char *id, const char *kind, const struct osb_map *query, struct osb_bytes **ret,
			 struct osb_call *call)
{
	struct op *op = op_begin(c, call, "get diagnostics", ret);
	const char *path;

	if (!op)
		return -1;
	path = diagnostics_path(op, id, kind);
	for (size_t i = 0; query && i < query->n; i++)
		path = op_query(op, path, op_segment(op, query->items[i].key, "name of a parameter"), query->items[i].value);
	op_send(op, &(struct ask){ .method = "GET", .path = path, .accept = "text/plain", .model = &bytes_model });
	return op_run(op);
}

int osb_diagnostics_network(struct osb_client *c, const char *id, struct osb_bytes **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "get network activity", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = "GET", .path = diagnostics_path(op, id, "network"), .model = &json_model });
	return op_run(op);
}
