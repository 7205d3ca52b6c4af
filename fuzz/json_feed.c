// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses the levels, the second how the rest is cut: values never depend on the cuts, and whatever the strict parser
 * takes is taken here, too. */
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_feed.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

struct walk {
	struct buf out;
	bool is_open;
};

static void on_piece(const struct json_piece *piece, void *arg)
{
	struct walk *w = arg;

	require(piece->is_first == !w->is_open && piece->depth <= JSON_FEED_LEVELS);
	w->is_open = !piece->is_last;
	for (unsigned i = 0; piece->is_first && i < piece->depth; i++) {
		require(piece->path[i].n <= JSON_FEED_KEY_MAX);
		buf_add_str(&w->out, piece->path[i]);
		buf_add_char(&w->out, '\0');
	}
	buf_add_str(&w->out, piece->text);
	if (piece->is_last)
		buf_addf(&w->out, "%d%zu;", piece->is_string, piece->index);
}

static bool walk(struct str in, unsigned levels, size_t step, struct walk *w)
{
	struct json_feed f;

	json_feed_init(&f, levels, on_piece, w);
	for (; in.n > 0; in = str_skip(in, step))
		if (!json_feed(&f, str_first(in, step)))
			return false;
	return json_feed_end(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)8 * 1024 * 1024);
	struct walk whole = { .out = BUF_INIT(1 << 22) }, cut = { .out = BUF_INIT(1 << 22) };
	struct str in;
	unsigned levels;
	bool ok;

	if (size < 3 || size > 65536)
		return 0;
	levels = data[0] % (JSON_FEED_LEVELS + 1);
	in = (struct str){ (const char *)data + 2, size - 2 };
	ok = walk(in, levels, in.n, &whole);
	require(walk(in, levels, 1U + data[1] % 16, &cut) == ok);
	require(!ok || (str_eq(buf_str(&whole.out), buf_str(&cut.out)) && !whole.is_open));
	if (json_parse(&a, in, &(struct json_limits){ .depth = JSON_FEED_DEPTH_MAX / 2 }, NULL, &(struct err){ 0 }) && size < JSON_FEED_SCALAR_MAX)
		require(ok);
	buf_done(&whole.out);
	buf_done(&cut.out);
	return 0;
}
