// SPDX-License-Identifier: Apache-2.0
/* server/api/api.h - the routes of the control plane and their handlers: decode, act, encode. */
#pragma once
#include "net/http/server.h"

extern const struct route api_routes[];         /* of a server without a runtime */
extern const struct route api_sandbox_routes[]; /* of one with: these, and the sandboxes' */
extern const struct route api_proxy_routes[];   /* of the endpoint proxy's own port */

handler_fn health_get;

handler_fn docs_get;    /* the page that shows the API, for people */
handler_fn openapi_get; /* the same for programs */

handler_fn sandboxes_post, sandboxes_get;
handler_fn sandbox_get, sandbox_delete, sandbox_metadata_patch;
handler_fn sandbox_pause_post, sandbox_resume_post, sandbox_renew_post;
handler_fn sandbox_snapshots_post, snapshots_get, snapshot_get, snapshot_delete, snapshot_archive_get,
	snapshots_import_post;
handler_fn sandbox_fork_post, sandbox_rollback_post;
handler_fn volumes_get, volume_delete_route;
handler_fn endpoint_get, sandbox_route_get;
handler_fn diagnostics_logs_get, diagnostics_inspect_get, diagnostics_events_get, diagnostics_summary_get,
	diagnostics_network_get;
handler_fn images_get, images_delete, images_pull_post, images_load_post, images_save_post;
handler_fn pools_post, pools_get, pool_get, pool_put, pool_delete_one;
