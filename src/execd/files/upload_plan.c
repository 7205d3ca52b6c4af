// SPDX-License-Identifier: Apache-2.0
#include "execd/files/upload_plan.h"

#include "execd/execd.h"

#include "base/banned.h"

enum upload_part upload_plan_next(struct upload_plan *p, struct str name, size_t *ret_pair)
{
	bool is_file = str_is(name, "file");
	size_t *count = is_file ? &p->files : &p->metadata;

	if (!is_file && !str_is(name, "metadata"))
		return UPLOAD_OTHER;
	if (*count == UPLOAD_FILES_MAX)
		return UPLOAD_TOO_MANY;
	*ret_pair = (*count)++;
	return is_file ? UPLOAD_FILE : UPLOAD_METADATA;
}

const char *upload_plan_fault(const struct upload_plan *p, const char **ret_why)
{
	if (p->metadata == 0) {
		*ret_why = "there is no part 'metadata'";
		return CODE_INVALID_METADATA;
	}
	if (p->files == 0) {
		*ret_why = "there is no part 'file'";
		return CODE_INVALID_CONTENT;
	}
	*ret_why = "there must be as many parts 'metadata' as parts 'file'";
	return p->metadata == p->files ? NULL : CODE_INVALID_FILE;
}
