// SPDX-License-Identifier: Apache-2.0
#include "server/model/capability.h"

#include "base/own.h"
#include "server/model/sandbox.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define UNSUPPORTED "CAPABILITY_UNSUPPORTED"

static const struct {
	unsigned status;
	const char *prefix, *code; /* the former NULL: the runtime's */
	const char *says;
} rows[] = {
	[CAPABILITY_PAUSE] = { 400, NULL, UNSUPPORTED, "this runtime cannot pause sandboxes" }, /* clients take 400 for that */
	[CAPABILITY_SNAPSHOTS] = { 501, "SNAPSHOT", "NOT_IMPLEMENTED", "this runtime has no snapshots" },
	[CAPABILITY_SNAPSHOT_EXPORT] = { 501, "SNAPSHOT", "NOT_IMPLEMENTED", "this runtime's snapshots cannot be exported" },
	[CAPABILITY_FORK] = { 501, NULL, UNSUPPORTED, "this runtime cannot fork sandboxes" },
	[CAPABILITY_ROLLBACK] = { 501, NULL, UNSUPPORTED, "this runtime cannot roll sandboxes back" },
	[CAPABILITY_IMAGES] = { 501, NULL, UNSUPPORTED, "images of this runtime are not the server's" },
	[CAPABILITY_IMAGE_ARCHIVES] = { 501, NULL, UNSUPPORTED, "this runtime neither loads nor saves archives of images" },
	[CAPABILITY_VOLUMES] = { 400, "VOLUME", "UNSUPPORTED_BACKEND", "this runtime has no volumes" },
	[CAPABILITY_HOST_PATHS] = { 400, "VOLUME", "UNSUPPORTED_BACKEND", "this runtime mounts no folders of the host" },
	[CAPABILITY_LOGS] = { 501, NULL, UNSUPPORTED, "this runtime keeps no logs" },
	[CAPABILITY_STATS] = { 501, NULL, UNSUPPORTED, "this runtime does not measure sandboxes" },
	[CAPABILITY_NETWORK] = { 400, "SANDBOX", "INVALID_PARAMETER",
				 "sandboxes have no network here, by the configuration or because opensandbox-egress is not installed" },
	[CAPABILITY_DISK_LIMIT] = { 400, NULL, "DISK_LIMIT_UNSUPPORTED", "cannot be enforced here" },
	[CAPABILITY_LIMIT] = { 400, "SANDBOX", "INVALID_PARAMETER", "cannot be enforced here" },
	[CAPABILITY_PLATFORM] = { 400, "SANDBOX", "INVALID_PARAMETER", "" },
};

bool capability_is_there(const struct runtime *rt, enum capability c)
{
	const struct runtime_capabilities *can = &rt->can;

	switch (c) {
	case CAPABILITY_PAUSE: return can->pauses;
	case CAPABILITY_SNAPSHOTS: return can->snapshots;
	case CAPABILITY_SNAPSHOT_EXPORT: return can->exports_snapshots;
	case CAPABILITY_FORK: return can->forks;
	case CAPABILITY_ROLLBACK: return can->rolls_back;
	case CAPABILITY_IMAGES: return can->images;
	case CAPABILITY_IMAGE_ARCHIVES: return can->image_archives;
	case CAPABILITY_VOLUMES: return can->volumes;
	case CAPABILITY_HOST_PATHS: return can->host_paths;
	case CAPABILITY_LOGS: return can->logs;
	case CAPABILITY_STATS: return can->stats;
	case CAPABILITY_NETWORK: return can->networks & ~(1U << RUNTIME_NET_NONE);
	case CAPABILITY_DISK_LIMIT: return can->limits & LIMIT_DISK;
	case CAPABILITY_LIMIT:
	case CAPABILITY_PLATFORM: break;
	}
	return false;
}

int capability_missing(const struct runtime *rt, enum capability c, const char *where, struct fault *f)
{
	const struct runtime_platform *p = rt->can.platforms;

	if (c == CAPABILITY_PLATFORM)
		return fault_set(f, rows[c].status, rows[c].prefix, rows[c].code, "%s: sandboxes here are %s/%s", where, p->os, p->arch);
	return fault_set(f, rows[c].status, rows[c].prefix ? rows[c].prefix : rt->code_prefix, rows[c].code, "%s%s%s", where ? where : "",
			 where ? ": " : "", rows[c].says);
}

int capability_check(const struct runtime *rt, enum capability c, const char *where, struct fault *f)
{
	return capability_is_there(rt, c) ? 0 : capability_missing(rt, c, where, f);
}
