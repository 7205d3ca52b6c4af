// SPDX-License-Identifier: Apache-2.0
#include "client/archive.h"

#include "client/client_impl.h"
#include "net/http/client.h"

#include "base/banned.h"

struct sink {
	osb_write_fn *write;
	void *arg;
};

static void on_piece(struct op *op, struct str piece)
{
	const struct sink *s = op->state;

	if (s->write(piece.p, piece.n, s->arg) < 0)
		op_fail(op, OSB_LOCAL, NULL, "writing what was received has failed");
}

static void on_received(struct op *op, const struct op_answer *a)
{
	(void)a;
	op_done(op);
}

void op_download(struct op *op, const struct ask *ask, osb_write_fn *write, void *arg)
{
	struct sink *s = op_alloc(op, sizeof(*s));
	struct ask streamed = *ask;

	if (!s || !op_need(op, write, "there is no function to write with"))
		return;
	*s = (struct sink){ .write = write, .arg = arg };
	op->state = s;
	streamed.timeout_ms = OP_NO_TIMEOUT;
	streamed.accept = "application/x-tar, application/json";
	streamed.on_data = on_piece;
	streamed.on_answer = on_received;
	op_send(op, &streamed);
}

void op_upload(struct op *op, const char *path, osb_read_fn *read, void *arg, const struct model *model)
{
	if (op_need(op, read, "there is no function to read with"))
		op_send(op, &(struct ask){ .method = "POST", .path = path, .content_type = "application/x-tar", .read = read,
					   .read_arg = arg, .length = HTTP_UNSIZED, .timeout_ms = OP_NO_TIMEOUT, .model = model });
}

const char *op_query_states(struct op *op, const char *path, const struct osb_strings *states)
{
	for (size_t i = 0; i < states->n; i++)
		path = op_query(op, path, "state", states->items[i]);
	return path;
}

const char *op_query_page(struct op *op, const char *path, int64_t page, int64_t page_size)
{
	if (page != 0)
		path = op_query(op, path, "page", op_text(op, "%lld", (long long)page));
	if (page_size != 0)
		path = op_query(op, path, "pageSize", op_text(op, "%lld", (long long)page_size));
	return path;
}
