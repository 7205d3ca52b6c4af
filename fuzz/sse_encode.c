// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses how the rest is cut: whatever the bytes and the cuts, event streams are valid UTF-8 with
 * one line per event, and a reader gets the text back. */
#include <stdint.h>

#include "base/buf.h"
#include "base/json_out.h"
#include "net/http/sse.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void sanitize(struct str in, size_t piece, struct buf *out)
{
	struct text_sanitizer t = { 0 };

	for (; in.n > 0; in = str_skip(in, piece)) {
		require(text_sanitize(&t, str_first(in, piece), out));
		require(t.n <= 3);
	}
	require(text_sanitize_end(&t, out));
}

static void check_json_event(struct str text)
{
	AUTO(buf_done) struct buf json = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
	struct json_out o = json_out(&json);

	json_open(&o, '{');
	json_key(&o, "text");
	json_str(&o, text);
	json_close(&o, '}');
	require(!json.failed && sse_json_event(&b, buf_str(&json)));
	require(utf8_valid(buf_str(&b)) && str_ends(buf_str(&b), STR("}\n\n")));
	require(sse_is_one_line(str_first(buf_str(&b), b.n - 2)));
}

/* Reads a standard event as clients do: data lines joined by LF. */
static void check_event(struct str in, struct str text)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 22), got = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20);
	struct sse_event ev = { .event = in, .id = in, .has_id = true, .data = in };
	struct str rest, line;

	require(sse_event(&b, &ev) && utf8_valid(buf_str(&b)) && str_ends(buf_str(&b), STR("\n\n")));
	rest = str_first(buf_str(&b), b.n - 2);
	for (bool more = true; more;) {
		more = str_cut(rest, '\n', &line, &rest);
		require(line.n > 0 && !memchr(line.p, '\r', line.n));
		if (str_starts(line, STR("data: "))) {
			buf_add_char(&got, got.n > 0 ? '\n' : '|');
			buf_add_str(&got, str_skip(line, 6));
		} else {
			require(str_starts(line, STR("event: ")) || str_starts(line, STR("id: ")));
		}
	}
	buf_add_char(&want, '|');
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] != '\n' || i == 0 || text.p[i - 1] != '\r')
			buf_add_char(&want, text.p[i] == '\r' ? '\n' : text.p[i]);
	require(str_eq(buf_str(&got), buf_str(&want)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf whole = BUF_INIT(1 << 20), cut = BUF_INIT(1 << 20);
	struct str in;

	if (size < 1 || size > 32 * 1024)
		return 0;
	in = (struct str){ (const char *)data + 1, size - 1 };
	sanitize(in, in.n + 1, &whole);
	sanitize(in, 1U + data[0] % 16, &cut);
	require(str_eq(buf_str(&whole), buf_str(&cut)) && utf8_valid(buf_str(&whole)));
	require(!utf8_valid(in) || str_eq(in, buf_str(&whole)));
	check_json_event(buf_str(&whole));
	check_json_event(in);
	check_event(in, buf_str(&whole));
	return 0;
}
