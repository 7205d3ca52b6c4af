// SPDX-License-Identifier: Apache-2.0
#include "client/archive.h"
#include "client/client_impl.h"
#include "client/models.h"

#include "base/banned.h"

static const char *snapshot_path(struct op *op, const char *id, const char *tail)
{
	return op_text(op, "/snapshots/%s%s", op_segment(op, id, "snapshot id"), tail);
}

int osb_snapshot_create(struct osb_client *c, const char *sandbox_id, const char *name, struct osb_snapshot **ret,
			struct osb_call *call)
{
	struct op *op = op_begin(c, call, "create snapshot", ret);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '{');
	body_string(o, "name", name);
	json_close(o, '}');
	op_send(op, &(struct ask){ .method = "POST", .model = &snapshot_model,
				   .path = op_text(op, "/sandboxes/%s/snapshots", op_segment(op, sandbox_id, "sandbox id")) });
	return op_run(op);
}

int osb_snapshot_get(struct osb_client *c, const char *id, struct osb_snapshot **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "get snapshot", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = "GET", .path = snapshot_path(op, id, ""), .model = &snapshot_model });
	return op_run(op);
}

int osb_snapshot_list(struct osb_client *c, const struct osb_snapshot_list *filter, struct osb_snapshots **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "list snapshots", ret);
	struct osb_snapshot_list f;
	const char *path;

	if (!op)
		return -1;
	struct_take(&f, sizeof(f), filter, filter ? filter->size : 0, sizeof(f));
	path = op_query_states(op, op_query(op, "/snapshots", "sandboxId", f.sandbox_id), &f.states);
	op_send(op, &(struct ask){ .method = "GET", .path = op_query_page(op, path, f.page, f.page_size), .model = &snapshots_model });
	return op_run(op);
}

int osb_snapshot_delete(struct osb_client *c, const char *id, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "delete snapshot", NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = "DELETE", .path = snapshot_path(op, id, "") });
	return op_run(op);
}

int osb_snapshot_export(struct osb_client *c, const char *id, osb_write_fn *write, void *arg, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "export snapshot", NULL);

	if (!op)
		return -1;
	op_download(op, &(struct ask){ .method = "GET", .path = snapshot_path(op, id, "/archive") }, write, arg);
	return op_run(op);
}

int osb_snapshot_import(struct osb_client *c, const char *name, osb_read_fn *read, void *arg, struct osb_snapshot **ret,
			struct osb_call *call)
{
	struct op *op = op_begin(c, call, "import snapshot", ret);

	if (!op)
		return -1;
	op_upload(op, op_query(op, "/snapshots/import", "name", name), read, arg, &snapshot_model);
	return op_run(op);
}
