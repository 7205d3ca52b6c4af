// SPDX-License-Identifier: Apache-2.0
/* mcp/transcript.h - the output of a command or of code, in bounded memory.
 *
 * A program in a sandbox may write for ever. The first half of the limit holds the beginning, the second the
 * end, with a note in place of the omitted part: readers nearly always need one of the two. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct buf;
struct json_out;
struct osb_event;
struct transcript;

#define TRANSCRIPT_IMAGES_MAX 8
#define TRANSCRIPT_IMAGE_MAX (1024 * 1024) /* bytes of one, in base64 */
#define TRANSCRIPT_IMAGES_BYTES_MAX (4 * 1024 * 1024) /* of all of them: an answer has to get through */
#define TRANSCRIPT_RESULTS_MAX 256

struct transcript *transcript_new(size_t limit); /* NULL: no memory */
void transcript_free(struct transcript *t);
DEFINE_AUTO(struct transcript *, transcript_free)

/* False: out of memory. The event is copied. */
bool transcript_add(struct transcript *t, const struct osb_event *event);

const char *transcript_id(const struct transcript *t); /* of the execution; NULL: it has not begun */
uint64_t transcript_events(const struct transcript *t); /* so far, without the first, which has the id */
/* The newest output, at most MAX bytes of whole lines or the end of the last one, into OUT. */
void transcript_recent(const struct transcript *t, size_t max, struct buf *out);

/* The object Execution, as the other SDKs show it. EXIT_CODE is known if HAS_EXIT_CODE. */
void transcript_write(const struct transcript *t, bool has_exit_code, int64_t exit_code, struct json_out *o);

struct transcript_image {
	const char *type, *base64;
};
/* Images among the results, to be shown as such: the I-th, or false. They are checked to be base64. */
bool transcript_image(const struct transcript *t, size_t i, struct transcript_image *ret);
