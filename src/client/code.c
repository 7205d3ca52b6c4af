// SPDX-License-Identifier: Apache-2.0
/* Code, and the contexts that it runs in. */
#include "client/client_impl.h"
#include "client/model.h"
#include "client/op.h"
#include "client/run.h"
#include "client/sandbox.h"

#include "base/banned.h"

#define START_MS 120000 /* at least, for an interpreter to start: of some languages it is still being installed */
#define INTERRUPT_MS 60000

static const struct model_field context_fields[] = {
	MODEL(struct osb_context, id, MODEL_STRING, "id", .required = true),
	MODEL(struct osb_context, language, MODEL_STRING, "language", .required = true),
	MODEL(struct osb_context, cwd, MODEL_STRING, "cwd"),
};
static const struct model context_model = MODEL_OF(struct osb_context, context_fields);

static const struct model_field contexts_fields[] = {
	{ .wire = "", .name = "", .kind = MODEL_OBJECTS, .required = true, .offset = offsetof(struct osb_contexts, items),
	  .n = offsetof(struct osb_contexts, n), .model = &context_model },
};
static const struct model contexts_model = MODEL_OF(struct osb_contexts, contexts_fields);

static unsigned start_ms(const struct op *op)
{
	return MAX(op->client->request_timeout_ms, (unsigned)START_MS);
}

int osb_code_run(struct osb_sandbox *s, const struct osb_code *code, osb_event_fn *events, void *arg, struct osb_execution **ret,
		 struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "run code", ret);
	struct osb_code c;
	struct json_out *o;

	if (!op)
		return -1;
	struct_take(&c, sizeof(c), code, code ? code->size : 0, sizeof(c));
	if (!op_need(op, c.code && *c.code, "the code is missing"))
		return op_run(op);
	o = op_body(op);
	json_open(o, '{');
	body_string(o, "code", c.code);
	json_key(o, "context"), json_open(o, '{');
	body_string(o, "id", c.context_id);
	body_string(o, "language", c.language ? c.language : "python");
	json_close(o, '}');
	json_close(o, '}');
	run_stream(op, &(struct run_spec){ .path = "/code", .skips = c.skip_accumulation, .head_ms = start_ms(op), .events = events,
					   .arg = arg });
	return op_run(op);
}

int osb_code_interrupt(struct osb_sandbox *s, const char *execution_or_context_id, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "interrupt code", NULL);

	if (!op)
		return -1;
	if (op_need(op, execution_or_context_id && *execution_or_context_id, "the id is missing"))
		op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE", .timeout_ms = INTERRUPT_MS,
					   .path = op_query(op, "/code", "id", execution_or_context_id) });
	return op_run(op);
}

int osb_context_create(struct osb_sandbox *s, const char *language, const char *cwd, struct osb_context **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "create context", ret);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '{');
	body_string(o, "language", language ? language : "python");
	body_string(o, "cwd", cwd);
	json_close(o, '}');
	op_send(op, &(struct ask){ .to = &s->execd, .method = "POST", .path = "/code/context", .timeout_ms = start_ms(op),
				   .model = &context_model });
	return op_run(op);
}

int osb_context_get(struct osb_sandbox *s, const char *id, struct osb_context **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get context", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .model = &context_model,
				   .path = op_text(op, "/code/contexts/%s", op_segment(op, id, "context's id")) });
	return op_run(op);
}

int osb_context_list(struct osb_sandbox *s, const char *language, struct osb_contexts **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "list contexts", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .model = &contexts_model,
				   .path = op_query(op, "/code/contexts", "language", language) });
	return op_run(op);
}

int osb_context_delete(struct osb_sandbox *s, const char *id, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "delete context", NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE",
				   .path = op_text(op, "/code/contexts/%s", op_segment(op, id, "context's id")) });
	return op_run(op);
}

int osb_context_delete_all(struct osb_sandbox *s, const char *language, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "delete contexts", NULL);

	if (!op)
		return -1;
	if (op_need(op, language && *language, "the language is missing"))
		op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE", .path = op_query(op, "/code/contexts", "language", language) });
	return op_run(op);
}
