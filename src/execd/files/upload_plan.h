// SPDX-License-Identifier: Apache-2.0
/* execd/files/upload_plan.h - pairs the parts of an upload.
 *
 * The i-th part named "metadata" and the i-th named "file" are a pair, in any order; other parts are
 * ignored. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define UPLOAD_FILES_MAX 10000

enum upload_part { UPLOAD_OTHER, UPLOAD_METADATA, UPLOAD_FILE, UPLOAD_TOO_MANY };

struct upload_plan {
	size_t metadata, files; /* so far */
};

/* The next part: what it is and, for the two kinds, its number in *ret_pair. */
enum upload_part upload_plan_next(struct upload_plan *p, struct str name, size_t *ret_pair);

/* What is wrong with the parts as a whole: a code for the answer, and why; or NULL. */
const char *upload_plan_fault(const struct upload_plan *p, const char **ret_why);
