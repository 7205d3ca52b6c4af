// SPDX-License-Identifier: Apache-2.0
/* Any bytes as lines of messages, cut anywhere: the lines are the same, what is a message can be answered in one line, and what are
 * arguments of a tool can be decoded by any table. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "mcp/args.h"
#include "mcp/cut.h"
#include "mcp/rpc.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINE_MAX_BYTES 4096

static void require(bool fact)
{
	if (!fact)
		abort();
}

static void try_tables(struct arena *a, const struct json *v)
{
#define TABLE(name) args_##name,
	static const struct field *const tables[] = { ARGS_TABLES(TABLE) };

	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		struct args args = args_defaults;
		struct err e = { 0 };

		require(args_decode(a, v, tables[i], &args, &e) == 0 || e.msg[0]);
	}
}

static void on_line(struct str line, bool is_too_long, void *arg)
{
	const struct json_limits limits = { .depth = RPC_DEPTH_MAX, .values = 4096 };
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)64 * 1024 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT((size_t)1024 * 1024), pretty = BUF_INIT((size_t)4 * 1024 * 1024);
	struct rpc_message m;
	struct err e = { 0 };
	const struct json *v;
	size_t *lines = arg;

	(*lines)++;
	v = is_too_long ? NULL : json_parse(&a, line, &limits, NULL, &e);
	if (!v)
		return;
	require(rpc_read(v, &m, &e) == 0 || e.msg[0]);
	rpc_error(&b, &m.id, RPC_INVALID_REQUEST, m.method);
	require(!b.failed && utf8_valid(buf_str(&b)) && !memchr(b.p, '\n', b.n));
	require(json_indent(&pretty, buf_str(&b)) && json_parse(&a, buf_str(&pretty), NULL, NULL, &e));
	try_tables(&a, m.params ? m.params : v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_lines whole = { .held = BUF_INIT(LINE_MAX_BYTES) }, cut = { .held = BUF_INIT(LINE_MAX_BYTES) };
	size_t step = size > 0 ? 1 + data[0] % 16 : 1, n_whole = 0, n_cut = 0;
	const char *text = (const char *)data;

	rpc_lines_feed(&whole, (struct str){ text, size }, on_line, &n_whole);
	rpc_lines_end(&whole, on_line, &n_whole);
	for (size_t at = 0; at < size; at += step)
		rpc_lines_feed(&cut, (struct str){ text + at, MIN(step, size - at) }, on_line, &n_cut);
	rpc_lines_end(&cut, on_line, &n_cut);
	require(n_whole == n_cut);
	return 0;
}
