// SPDX-License-Identifier: Apache-2.0
/* Records of a tar as an archive of ours has them: whatever is read has a name that ends, and is written as it was read. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/tar_write.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar_reader r = { 0 };
	struct tar_reader again = { 0 };
	unsigned char head[TAR_HEAD_MAX];
	char name[TAR_NAME_MAX + 1], same[TAR_NAME_MAX + 1] = "";
	uint64_t length, same_length = 0;

	for (; size >= TAR_RECORD; data += TAR_RECORD, size -= TAR_RECORD) {
		enum tar_step step = tar_head_read(&r, data, name, &length);
		size_t n;

		if (step == TAR_BROKEN)
			break;
		if (step != TAR_FILE)
			continue;
		require(memchr(name, '\0', sizeof(name)) && name[0]);
		n = tar_head(name, length, head);
		require(n > 0 && n == tar_head_size(name));
		for (size_t at = 0; at < n; at += TAR_RECORD)
			step = tar_head_read(&again, head + at, same, &same_length);
		require(step == TAR_FILE && same_length == length && strcmp(same, name) == 0);
	}
	return 0;
}
