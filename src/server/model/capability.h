// SPDX-License-Identifier: Apache-2.0
/* server/model/capability.h - what a runtime may lack, and the one kind of error that says so: it names what is missing, with the
 * status and code that clients of the published servers know where they know any, else "RUNTIME::CAPABILITY_UNSUPPORTED". */
#pragma once
#include <stdbool.h>

struct fault;
struct runtime;

enum capability {
	CAPABILITY_PAUSE,
	CAPABILITY_SNAPSHOTS,
	CAPABILITY_SNAPSHOT_EXPORT,
	CAPABILITY_FORK,
	CAPABILITY_ROLLBACK,
	CAPABILITY_IMAGES,
	CAPABILITY_IMAGE_ARCHIVES,
	CAPABILITY_VOLUMES,
	CAPABILITY_HOST_PATHS,
	CAPABILITY_LOGS,
	CAPABILITY_STATS,
	CAPABILITY_NETWORK,
	CAPABILITY_DISK_LIMIT,
	CAPABILITY_LIMIT, /* any other: not part of capability_is_there() */
	CAPABILITY_PLATFORM, /* likewise */
};

bool capability_is_there(const struct runtime *rt, enum capability c);

/* Returns -1, with F. WHERE: the member of the request that asks for it, or NULL. */
int capability_missing(const struct runtime *rt, enum capability c, const char *where, struct fault *f);
/* 0, or as capability_missing(). */
int capability_check(const struct runtime *rt, enum capability c, const char *where, struct fault *f);
