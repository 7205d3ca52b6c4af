// SPDX-License-Identifier: Apache-2.0
/* The chunked coding: the first byte is the size of the pieces that the rest arrives in. */
#include "base/buf.h"
#include "net/http/http1.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
	enum http_chunk last;
	size_t used;
	struct buf body;
};

static void run(struct str text, size_t step, struct result *r)
{
	struct http_chunked c = { 0 };
	const char *why = NULL;

	*r = (struct result){ .body = BUF_INIT(1 << 20) };
	while (r->last == HTTP_CHUNK_MORE && text.n > 0) {
		struct str piece = str_first(text, step), in = piece, body;

		while ((r->last = http_chunk_next(&c, &in, &body, &why)) == HTTP_CHUNK_DATA)
			if (!buf_add_str(&r->body, body))
				abort();
		text = str_skip(text, piece.n - in.n);
		r->used += piece.n - in.n;
	}
	if (r->last == HTTP_CHUNK_BAD && !why)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_skip((struct str){ (const char *)data, size }, 1);
	struct result whole, pieces;

	run(text, SIZE_MAX, &whole);
	run(text, size > 0 ? (size_t)data[0] % 32 + 1 : 1, &pieces);
	if (whole.last != pieces.last || whole.used != pieces.used || !str_eq(buf_str(&whole.body), buf_str(&pieces.body)))
		abort();
	buf_done(&whole.body);
	buf_done(&pieces.body);
	return 0;
}
