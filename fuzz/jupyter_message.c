// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses how the rest is cut. As frames ("length, bytes" each; its highest bit ends a message, the next one means nine bytes) and as
 * one object: nothing that is collected passes its ceilings, and nothing of it stays. */
#include <stdint.h>

#include "base/buf.h"
#include "execd/budget.h"
#include "execd/jupyter/jupyter_message.h"
#include "net/zmtp/zmtp.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void on_text(enum event_stream stream, struct str text, void *arg)
{
	require((stream == EVENT_STDOUT || stream == EVENT_STDERR) && text.n > 0);
	*(size_t *)arg += text.n;
}

static void check(const struct jupyter_in *in)
{
	const struct jupyter_values *v = in->values;

	require(strnlen(in->parent, sizeof(in->parent)) <= JUPYTER_ID_MAX && in->kind <= JUPYTER_INPUT);
	if (!v)
		return;
	require(v->n_mimes <= CODE_MIMES_MAX && v->n_trace <= CODE_TRACE_MAX && v->bytes.n <= JUPYTER_VALUES_MAX);
	for (size_t i = 0; i < v->n_mimes; i++)
		require(v->types[i].at + v->types[i].n <= v->mimes[i].at && v->mimes[i].at + v->mimes[i].n <= v->bytes.n);
	for (size_t i = 0; i < v->n_trace; i++)
		require(v->trace[i].at + v->trace[i].n <= v->bytes.n);
}

static void as_frames(struct str in, size_t step, struct budget *budget)
{
	size_t told = 0, all = in.n;
	struct jupyter_in m = { .budget = budget, .on_text = on_text, .arg = &told };
	enum jupyter_step r = JUPYTER_MORE;

	jupyter_next(&m);
	while (in.n > 0 && r != JUPYTER_BROKEN) {
		bool is_last = in.p[0] & 0x80;
		struct str frame = str_first(str_skip(in, 1), in.p[0] & 0x40 ? 9 : (size_t)(in.p[0] & 0x3f) * 4);

		in = str_skip(in, 1 + frame.n);
		do {
			struct zmtp_event ev = { .kind = ZMTP_EVENT_BYTES, .data = str_first(frame, step), .is_last = is_last };

			frame = str_skip(frame, step);
			ev.left = frame.n;
			r = jupyter_take(&m, &ev);
		} while (frame.n > 0 && r == JUPYTER_MORE);
		check(&m);
		require(r != JUPYTER_BROKEN || m.what);
		if (r == JUPYTER_MESSAGE)
			jupyter_next(&m);
	}
	require(told <= all);
	jupyter_next(&m);
}

static void as_object(struct str in, size_t step, struct budget *budget)
{
	size_t told = 0;
	struct jupyter_in m = { .budget = budget, .on_text = on_text, .arg = &told };

	jupyter_next(&m);
	if (jupyter_take_heads(&m, in))
		for (; in.n > 0; in = str_skip(in, step))
			require(jupyter_take_content(&m, str_first(in, step)));
	check(&m);
	jupyter_next(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct budget budget = { .max = EXECD_BUDGET };
	struct str in = { (const char *)data + 1, size - 1 };

	if (size < 2 || size > 65536)
		return 0;
	as_frames(in, 1U + data[0] % 32, &budget);
	as_object(in, 1U + data[0] % 32, &budget);
	require(budget.used == 0);
	return 0;
}
