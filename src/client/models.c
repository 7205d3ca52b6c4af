// SPDX-License-Identifier: Apache-2.0
/* Tables: the order of the rows is the order in osb_to_json(). */
#include "client/models.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/model.h"
#include "client/opensandbox.h"

#include "base/banned.h"

/* ---- parts ---- */

static const struct model_field page_fields[] = {
	MODEL(struct osb_page, page, MODEL_INT, "page", .required = true),
	MODEL(struct osb_page, page_size, MODEL_INT, "pageSize", .required = true),
	MODEL(struct osb_page, total_items, MODEL_INT, "totalItems", .required = true),
	MODEL(struct osb_page, total_pages, MODEL_INT, "totalPages", .required = true),
	MODEL(struct osb_page, has_next_page, MODEL_BOOL, "hasNextPage", .required = true),
};
static const struct model page_model = MODEL_OF(struct osb_page, page_fields);

static const struct model_field status_fields[] = {
	MODEL(struct osb_status, state, MODEL_STRING, "state", .required = true),
	MODEL(struct osb_status, reason, MODEL_STRING, "reason"),
	MODEL(struct osb_status, message, MODEL_STRING, "message"),
	MODEL(struct osb_status, last_transition_at, MODEL_TIME, "lastTransitionAt"),
};
static const struct model status_model = MODEL_OF(struct osb_status, status_fields);

static const struct model_field platform_fields[] = {
	MODEL(struct osb_platform, os, MODEL_STRING, "os", .required = true),
	MODEL(struct osb_platform, arch, MODEL_STRING, "arch", .required = true),
};

static void show_platform(struct json_out *o, const void *p)
{
	const struct osb_platform *platform = p;

	if (!platform->os) {
		json_null(o);
		return;
	}
	json_open(o, '{');
	json_key(o, "os"), json_cstr(o, platform->os);
	json_key(o, "arch"), json_cstr(o, platform->arch);
	json_close(o, '}');
}
static const struct model platform_model = MODEL_OF(struct osb_platform, platform_fields, .show = show_platform);

/* On the wire {"uri"}, shown as {"image", "auth"}; credentials are never sent back. */
static int read_image(struct model_reader *r, const struct json *v, void *out)
{
	const struct json *uri = v->type == JSON_OBJECT ? json_get(v, "uri") : NULL;
	const char *text;

	if (!uri || uri->type != JSON_STRING)
		return model_bad(r, "it has no uri");
	text = arena_dup(r->arena, uri->s);
	if (!text)
		return model_no_room(r);
	*(const char **)out = text;
	return 0;
}

static void show_image(struct json_out *o, const void *p)
{
	const char *image = *(const char *const *)p;

	if (!image) {
		json_null(o);
		return;
	}
	json_open(o, '{');
	json_key(o, "image"), json_cstr(o, image);
	json_key(o, "auth"), json_null(o);
	json_close(o, '}');
}
static const struct model image_model = { .size = sizeof(const char *), .read = read_image, .show = show_image };

/* ---- sandboxes ---- */

static const struct model_field sandbox_info_fields[] = {
	MODEL(struct osb_sandbox_info, id, MODEL_STRING, "id", .required = true),
	MODEL(struct osb_sandbox_info, status, MODEL_OBJECT, "status", .required = true, .model = &status_model),
	MODEL(struct osb_sandbox_info, entrypoint, MODEL_STRINGS, "entrypoint"),
	MODEL(struct osb_sandbox_info, expires_at, MODEL_TIME, "expiresAt"),
	MODEL(struct osb_sandbox_info, created_at, MODEL_TIME, "createdAt", .required = true),
	MODEL(struct osb_sandbox_info, image, MODEL_OBJECT, "image", .model = &image_model),
	MODEL(struct osb_sandbox_info, snapshot_id, MODEL_STRING, "snapshotId"),
	MODEL(struct osb_sandbox_info, platform, MODEL_OBJECT, "platform", .model = &platform_model),
	MODEL(struct osb_sandbox_info, metadata, MODEL_MAP, "metadata"),
};
const struct model sandbox_info_model = MODEL_OF(struct osb_sandbox_info, sandbox_info_fields);

static const struct model_field sandboxes_fields[] = {
	MODEL(struct osb_sandboxes, items, MODEL_OBJECTS, "items", .n = offsetof(struct osb_sandboxes, n), .required = true,
	      .model = &sandbox_info_model),
	MODEL(struct osb_sandboxes, pagination, MODEL_OBJECT, "pagination", .required = true, .model = &page_model),
};
const struct model sandboxes_model = MODEL_OF(struct osb_sandboxes, sandboxes_fields);

static const struct model_field forks_fields[] = {
	MODEL(struct osb_sandboxes, items, MODEL_OBJECTS, "items", .n = offsetof(struct osb_sandboxes, n), .required = true,
	      .model = &sandbox_info_model),
};
const struct model forks_model = MODEL_OF(struct osb_sandboxes, forks_fields);

static const struct model_field expiry_fields[] = {
	MODEL(struct osb_expiry, expires_at, MODEL_TIME, "expiresAt", .required = true),
};
const struct model expiry_model = MODEL_OF(struct osb_expiry, expiry_fields);

static const struct model_field endpoint_fields[] = {
	MODEL(struct osb_endpoint, endpoint, MODEL_STRING, "endpoint", .required = true),
	MODEL(struct osb_endpoint, headers, MODEL_MAP, "headers"),
};
const struct model endpoint_model = MODEL_OF(struct osb_endpoint, endpoint_fields);

/* ---- what happened to them ---- */

static const struct model_field diagnostics_fields[] = {
	MODEL(struct osb_diagnostics, sandbox_id, MODEL_STRING, "sandboxId", .required = true),
	MODEL(struct osb_diagnostics, kind, MODEL_STRING, "kind", .required = true),
	MODEL(struct osb_diagnostics, scope, MODEL_STRING, "scope", .required = true),
	MODEL(struct osb_diagnostics, delivery, MODEL_STRING, "delivery", .required = true),
	MODEL(struct osb_diagnostics, content_type, MODEL_STRING, "contentType", .required = true),
	MODEL(struct osb_diagnostics, truncated, MODEL_BOOL, "truncated", .required = true),
	MODEL(struct osb_diagnostics, content, MODEL_STRING, "content"),
	MODEL(struct osb_diagnostics, content_url, MODEL_STRING, "contentUrl"),
	MODEL(struct osb_diagnostics, content_length, MODEL_INT, "contentLength", .none = -1),
	MODEL(struct osb_diagnostics, expires_at, MODEL_TIME, "expiresAt"),
	MODEL(struct osb_diagnostics, warnings, MODEL_STRINGS, "warnings", .is_nullable = true),
};
const struct model diagnostics_model = MODEL_OF(struct osb_diagnostics, diagnostics_fields);

/* ---- snapshots ---- */

static const struct model_field snapshot_fields[] = {
	MODEL(struct osb_snapshot, id, MODEL_STRING, "id", .required = true),
	MODEL(struct osb_snapshot, sandbox_id, MODEL_STRING, "sandboxId", .required = true),
	MODEL(struct osb_snapshot, name, MODEL_STRING, "name"),
	MODEL(struct osb_snapshot, status, MODEL_OBJECT, "status", .required = true, .model = &status_model),
	MODEL(struct osb_snapshot, created_at, MODEL_TIME, "createdAt", .required = true),
	{ .wire = "sizeBytes", .kind = MODEL_INT, .offset = offsetof(struct osb_snapshot, size_bytes), .none = -1 },
};
const struct model snapshot_model = MODEL_OF(struct osb_snapshot, snapshot_fields);

static const struct model_field snapshots_fields[] = {
	MODEL(struct osb_snapshots, items, MODEL_OBJECTS, "items", .n = offsetof(struct osb_snapshots, n), .required = true,
	      .model = &snapshot_model),
	MODEL(struct osb_snapshots, pagination, MODEL_OBJECT, "pagination", .required = true, .model = &page_model),
};
const struct model snapshots_model = MODEL_OF(struct osb_snapshots, snapshots_fields);
