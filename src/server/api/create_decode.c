// SPDX-License-Identifier: Apache-2.0
/* The shape of a create, as tables, and the rules that span several members. */
#include "base/err.h"
#include "net/http/server.h"
#include "server/api/create.h"
#include "server/http/service.h"

#include "base/banned.h"

struct credential_proxy {
	bool enabled;
};

/* What the table binds to. */
struct bound {
	struct create_request rq;
	struct credential_proxy credentials;
};

static const struct field auth_fields[] = {
	FIELD(struct create_auth, username, FIELD_STRING, "username", .required = true, .secret = true),
	FIELD(struct create_auth, password, FIELD_STRING, "password", .required = true, .secret = true),
	{ 0 },
};

static const struct field image_fields[] = {
	FIELD(struct create_image, uri, FIELD_STRING, "uri", .required = true),
	FIELD(struct create_image, auth, FIELD_OBJECT, "auth", .fields = auth_fields),
	{ 0 },
};

static const struct field platform_fields[] = {
	FIELD(struct create_platform, os, FIELD_STRING, "os", .required = true),
	FIELD(struct create_platform, arch, FIELD_STRING, "arch", .required = true),
	{ 0 },
};

static const struct field credential_fields[] = {
	FIELD(struct credential_proxy, enabled, FIELD_BOOL, "enabled"),
	{ 0 },
};

static const struct field rule_fields[] = {
	FIELD(struct create_rule, action, FIELD_STRING, "action", .required = true),
	FIELD(struct create_rule, target, FIELD_STRING, "target", .required = true, .min = 1),
	{ 0 },
};

const struct field create_policy_fields[] = {
	FIELD(struct create_policy, default_action, FIELD_STRING, "defaultAction", .alias = "default_action"),
	FIELD(struct create_policy, egress, FIELD_OBJECTS, "egress", .fields = rule_fields, .size = sizeof(struct create_rule)),
	{ 0 },
};

#define MEMBER(member, kind, name, ...) FIELD(struct bound, member, kind, name, __VA_ARGS__)
static const struct field create_fields[] = {
	MEMBER(rq.image, FIELD_OBJECT, "image", .fields = image_fields),
	MEMBER(rq.snapshot_id, FIELD_STRING, "snapshotId", .alias = "snapshot_id"),
	MEMBER(rq.platform, FIELD_OBJECT, "platform", .fields = platform_fields, .has = HAS(struct bound, rq.has_platform)),
	MEMBER(rq.timeout, FIELD_INT, "timeout", .min = 60),
	MEMBER(rq.limits, FIELD_MAP, "resourceLimits", .alias = "resource_limits", .no_nulls = true,
	       .has = HAS(struct bound, rq.has_limits)),
	MEMBER(rq.env, FIELD_MAP, "env", .secret = true),
	MEMBER(rq.metadata, FIELD_MAP, "metadata", .no_nulls = true),
	MEMBER(rq.entrypoint, FIELD_STRINGS, "entrypoint", .min = 1),
	MEMBER(rq.policy, FIELD_OBJECT, "networkPolicy", .alias = "network_policy", .fields = create_policy_fields,
	       .has = HAS(struct bound, rq.has_network_policy)),
	MEMBER(credentials, FIELD_OBJECT, "credentialProxy", .alias = "credential_proxy", .fields = credential_fields),
	MEMBER(rq.is_secure_access, FIELD_BOOL, "secureAccess", .alias = "secure_access"),
	MEMBER(rq.volumes, FIELD_OBJECTS, "volumes", .fields = create_volume_fields, .size = sizeof(struct create_volume),
	       .defaults = &create_volume_defaults, .check_item = create_volume_check),
	MEMBER(rq.extensions, FIELD_MAP, "extensions", .no_nulls = true),
	{ 0 },
};

static bool is_blank(const char *z)
{
	return !z || str_trim(str_of(z)).n == 0;
}

static bool has_pool(const struct create_request *rq)
{
	for (size_t i = 0; i < rq->extensions.n; i++)
		if (strcmp(rq->extensions.items[i].key, "poolRef") == 0)
			return !is_blank(rq->extensions.items[i].value);
	return false;
}

/* What is wrong with the whole, or NULL. */
static const char *broken_rule(const struct create_request *rq)
{
	bool has_image = !is_blank(rq->image.uri), has_snapshot = !is_blank(rq->snapshot_id);

	if (has_pool(rq)) {
		if (has_snapshot)
			return "snapshotId cannot be used with extensions.poolRef";
		return rq->proxies_credentials ? "credentialProxy cannot be used with extensions.poolRef" : NULL;
	}
	if (rq->proxies_credentials && !rq->has_network_policy)
		return "credentialProxy requires networkPolicy";
	if (has_image == has_snapshot)
		return "exactly one of image and snapshotId must be given";
	if (has_image && rq->entrypoint.n == 0)
		return "entrypoint is required with image";
	return rq->has_limits ? NULL : "resourceLimits is required";
}

/* What the table alone cannot see. */
static int finish(struct bound *b, struct decode *d, struct create_request *ret, struct err *e)
{
	const char *why;

	b->rq.proxies_credentials = b->credentials.enabled;
	why = broken_rule(&b->rq);
	if (why)
		return decode_refuse(d, NULL, why, e);
	*ret = b->rq;
	return 0;
}

int create_bind(const struct json *v, struct decode *d, struct create_request *ret, struct err *e)
{
	struct bound b = { 0 };

	return decode(d, v, create_fields, &b, e) < 0 ? -1 : finish(&b, d, ret, e);
}

int create_decode(struct request *rq, struct reply *rp, struct create_request *ret, struct decode *d, struct err *e)
{
	struct bound b = { 0 };
	int rc = service_decode(rq, rp, create_fields, &b, d, e);

	if (rc != 0)
		return rc;
	if (finish(&b, d, ret, &(struct err){ 0 }) == 0)
		return 0;
	(void)service_reply_problems(rp, d, "body");
	return 1;
}
