// SPDX-License-Identifier: Apache-2.0
#include "server/api/api.h"

#include "image/manifest.h"
#include "server/http/reply.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define SERVER_ROUTES \
	/* method  path               handler       flags                      max body */ \
	{ "GET",   "/health",         health_get,   ROUTE_ROOT | ROUTE_PUBLIC, 0 }, \
	{ "GET",   "/docs",           docs_get,     ROUTE_ROOT | ROUTE_PUBLIC, 0 }, \
	{ "GET",   "/redoc",          docs_get,     ROUTE_ROOT | ROUTE_PUBLIC, 0 }, \
	{ "GET",   "/openapi.json",   openapi_get,  ROUTE_ROOT | ROUTE_PUBLIC, 0 }

#define PROXY_ROUTES { "*", "/sandboxes/:id/proxy/:port/*", proxy_any, ROUTE_STREAM_IN, HTTP_LENGTH_MAX }

const struct route api_routes[] = {
	SERVER_ROUTES,
	{ 0 },
};

const struct route api_sandbox_routes[] = {
	SERVER_ROUTES,
	{ "POST",   "/sandboxes",                              sandboxes_post,          0, API_BODY_MAX },
	{ "GET",    "/sandboxes",                              sandboxes_get,           0, 0 },
	{ "GET",    "/sandboxes/:id",                          sandbox_get,             0, 0 },
	{ "DELETE", "/sandboxes/:id",                          sandbox_delete,          0, 0 },
	{ "PATCH",  "/sandboxes/:id/metadata",                 sandbox_metadata_patch,  0, API_BODY_MAX },
	{ "POST",   "/sandboxes/:id/pause",                    sandbox_pause_post,      0, 0 },
	{ "POST",   "/sandboxes/:id/resume",                   sandbox_resume_post,     0, 0 },
	{ "POST",   "/sandboxes/:id/renew-expiration",         sandbox_renew_post,      0, API_BODY_MAX },
	{ "POST",   "/sandboxes/:id/snapshots",                sandbox_snapshots_post,  0, API_BODY_MAX },
	{ "POST",   "/sandboxes/:id/fork",                     sandbox_fork_post,       0, API_BODY_MAX },
	{ "POST",   "/sandboxes/:id/rollback",                 sandbox_rollback_post,   0, API_BODY_MAX },
	{ "GET",    "/snapshots",                              snapshots_get,           0, 0 },
	{ "GET",    "/snapshots/:id",                          snapshot_get,            0, 0 },
	{ "DELETE", "/snapshots/:id",                          snapshot_delete,         0, 0 },
	{ "GET",    "/snapshots/:id/archive",                  snapshot_archive_get,    0, 0 },
	{ "POST",   "/snapshots/import",                       snapshots_import_post,   ROUTE_STREAM_IN, MANIFEST_BLOBS_MAX },
	{ "GET",    "/sandboxes/:id/endpoints/:port",          endpoint_get,            0, 0 },
	{ "GET",    "/sandboxes/:id/route",                    sandbox_route_get,       ROUTE_LOOK_UP, 0 },
	{ "GET",    "/sandboxes/:id/diagnostics/logs",         diagnostics_logs_get,    0, 0 },
	{ "GET",    "/sandboxes/:id/diagnostics/inspect",      diagnostics_inspect_get, 0, 0 },
	{ "GET",    "/sandboxes/:id/diagnostics/events",       diagnostics_events_get,  0, 0 },
	{ "GET",    "/sandboxes/:id/diagnostics/summary",      diagnostics_summary_get, 0, 0 },
	{ "GET",    "/sandboxes/:id/diagnostics/network",      diagnostics_network_get, 0, 0 },
	{ "GET",    "/images",                                 images_get,              0, 0 },
	{ "DELETE", "/images",                                 images_delete,           0, 0 },
	{ "POST",   "/images/pull",                            images_pull_post,        0, API_BODY_MAX },
	{ "POST",   "/images/save",                            images_save_post,        0, API_BODY_MAX },
	{ "POST",   "/images/load",                            images_load_post,        ROUTE_STREAM_IN, MANIFEST_BLOBS_MAX },
	{ "POST",   "/pools",                                  pools_post,              0, API_BODY_MAX },
	{ "GET",    "/pools",                                  pools_get,               0, 0 },
	{ "GET",    "/pools/:name",                            pool_get,                0, 0 },
	{ "PUT",    "/pools/:name",                            pool_put,                0, API_BODY_MAX },
	{ "DELETE", "/pools/:name",                            pool_delete_one,         0, 0 },
	{ "GET",    "/volumes",                                volumes_get,             0, 0 },
	{ "DELETE", "/volumes/:name",                          volume_delete_route,     0, 0 },
	PROXY_ROUTES,
	{ 0 },
};

const struct route api_proxy_routes[] = {
	PROXY_ROUTES,
	{ "*", "/:id/:port/:expires/:signature/*", proxy_signed, ROUTE_STREAM_IN | ROUTE_ROOT, HTTP_LENGTH_MAX },
	{ 0 },
};
