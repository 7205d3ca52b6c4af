// SPDX-License-Identifier: Apache-2.0
/* columns.h - the columns of a row out of an input: lines, and numbers with a blank between them. */
#pragma once
#include <stdint.h>

#include "base/str.h"

static inline struct str line(struct str *in)
{
	struct str head;

	(void)str_cut(*in, '\n', &head, in);
	return head;
}

static inline int64_t number(struct str *in)
{
	struct str word;
	int64_t v = 0;

	(void)str_cut(*in, ' ', &word, in);
	(void)str_to_i64(word, INT64_MIN, INT64_MAX, &v);
	return v;
}
