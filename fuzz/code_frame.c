// SPDX-License-Identifier: Apache-2.0
/* Messages of programs that run code: whatever they say, heads are within their ceiling and parts within their message. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "execd/code/code_frame.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void take_parts(struct str payload)
{
	struct str rest = payload, name, value;
	struct err e = { 0 };
	int r;

	while ((r = code_frame_item(&rest, &name, &value, &e)) > 0) {
		require(name.n > 0 && name.n <= CODE_ITEM_NAME_MAX);
		require(value.p >= payload.p && value.p + value.n <= payload.p + payload.n);
		require(rest.n < payload.n && rest.n + value.n < payload.n);
	}
	require((r < 0) == (e.code == ERR_INVALID));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };
	struct err e = { 0 };
	struct code_frame f;
	size_t used;
	int r;

	while (in.n > 0 && (r = code_frame_head(in, &f, &used, &e)) != 0) {
		if (r < 0) {
			require(e.code == ERR_INVALID);
			break;
		}
		require(f.length <= CODE_FRAME_MAX && used <= CODE_FRAME_HEAD_MAX && f.type >= 'A' && f.type <= 'Z');
		in = str_skip(in, used);
		take_parts(str_first(in, f.length));
		in = str_skip(in, f.length);
	}
	return 0;
}
