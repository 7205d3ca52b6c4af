// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses the boundary, the second how the rest is cut: the result never depends on the cuts, and
 * content never holds the delimiter. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/http/multipart.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
	const char *type, *delimiter;
} kinds[] = {
	{ "multipart/form-data; boundary=b", "\r\n--b" },
	{ "multipart/form-data; boundary=\"--x\"", "\r\n----x" },
	{ "multipart/form-data; charset=utf-8; boundary=\"a b-c\"", "\r\n--a b-c" },
};

struct trace {
	struct buf all, content;
	const char *delimiter;
};

static void require(bool ok)
{
	if (!ok)
		abort();
}

static int on_begin(void *arg, const struct multipart_part *part, struct err *e)
{
	struct trace *t = arg;

	(void)e;
	require(utf8_valid(part->name) && utf8_valid(part->filename) && utf8_valid(part->content_type));
	buf_addf(&t->all, "[%.*s|%d%.*s|%.*s]", STR_ARG(part->name), part->has_filename, STR_ARG(part->filename),
		 STR_ARG(part->content_type));
	buf_clear(&t->content);
	return 0;
}

static int on_data(void *arg, struct str data, struct err *e)
{
	struct trace *t = arg;

	require(data.n > 0);
	(void)e;
	buf_add_str(&t->content, data);
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	struct trace *t = arg;

	(void)e;
	require(!t->content.n || !memmem(t->content.p, t->content.n, t->delimiter, strlen(t->delimiter)));
	buf_add_str(&t->all, buf_str(&t->content));
	buf_add_str(&t->all, STR("\n;"));
	return 0;
}

/* Everything that there is to see of one parse, in OUT; with PIECE bytes at a time. */
static void parse(unsigned kind, struct str in, size_t piece, struct buf *out)
{
	static const struct multipart_ops ops = { on_begin, on_data, on_end };
	struct trace t = { BUF_INIT(1 << 22), BUF_INIT(1 << 22), kinds[kind].delimiter };
	struct err e = { 0 };
	AUTO(multipart_free) struct multipart *m = multipart_new(str_of(kinds[kind].type), &ops, &t, &e);
	int got = m ? 0 : -1;

	for (; got == 0 && in.n > 0; in = str_skip(in, piece))
		got = multipart_feed(m, str_first(in, piece), &e);
	if (got == 0)
		got = multipart_finish(m, &e);
	buf_addf(out, "%d %s:", got, e.msg);
	buf_add_str(out, buf_str(&t.all));
	buf_done(&t.all);
	buf_done(&t.content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf whole = BUF_INIT(1 << 23), cut = BUF_INIT(1 << 23);
	struct trace t = { BUF_INIT(0), BUF_INIT(0), "" };
	struct str in;

	if (size < 2 || size > 64 * 1024)
		return 0;
	in = (struct str){ (const char *)data + 2, size - 2 };
	multipart_free(multipart_new(in, &(struct multipart_ops){ on_begin, on_data, on_end }, &t, &(struct err){ 0 }));
	parse(data[0] % ARRAY_LEN(kinds), in, in.n + 1, &whole);
	parse(data[0] % ARRAY_LEN(kinds), in, 1U + data[1] % 64, &cut);
	require(str_eq(buf_str(&whole), buf_str(&cut)));
	return 0;
}
