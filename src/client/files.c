// SPDX-License-Identifier: Apache-2.0
/* Files and directories: what is known of them, and what is done with them by name. Their content: transfer.c. */
#include "base/err.h"
#include "base/json.h"
#include "client/model.h"
#include "client/op.h"
#include "client/sandbox.h"

#include "base/banned.h"

/* ---- what is known of them ---- */

static const struct model_field file_info_fields[] = {
	MODEL(struct osb_file_info, path, MODEL_STRING, "path", .required = true),
	{ .wire = "type", .name = "entry_type", .kind = MODEL_STRING, .offset = offsetof(struct osb_file_info, type) },
	MODEL(struct osb_file_info, mode, MODEL_SMALL, "mode", .required = true),
	MODEL(struct osb_file_info, owner, MODEL_STRING, "owner", .required = true),
	MODEL(struct osb_file_info, group, MODEL_STRING, "group", .required = true),
	MODEL(struct osb_file_info, size, MODEL_INT, "size", .required = true),
	MODEL(struct osb_file_info, modified_at, MODEL_TIME, "modified_at", .required = true),
	MODEL(struct osb_file_info, created_at, MODEL_TIME, "created_at", .required = true),
};
static const struct model file_info_model = MODEL_OF(struct osb_file_info, file_info_fields);

static const struct model_field files_fields[] = {
	{ .wire = "", .name = "", .kind = MODEL_OBJECTS, .required = true, .offset = offsetof(struct osb_files, items),
	  .n = offsetof(struct osb_files, n), .model = &file_info_model },
};
static const struct model files_model = MODEL_OF(struct osb_files, files_fields);

/* By path, in the order of the answer. */
static int read_by_path(struct model_reader *r, const struct json *v, void *out)
{
	struct osb_files *files = out;
	struct osb_file_info *items;

	if (v->type != JSON_OBJECT)
		return model_bad(r, "it is no object");
	items = arena_array(r->arena, v->kids.n + 1, sizeof(*items));
	if (!items)
		return model_no_room(r);
	for (const struct json *kid = json_first(v); kid; kid = kid->next)
		if (model_read_struct(r, &file_info_model, kid, &items[files->n++]) < 0)
			return -1;
	files->items = items;
	return 0;
}
static const struct model files_by_path_model = MODEL_OF(struct osb_files, files_fields, .read = read_by_path);

/* PATH with a "path=" for each; there must be one. */
static const char *with_paths(struct op *op, const char *path, const struct osb_strings *paths)
{
	if (!paths || paths->n == 0) {
		(void)op_need(op, false, "there is no path");
		return "";
	}
	for (size_t i = 0; i < paths->n; i++) {
		if (!op_need(op, paths->items[i] && *paths->items[i], "an empty path"))
			return "";
		path = op_query(op, path, "path", paths->items[i]);
	}
	return path;
}

int osb_file_info(struct osb_sandbox *s, const struct osb_strings *paths, struct osb_files **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get file info", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .path = with_paths(op, "/files/info", paths),
				   .model = &files_by_path_model });
	return op_run(op);
}

int osb_file_search(struct osb_sandbox *s, const char *path, const char *pattern, struct osb_files **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "search files", ret);

	if (!op)
		return -1;
	if (op_need(op, path && *path, "the path is missing"))
		op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .model = &files_model,
					   .path = op_query(op, op_query(op, "/files/search", "path", path), "pattern", pattern) });
	return op_run(op);
}

int osb_directory_list(struct osb_sandbox *s, const char *path, int64_t depth, struct osb_files **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "list directory", ret);
	const char *deep;

	if (!op)
		return -1;
	deep = depth > 0 ? op_text(op, "%lld", (long long)depth) : NULL;
	if (op_need(op, path && *path, "the path is missing") && op_need(op, depth >= 0, "the depth is below 0"))
		op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .model = &files_model,
					   .path = op_query(op, op_query(op, "/directories/list", "path", path), "depth", deep) });
	return op_run(op);
}

/* ---- what is done with them ---- */

static int delete_paths(struct osb_sandbox *s, const char *what, const char *route, const struct osb_strings *paths, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, what, NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE", .path = with_paths(op, route, paths) });
	return op_run(op);
}

int osb_file_delete(struct osb_sandbox *s, const struct osb_strings *paths, struct osb_call *call)
{
	return delete_paths(s, "delete files", "/files", paths, call);
}

int osb_directory_delete(struct osb_sandbox *s, const struct osb_strings *paths, struct osb_call *call)
{
	return delete_paths(s, "delete directories", "/directories", paths, call);
}

int osb_file_move(struct osb_sandbox *s, const struct osb_move *moves, size_t n, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "move files", NULL);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '[');
	for (size_t i = 0; i < n; i++) {
		if (!op_need(op, moves[i].source && moves[i].destination, "a move without a source or a destination"))
			break;
		json_open(o, '{');
		json_key(o, "src"), json_cstr(o, moves[i].source);
		json_key(o, "dest"), json_cstr(o, moves[i].destination);
		json_close(o, '}');
	}
	json_close(o, ']');
	op_send(op, &(struct ask){ .to = &s->execd, .method = "POST", .path = "/files/mv" });
	return op_run(op);
}

/* POST /files/permissions and /directories have the same body: what is to be, by path. */
static int post_entries(struct osb_sandbox *s, const char *what, const char *route, const struct osb_entry *entries, size_t n,
			struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, what, NULL);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '{');
	for (size_t i = 0; i < n; i++) {
		if (!op_need(op, entries[i].path && *entries[i].path, "an entry without a path"))
			break;
		json_key(o, entries[i].path), json_open(o, '{');
		if (entries[i].mode != 0)
			json_key(o, "mode"), json_int(o, entries[i].mode);
		body_string(o, "owner", entries[i].owner);
		body_string(o, "group", entries[i].group);
		json_close(o, '}');
	}
	json_close(o, '}');
	op_send(op, &(struct ask){ .to = &s->execd, .method = "POST", .path = route });
	return op_run(op);
}

int osb_file_chmod(struct osb_sandbox *s, const struct osb_entry *entries, size_t n, struct osb_call *call)
{
	return post_entries(s, "set permissions", "/files/permissions", entries, n, call);
}

int osb_directory_create(struct osb_sandbox *s, const struct osb_entry *entries, size_t n, struct osb_call *call)
{
	return post_entries(s, "create directories", "/directories", entries, n, call);
}

/* ---- replacing ---- */

static const struct model_field replaced_fields[] = {
	MODEL(struct osb_replaced, path, MODEL_STRING, NULL),
	MODEL(struct osb_replaced, replaced_count, MODEL_INT, "replacedCount", .none = -1),
};
static const struct model replaced_model = MODEL_OF(struct osb_replaced, replaced_fields);

static const struct model_field replacements_fields[] = {
	{ .wire = "", .name = "", .kind = MODEL_OBJECTS, .required = true, .offset = offsetof(struct osb_replacements, items),
	  .n = offsetof(struct osb_replacements, n), .model = &replaced_model },
};

static int read_replacements(struct model_reader *r, const struct json *v, void *out)
{
	struct osb_replacements *all = out;
	struct osb_replaced *items;

	if (v->type != JSON_OBJECT)
		return model_bad(r, "it is no object");
	items = arena_array(r->arena, v->kids.n + 1, sizeof(*items));
	if (!items)
		return model_no_room(r);
	for (const struct json *kid = json_first(v); kid; kid = kid->next, all->n++) {
		if (model_read_struct(r, &replaced_model, kid, &items[all->n]) < 0)
			return -1;
		items[all->n].path = arena_dup(r->arena, kid->key);
		if (!items[all->n].path)
			return model_no_room(r);
	}
	all->items = items;
	return 0;
}
static const struct model replacements_model = MODEL_OF(struct osb_replacements, replacements_fields, .read = read_replacements);

/* Older servers have replaced, and say nothing: then so do we, of each path that there was. */
static void on_replaced(struct op *op, const struct op_answer *a)
{
	struct op_answer said = *a;

	if (a->body.n == 0)
		said.body = str_of(op->state);
	op_answered(op, &said, &replacements_model);
}

static void put_replaces(struct op *op, struct json_out *o, const struct osb_replace *replaces, size_t n)
{
	json_open(o, '{');
	for (size_t i = 0; i < n; i++) {
		const struct osb_replace *r = &replaces[i];

		if (!op_need(op, r->path && r->old_content && *r->old_content && r->new_content, "a replacement without path, old or new content"))
			break;
		json_key(o, r->path), json_open(o, '{');
		json_key(o, "old"), json_cstr(o, r->old_content);
		json_key(o, "new"), json_cstr(o, r->new_content);
		json_close(o, '}');
	}
	json_close(o, '}');
}

/* {"path": {}} for each, what an answer would be that does not say how often. */
static char *silent_answer(struct op *op, const struct osb_replace *replaces, size_t n)
{
	AUTO(buf_done) struct buf b = BUF_INIT(OP_BODY_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '{');
	for (size_t i = 0; i < n && !op_is_over(op); i++)
		json_key(&o, replaces[i].path), json_open(&o, '{'), json_close(&o, '}');
	json_close(&o, '}');
	return op_copy(op, buf_z(&b));
}

int osb_file_replace(struct osb_sandbox *s, const struct osb_replace *replaces, size_t n, struct osb_replacements **ret,
		     struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "replace contents", ret);

	if (!op)
		return -1;
	put_replaces(op, op_body(op), replaces, n);
	op->state = silent_answer(op, replaces, n);
	op_send(op, &(struct ask){ .to = &s->execd, .method = "POST", .path = "/files/replace?verbose=true", .on_answer = on_replaced });
	return op_run(op);
}
