// SPDX-License-Identifier: Apache-2.0
/* Orders of a terminal's client: whatever they say, what comes out is in range, and news of any text are one line. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "execd/pty/pty_frame.h"
#include "net/http/sse.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)256 * 1024);
	AUTO(buf_done) struct buf news = BUF_INIT(1 << 20);
	struct str text = { (const char *)data, size };
	struct pty_order o;

	pty_order_parse(text, &a, &o);
	require(o.kind <= PTY_ORDER_UNKNOWN);
	require(o.kind != PTY_ORDER_RESIZE || (o.cols > 0 && o.rows > 0));
	require(o.kind != PTY_ORDER_SIGNAL || (o.signo > 0 && o.signo <= SIGTERM));
	require(o.kind != PTY_ORDER_STDIN || (o.data.n <= size && utf8_valid(o.data)));
	require(size <= PTY_TEXT_MAX || o.kind == PTY_ORDER_NONE);
	if (size < 1024) {
		char *z = arena_dup(&a, text);

		require(z != NULL);
		pty_say_error(&news, PTY_INVALID_FRAME, z);
		require(!news.failed && utf8_valid(buf_str(&news)) && sse_is_one_line(buf_str(&news)));
	}
	return 0;
}
