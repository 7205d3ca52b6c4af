// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "client/archive.h"
#include "client/client_impl.h"
#include "client/create_body.h"
#include "client/model.h"
#include "client/stream_reader.h"

#include "base/banned.h"

#define EVENT_TREE_MAX ((size_t)4 * 1024 * 1024) /* the last event describes an image of up to 128 layers */

/* ---- pulling ---- */

struct pulling {
	struct op *op;
	struct stream_reader reader;
	osb_progress_fn *progress;
	void *arg;
	bool is_done;
};

static void pull_end(struct op *op)
{
	struct pulling *p = op->state;

	if (p)
		stream_reader_done(&p->reader);
}

static void tell_progress(struct pulling *p, const struct json *v, const char *status)
{
	uint64_t total = json_count(v, "total"), done = json_count(v, "bytes"), layers = json_count(v, "layers");
	struct osb_progress said = { .status = status, .done_bytes = (int64_t)MIN(done, (uint64_t)INT64_MAX), .total_bytes = -1, .percent = -1 };
	char layer[48];

	if (!p->progress)
		return;
	if (total > 0) {
		said.total_bytes = (int64_t)MIN(total, (uint64_t)INT64_MAX);
		said.percent = done >= total ? 100 : (int64_t)((double)done / (double)total * 100);
	}
	if (layers > 0) {
		(void)snprintf(layer, sizeof(layer), "%llu/%llu", (unsigned long long)json_count(v, "layersDone"), (unsigned long long)layers);
		said.layer = layer;
	}
	p->progress(&said, p->arg);
}

static void pull_failed(struct pulling *p, const struct json *v)
{
	struct str code = json_text(v, "code"), message = json_text(v, "message");
	struct osb_error e = { .kind = OSB_ANSWER, .http_status = 200 };

	(void)snprintf(e.code, sizeof(e.code), "%.*s", (int)MIN(code.n, sizeof(e.code)), code.n ? code.p : "");
	(void)snprintf(e.message, sizeof(e.message), "%.*s", (int)MIN(message.n, sizeof(e.message)), message.n ? message.p : "");
	op_fail_as(p->op, &e);
}

static bool on_event(struct str payload, void *arg)
{
	struct pulling *p = arg;
	AUTO(arena_done) struct arena a = ARENA_INIT(EVENT_TREE_MAX);
	const struct json *v = json_parse(&a, payload, NULL, NULL, &(struct err){ 0 });
	struct str type = v && v->type == JSON_OBJECT ? json_text(v, "type") : (struct str){ 0 };
	char phase[32];

	if (str_is(type, "error")) {
		pull_failed(p, v);
	} else if (str_is(type, "done")) {
		p->is_done = true;
		tell_progress(p, v, "done");
	} else if (str_is(type, "progress")) {
		struct str said = json_text(v, "phase");

		(void)snprintf(phase, sizeof(phase), "%.*s", (int)MIN(said.n, sizeof(phase)), said.n ? said.p : "");
		tell_progress(p, v, phase);
	}
	return !op_is_over(p->op);
}

static void on_pull_data(struct op *op, struct str piece)
{
	struct pulling *p = op->state;
	struct err e = { 0 };

	if (stream_reader_feed(&p->reader, piece, on_event, p, &e) < 0)
		op_fail_err(op, &e);
}

static void on_pull_end(struct op *op, const struct op_answer *a)
{
	struct pulling *p = op->state;

	(void)a;
	stream_reader_end(&p->reader, on_event, p);
	if (p->is_done)
		op_done(op);
	else
		op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the server did not say how it ended");
}

int osb_image_pull(struct osb_client *c, const struct osb_pull *pull, osb_progress_fn *progress, void *arg, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "pull image", NULL);
	struct osb_pull taken;
	struct pulling *p;

	if (!op)
		return -1;
	struct_take(&taken, sizeof(taken), pull, pull ? pull->size : 0, sizeof(taken));
	p = op_alloc(op, sizeof(*p));
	if (p)
		*p = (struct pulling){ .op = op, .reader = STREAM_READER_INIT, .progress = progress, .arg = arg };
	op->state = p;
	op->on_end = pull_end;
	pull_body(op, &taken);
	op_send(op, &(struct ask){ .method = "POST", .path = "/images/pull", .accept = "text/event-stream", .on_data = on_pull_data,
				   .on_answer = on_pull_end });
	return op_run(op);
}

/* ---- the rest ---- */

int osb_image_list(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "list images", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .method = "GET", .path = "/images", .model = &json_model });
	return op_run(op);
}

int osb_image_remove(struct osb_client *c, const char *image, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "remove image", NULL);

	if (!op)
		return -1;
	(void)op_need(op, image && *image, "the image is missing");
	op_send(op, &(struct ask){ .method = "DELETE", .path = op_query(op, "/images", "uri", image) });
	return op_run(op);
}

int osb_image_load(struct osb_client *c, const char *name, osb_read_fn *read, void *arg, struct osb_bytes **ret, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "load image", ret);

	if (!op)
		return -1;
	op_upload(op, op_query(op, "/images/load", "name", name), read, arg, &json_model);
	return op_run(op);
}

int osb_image_save(struct osb_client *c, const struct osb_pull *pull, osb_write_fn *write, void *arg, struct osb_call *call)
{
	struct op *op = op_begin(c, call, "save image", NULL);
	struct osb_pull taken;

	if (!op)
		return -1;
	struct_take(&taken, sizeof(taken), pull, pull ? pull->size : 0, sizeof(taken));
	pull_body(op, &taken);
	op_download(op, &(struct ask){ .method = "POST", .path = "/images/save" }, write, arg);
	return op_run(op);
}
