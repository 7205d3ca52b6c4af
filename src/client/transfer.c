// SPDX-License-Identifier: Apache-2.0
/* Contents of files, in both directions: whole ones in memory, and streams of any length in little of it. */
#include "base/err.h"
#include "client/model.h"
#include "client/op.h"
#include "client/sandbox.h"
#include "client/upload.h"
#include "net/http/client.h"

#include "base/banned.h"

#define READ_MAX (RESULT_MAX - (size_t)1024 * 1024)
#define STORE_MS 900000 /* from its last byte until a file is safely on the sandbox's disk */

/* ---- down ---- */

static const char *download_path(struct op *op, const char *path, const struct osb_read *how)
{
	const char *at;

	if (!op_need(op, path && *path, "the path is missing") || !op_need(op, how->offset >= 0 && how->limit >= 0, "lines are counted from 1"))
		return "";
	at = op_query(op, "/files/download", "path", path);
	at = op_query(op, at, "offset", how->offset > 0 ? op_text(op, "%lld", (long long)how->offset) : NULL);
	return op_query(op, at, "limit", how->limit > 0 ? op_text(op, "%lld", (long long)how->limit) : NULL);
}

static void download(struct op *op, const char *path, const struct osb_read *how, struct ask ask)
{
	struct osb_read h;
	struct http_header range;

	struct_take(&h, sizeof(h), how, how ? how->size : 0, sizeof(h));
	range = (struct http_header){ STR("Range"), str_of(h.range) };
	ask.to = &op->sandbox->execd;
	ask.method = "GET";
	ask.accept = "*/*";
	ask.headers = &range;
	ask.n_headers = h.range ? 1 : 0;
	ask.path = download_path(op, path, &h);
	op_send(op, &ask);
}

int osb_file_read(struct osb_sandbox *s, const char *path, const struct osb_read *how, struct osb_bytes **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "read file", ret);

	if (!op)
		return -1;
	download(op, path, how, (struct ask){ .max = READ_MAX, .model = &bytes_model });
	return op_run(op);
}

struct sink {
	osb_write_fn *write;
	void *arg;
};

static void on_data(struct op *op, struct str piece)
{
	const struct sink *sink = op->state;

	if (sink->write(piece.p, piece.n, sink->arg) < 0)
		op_fail(op, OSB_LOCAL, NULL, "writing what came has failed");
}

static void on_whole(struct op *op, const struct op_answer *a)
{
	(void)a;
	op_done(op);
}

int osb_file_download(struct osb_sandbox *s, const char *path, const struct osb_read *how, osb_write_fn *write, void *arg,
		      struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "download file", NULL);
	struct sink *sink;

	if (!op)
		return -1;
	sink = op_alloc(op, sizeof(*sink));
	if (!sink)
		return op_run(op);
	*sink = (struct sink){ write, arg };
	op->state = sink;
	download(op, path, how, (struct ask){ .on_data = on_data, .on_answer = on_whole });
	return op_run(op);
}

/* ---- up ---- */

struct memory {
	const char *at;
	size_t left;
	char *copy; /* of a caller that does not wait; or NULL */
};

struct sending {
	struct upload upload;
	struct memory memory;
};

static void on_sent(struct op *op)
{
	struct sending *x = op->state;

	upload_done(&x->upload);
	free(x->memory.copy);
}

static long read_sending(char *out, size_t max, void *arg)
{
	struct op *op = arg;
	struct sending *x = op->state;
	long n = upload_read(out, max, &x->upload);

	if (n < 0)
		op_fail(op, OSB_LOCAL, NULL, "%s", x->upload.problem);
	return n;
}

static long read_memory(char *out, size_t max, void *arg)
{
	struct memory *m = arg;
	size_t n = MIN(max, m->left);

	if (n > 0)
		memcpy(out, m->at, n);
	m->at += n;
	m->left -= n;
	return (long)n;
}

static struct sending *sending_new(struct op *op)
{
	struct sending *x = op_alloc(op, sizeof(*x));

	if (x) {
		op->state = x;
		op->on_end = on_sent;
	}
	return x;
}

static void send_file(struct op *op, const struct osb_entry *entry, int64_t size, osb_read_fn *read, void *arg)
{
	struct sending *x = op->state;
	struct err e = { 0 };
	int64_t length;

	if (!op_need(op, entry && entry->path && *entry->path, "the path is missing") || !op_need(op, read, "there is nothing to read from"))
		return;
	if (upload_init(&x->upload, entry, size < 0 ? -1 : size, read, arg, &e) < 0) {
		if (e.code == ERR_INVALID)
			op_fail(op, OSB_INVALID, NULL, "%s", e.msg);
		else
			op_fail_err(op, &e);
		return;
	}
	length = upload_length(&x->upload);
	op_send(op, &(struct ask){ .to = &op->sandbox->execd, .method = "POST", .path = "/files/upload", .content_type = x->upload.type,
				   .read = read_sending, .read_arg = op, .length = length < 0 ? HTTP_UNSIZED : (uint64_t)length,
				   .timeout_ms = STORE_MS });
}

int osb_file_upload(struct osb_sandbox *s, const struct osb_entry *entry, int64_t size, osb_read_fn *read, void *arg,
		    struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "upload file", NULL);

	if (!op)
		return -1;
	if (sending_new(op))
		send_file(op, entry, size, read, arg);
	return op_run(op);
}

int osb_file_write(struct osb_sandbox *s, const struct osb_entry *entry, const char *data, size_t n, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "write file", NULL);
	struct sending *x;

	if (!op)
		return -1;
	x = sending_new(op);
	if (!x || !op_need(op, n == 0 || data, "the data is missing"))
		return op_run(op);
	x->memory = (struct memory){ data, n, NULL };
	if (!op->is_waited_for && n > 0) {
		x->memory.at = x->memory.copy = malloc(n);
		if (!x->memory.copy)
			op_no_memory(op);
		else
			memcpy(x->memory.copy, data, n);
	}
	if (!op_is_over(op))
		send_file(op, entry, (int64_t)n, read_memory, &x->memory);
	return op_run(op);
}
