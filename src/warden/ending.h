// SPDX-License-Identifier: Apache-2.0
/* warden/ending.h - how a box ended, from the records of its execd and from the end of its PID 1.
 *
 * The records were written inside a sandbox: only well-formed ones are used, at most ENDING_RECORDS_MAX, and
 * of several with the same subject the first, so that nothing is reported differently later. */
#pragma once
#include <stdbool.h>

#include "base/guest.h"
#include "base/str.h"
#include "box/wire.h"

struct err;
struct process_end;

#define ENDING_STATE_NAME "state"
#define ENDING_RECORDS_MAX 64
#define ENDING_BYTES_MAX (ENDING_RECORDS_MAX * sizeof(struct guest_record))

struct ending_records {
	bool has_exited;
	struct wire_ending exited;
	bool has_failed, is_image; /* the latter: because of what the image says, see GUEST_FLAG_IMAGE */
	char why[GUEST_RECORD_TEXT]; /* of the failure; escaped, one line */
};

void ending_parse(struct str bytes, struct ending_records *ret);
/* Of the file in the box's folder; one that cannot be read has no records. */
void ending_read(int dir, struct ending_records *ret);

/* Of one that has failed: what its create is answered. */
void ending_failure(const struct ending_records *r, struct err *ret);

/* How a box ended: END is how its PID 1 did, NULL when nobody could collect it; WAS_WATCHED when we saw it
 * end. */
struct wire_ending ending_of(const struct ending_records *r, const struct process_end *end, bool was_watched,
			     bool had_oom);
