// SPDX-License-Identifier: Apache-2.0
/* What the warden takes for a request: whatever it says, paths that come out of it stay where they are. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "box/wire.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void require_volume(const struct wire_volume *v)
{
	require(v->path[0] != '/' && !strstr(v->path, "//") && strcmp(v->path, "..") != 0 && !strstr(v->path, "/../"));
	require(v->mount_path[0] == '/' && !strstr(v->mount_path, "/../") && strncmp(v->mount_path, "/proc/", 6) != 0);
}

/* The first byte is how many descriptors came with it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wire_volumes volumes;
	struct wire_request rq;
	struct err e;

	if (size == 0 || size > sizeof(struct wire_create) + 1)
		return 0;
	if (wire_check_request(data + 1, size - 1, data[0], &rq, &e) < 0 || wire_check_volumes(data + 1, size - 1, &rq, &volumes, &e) < 0)
		return 0;
	require(rq.version == WIRE_VERSION && rq.serial != 0 && volumes.n <= WIRE_VOLUMES_MAX);
	if (rq.call == WIRE_LAYER_ADD)
		require(digest_valid(&rq.blob) && digest_valid(&rq.diff_id));
	for (size_t i = 0; i < volumes.n; i++)
		require_volume(&volumes.at[i]);
	return 0;
}
