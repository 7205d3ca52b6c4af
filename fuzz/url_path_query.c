// SPDX-License-Identifier: Apache-2.0
/* Request targets: what is accepted is split without loss, holds nothing deceitful, and survives re-encoding. */
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "net/http/url.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_segment(struct str raw, struct arena *a)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct str text, again = { 0 };
	struct err e = { 0 };

	if (url_segment_decode(raw, a, &text, &e) < 0)
		return;
	require(text.n > 0 && utf8_valid(text) && !str_is(text, ".") && !str_is(text, ".."));
	for (size_t i = 0; i < text.n; i++)
		require((unsigned char)text.p[i] >= 0x20 && text.p[i] != '/' && text.p[i] != '\\' && text.p[i] != 0x7f);
	require(url_encode_segment(&b, text) && url_segment_decode(buf_str(&b), a, &again, &e) == 0);
	require(str_eq(text, again));
}

static void check_path(struct str path, struct arena *a)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct url_segments it = url_segments(path);
	struct str raw;

	while (url_segment_next(&it, &raw)) {
		buf_add_char(&b, '/');
		buf_add_str(&b, raw);
		check_segment(raw, a);
	}
	if (it.trailing_slash || b.n == 0)
		buf_add_char(&b, '/');
	require(str_eq(buf_str(&b), path));
}

static void check_query(struct str raw, struct arena *a)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct query q, again = { 0 };
	struct err e = { 0 };

	if (query_parse(raw, a, &q, &e) < 0)
		return;
	for (size_t i = 0; i < q.n; i++) {
		require(utf8_valid(q.pairs[i].key) && utf8_valid(q.pairs[i].value));
		url_encode_query(&b, q.pairs[i].key);
		buf_add_char(&b, '=');
		url_encode_query(&b, q.pairs[i].value);
		buf_add_char(&b, '&');
	}
	require(!b.failed && query_parse(buf_str(&b), a, &again, &e) == 0 && again.n == q.n);
	for (size_t i = 0; i < q.n; i++)
		require(str_eq(q.pairs[i].key, again.pairs[i].key) && str_eq(q.pairs[i].value, again.pairs[i].value));
}

static void check_strict(struct str text, struct arena *a)
{
	struct query q, lax = { 0 };
	struct err e = { 0 };

	if (query_parse_strict(text, a, &q, &e) < 0)
		return;
	require(query_parse(text, a, &lax, &e) == 0 && q.n <= lax.n);
	for (size_t i = 0; i < q.n; i++)
		for (size_t k = 0; k < i; k++)
			require(!str_eq(q.pairs[i].key, q.pairs[k].key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(8 << 20);
	struct str in = { (const char *)data, size };
	struct url_target t;
	struct err e = { 0 };

	if (size > 32 * 1024)
		return 0;
	check_segment(in, &a);
	check_query(in, &a);
	check_strict(in, &a);
	if (url_target_parse(in, &t, &e) < 0)
		return 0;
	if (t.form == URL_ORIGIN || t.form == URL_ABSOLUTE) {
		require(t.path.n > 0 && t.path.p[0] == '/');
		check_path(t.path, &a);
		check_query(t.query, &a);
	}
	return 0;
}
