// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses how the rest, an event stream, is cut: the events are the same for every cut, and an execution can be
 * gathered from whatever they are. */
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "client/event.h"
#include "client/gather.h"
#include "client/stream_reader.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	struct gather g;
	unsigned n;
};

static bool on_payload(struct str payload, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(EVENT_ARENA_MAX);
	struct reading *r = arg;
	struct osb_event ev;

	if (event_parse(payload, &a, &ev, &(struct err){ 0 }) <= 0)
		return true;
	r->n++;
	if (ev.text && strlen(ev.text) > ev.n_text)
		abort();
	return gather_add(&r->g, &ev, &(struct err){ 0 }) == 0;
}

static unsigned count(struct str in, size_t piece)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)64 * 1024 * 1024);
	AUTO(stream_reader_done) struct stream_reader reader = STREAM_READER_INIT;
	struct osb_execution x;
	struct reading r = { 0 };

	gather_init(&r.g, &a, &x);
	r.g.is_lines = r.g.has_exit = true;
	for (; in.n > 0; in = str_skip(in, piece))
		if (stream_reader_feed(&reader, str_first(in, piece), on_payload, &r, &(struct err){ 0 }) < 0)
			abort();
	stream_reader_end(&reader, on_payload, &r);
	if (gather_finish(&r.g, &(struct err){ 0 }) == 0 && (!x.stdout_text || x.n_stdout + x.n_stderr + x.n_results > r.n))
		abort();
	return r.n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };

	if (size < 2)
		return 0;
	in = str_skip(in, 1);
	if (count(in, 1 + data[0] % 61) != count(in, in.n))
		abort();
	return 0;
}
