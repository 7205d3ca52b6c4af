// SPDX-License-Identifier: Apache-2.0
/* Volumes of a create: their shape (422), and what is allowed here (400). */
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/quantity.h"
#include "server/api/create.h"
#include "server/model/capability.h"
#include "server/model/volumes.h"
#include "server/runtime/volume_path.h"
#include "sys/path.h"

#include "base/banned.h"

#define LABEL_PATTERN "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
#define STORAGE_MIN (UINT64_C(1) << 20)
#define STORAGE_MAX (UINT64_C(1) << 50)

_Static_assert(VOLUME_PATH_MAX == ROW_VOLUME_PATH_MAX, "what is checked here can be recorded");

/* ---- shape ---- */

static const char *const ossfs_versions[] = { "1.0", "2.0", NULL };

const struct create_volume create_volume_defaults = { .pvc = { .is_to_be_made = true }, .ossfs = { .version = 1 } };

static const char *check_mount_path(const void *value)
{
	const char *path = *(const char *const *)value;

	return path[0] == '/' ? NULL : "must start with '/'";
}

static const char *check_label(const void *value)
{
	return volume_name_valid(str_of(*(const char *const *)value), SIZE_MAX) ? NULL :
	       "must consist of small letters, digits and '-', which stands neither first nor last";
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *check_host_path(const void *value)
{
	const char *path = *(const char *const *)value;
	bool is_drive = is_letter(path[0]) && path[1] == ':' && (path[2] == '/' || path[2] == '\\');

	return path[0] == '/' || is_drive ? NULL : "must be an absolute path";
}

/* Digits, perhaps with a fraction, and a unit with two letters. How much that may be is another matter. */
static const char *check_storage(const void *value)
{
	static const char why[] = "must be a size such as 10Gi";
	struct str s = str_of(*(const char *const *)value), units;
	size_t n = strspn(s.p, "0123456789");

	if (n == 0)
		return why;
	if (s.p[n] == '.') {
		size_t more = strspn(s.p + n + 1, "0123456789");

		if (more == 0)
			return why;
		n += more + 1;
	}
	units = str_skip(s, n);
	return units.n == 0 || (units.n == 2 && strchr("KMGTPE", units.p[0]) && units.p[1] == 'i') ? NULL : why;
}

static const struct field host_fields[] = {
	FIELD(struct create_host, path, FIELD_STRING, "path", .required = true, .min = 1, .max = VOLUME_SOURCE_MAX,
	      .check = check_host_path, .pattern = "^(/|[A-Za-z]:[\\\\/])"),
	{ 0 },
};

/* Its class and access modes are for Kubernetes alone, and ignored elsewhere. */
static const struct field pvc_fields[] = {
	FIELD(struct create_pvc, claim, FIELD_STRING, "claimName", .alias = "claim_name", .required = true, .min = 1,
	      .max = VOLUME_NAME_MAX, .check = check_label, .pattern = LABEL_PATTERN),
	FIELD(struct create_pvc, is_to_be_made, FIELD_BOOL, "createIfNotExists", .alias = "create_if_not_exists"),
	FIELD(struct create_pvc, is_deleted_with, FIELD_BOOL, "deleteOnSandboxTermination",
	      .alias = "delete_on_sandbox_termination"),
	FIELD(struct create_pvc, storage, FIELD_STRING, "storage", .max = QUANTITY_TEXT_MAX, .check = check_storage,
	      .pattern = "^\\d+(\\.\\d+)?(Ki|Mi|Gi|Ti|Pi|Ei)?$"),
	{ 0 },
};

static const struct field ossfs_fields[] = {
	FIELD(struct create_ossfs, bucket, FIELD_STRING, "bucket", .required = true, .min = 3, .max = 63),
	FIELD(struct create_ossfs, endpoint, FIELD_STRING, "endpoint", .required = true, .min = 1, .max = 253),
	FIELD(struct create_ossfs, version, FIELD_ENUM, "version", .names = ossfs_versions),
	FIELD(struct create_ossfs, options, FIELD_STRINGS, "options", .max = 64),
	FIELD(struct create_ossfs, key_id, FIELD_STRING, "accessKeyId", .alias = "access_key_id", .required = true, .secret = true),
	FIELD(struct create_ossfs, key_secret, FIELD_STRING, "accessKeySecret", .alias = "access_key_secret", .required = true,
	      .secret = true),
	{ 0 },
};

#define VOLUME(member, kind_, name_, ...) FIELD(struct create_volume, member, kind_, name_, __VA_ARGS__)
const struct field create_volume_fields[] = {
	VOLUME(name, FIELD_STRING, "name", .required = true, .min = 1, .max = VOLUME_LABEL_MAX, .check = check_label,
	       .pattern = LABEL_PATTERN),
	VOLUME(mount_path, FIELD_STRING, "mountPath", .alias = "mount_path", .required = true, .check = check_mount_path,
	       .pattern = "^/.*"),
	VOLUME(sub_path, FIELD_STRING, "subPath", .alias = "sub_path"),
	VOLUME(is_read_only, FIELD_BOOL, "readOnly", .alias = "read_only"),
	VOLUME(host, FIELD_OBJECT, "host", .fields = host_fields, .has = HAS(struct create_volume, has_host)),
	VOLUME(pvc, FIELD_OBJECT, "pvc", .fields = pvc_fields, .has = HAS(struct create_volume, has_pvc)),
	VOLUME(ossfs, FIELD_OBJECT, "ossfs", .fields = ossfs_fields, .secret = true, .has = HAS(struct create_volume, has_ossfs)),
	{ 0 },
};

const char *create_volume_check(const void *item)
{
	const struct create_volume *v = item;

	return v->has_host + v->has_pvc + v->has_ossfs == 1 ? NULL : "exactly one of host, pvc and ossfs must be given";
}

/* ---- paths ---- */

struct checking {
	const struct create_rules *rules;
	struct arena *arena;
	const struct create_volume *volume;
	struct row_volume *row;
	struct fault *f;
};

#define REFUSE(c, code, fmt, ...) \
	fault_set((c)->f, 400, "VOLUME", (code), "volumes '%s': " fmt, (c)->volume->name, ##__VA_ARGS__)

static int no_memory(struct fault *f)
{
	return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
}

static int missing(const struct checking *c, enum capability what, const char *member)
{
	char where[VOLUME_LABEL_MAX + 64];

	(void)snprintf(where, sizeof(where), "volumes '%s': %s", c->volume->name, member);
	return capability_missing(c->rules->runtime, what, where, c->f);
}

static bool has_dots(const char *path)
{
	struct str rest = str_of(path), word;

	while (rest.n > 0) {
		(void)str_cut(rest, '/', &word, &rest);
		if (str_is(word, ".."))
			return true;
	}
	return false;
}

static const char *clean(const struct checking *c, const char *path)
{
	return volume_path_clean(path, c->arena);
}

static int check_sub_path(struct checking *c)
{
	const char *sub = c->volume->sub_path ? c->volume->sub_path : "", *path;

	if (sub[0] == '/' || has_dots(sub))
		return REFUSE(c, "INVALID_SUB_PATH", "subPath '%s': must be relative, without '..'", SHOWN(str_of(sub)));
	path = clean(c, sub);
	if (!path || strlen(path) > VOLUME_PATH_MAX)
		return REFUSE(c, "INVALID_SUB_PATH", "subPath: longer than %d bytes", VOLUME_PATH_MAX);
	c->row->sub_path = path[0] ? path + 1 : path;
	return 0;
}

static int check_place(struct checking *c)
{
	const char *path = c->volume->mount_path, *cleaned = has_dots(path) ? NULL : clean(c, path);

	if (cleaned && volume_mount_path_valid(cleaned)) {
		c->row->mount_path = cleaned;
		return 0;
	}
	if (cleaned && strlen(cleaned) > VOLUME_PATH_MAX)
		return REFUSE(c, "INVALID_MOUNT_PATH", "mountPath: longer than %d bytes", VOLUME_PATH_MAX);
	return REFUSE(c, "INVALID_MOUNT_PATH",
		      "mountPath '%s': must be a path without '..' and none of /, /proc, /sys and /dev, nor in these",
		      SHOWN(str_of(path)));
}

/* ---- host ---- */

static int check_host(struct checking *c)
{
	const char *path = c->volume->host.path, *cleaned, *rest, *sub = c->row->sub_path;
	size_t n = strlen(path);

	if (!capability_is_there(c->rules->runtime, CAPABILITY_HOST_PATHS))
		return missing(c, CAPABILITY_HOST_PATHS, "host");
	if (path[0] != '/' || has_dots(path) || strstr(path, "//") || path[n - 1] == '/')
		return REFUSE(c, "INVALID_HOST_PATH", "host.path '%s': must be absolute, without '..', '//' and a '/' at its end",
			      SHOWN(str_of(path)));
	cleaned = clean(c, path);
	if (!cleaned)
		return REFUSE(c, "INVALID_HOST_PATH", "host.path: too long");
	if (volume_path_find(c->rules->host_paths, cleaned, c->arena, &rest) < 0)
		return REFUSE(c, "HOST_PATH_NOT_ALLOWED", "host.path '%s': is in no folder that the operator allows",
			      SHOWN(str_of(path)));
	c->row->kind = ROW_VOLUME_HOST;
	c->row->source = path;
	rest = arena_printf(c->arena, "%s%s%s", rest, rest[0] && sub[0] ? "/" : "", sub);
	c->row->path = arena_printf(c->arena, "%s%s%s", cleaned, sub[0] ? "/" : "", sub);
	if (!rest || !c->row->path)
		return no_memory(c->f);
	return volume_path_valid(rest) ? 0 : REFUSE(c, "INVALID_HOST_PATH", "host.path: too long");
}

/* ---- pvc ---- */

static int check_size(struct checking *c, uint64_t *ret)
{
	const struct create_rules *r = c->rules;
	const char *text = c->volume->pvc.storage;
	bool has_limits = capability_is_there(r->runtime, CAPABILITY_DISK_LIMIT);
	struct err e = { 0 };

	*ret = has_limits ? MIN(r->volume_bytes, r->ceilings.disk_bytes) : 0;
	if (!text)
		return 0;
	if (!has_limits)
		return missing(c, CAPABILITY_DISK_LIMIT, "storage");
	if (quantity_storage(str_of(text), ret, &e) < 0 || *ret < STORAGE_MIN || *ret > STORAGE_MAX)
		return fault_set(c->f, 400, "SANDBOX", "INVALID_PARAMETER", "volumes '%s': storage must be 1Mi to 1024Ti",
				 c->volume->name);
	if (*ret > c->rules->ceilings.disk_bytes)
		return fault_set(c->f, 400, "SANDBOX", "INVALID_PARAMETER", "volumes '%s': storage must be at most %llu bytes",
				 c->volume->name, (unsigned long long)c->rules->ceilings.disk_bytes);
	return 0;
}

static int check_pvc(struct checking *c, uint64_t *ret_size)
{
	const struct create_pvc *p = &c->volume->pvc;

	if (volumes_check(c->rules->volumes, p->claim, p->is_to_be_made, c->f) < 0)
		return -1;
	if (!capability_is_there(c->rules->runtime, CAPABILITY_VOLUMES))
		return missing(c, CAPABILITY_VOLUMES, "pvc");
	c->row->kind = ROW_VOLUME_NAMED;
	c->row->source = p->claim;
	c->row->path = c->row->sub_path;
	c->row->is_deleted_with = p->is_deleted_with;
	if (!volume_path_valid(c->row->path))
		return REFUSE(c, "INVALID_SUB_PATH", "subPath: a name in it is longer than %d bytes", PATH_COMPONENT_MAX);
	return check_size(c, ret_size);
}

/* ---- ossfs ---- */

static bool is_plain(const char *z, const char *more)
{
	for (; *z; z++)
		if (!is_letter(*z) && !(*z >= '0' && *z <= '9') && !strchr(more, *z))
			return false;
	return true;
}

static bool is_installed(const char *program)
{
	static const char *const folders[] = { "/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin" };
	char path[64];

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folders[i], program);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* Refused in any case: what a FUSE program of the host mounts has no quota, no ids of a sandbox, and a server of the
 * client's choice behind it (A10). But a request that is wrong is told so first. */
static int check_ossfs(struct checking *c)
{
	const struct create_ossfs *o = &c->volume->ossfs;
	const char *program = o->version == 0 ? "ossfs" : "ossfs2";

	if (!is_plain(o->bucket, "-."))
		return REFUSE(c, "INVALID_OSSFS_BUCKET", "ossfs.bucket: must be letters, digits, '-' and '.'");
	if (!is_plain(o->endpoint, "-.:/"))
		return REFUSE(c, "INVALID_OSSFS_ENDPOINT", "ossfs.endpoint: must be a host, perhaps with a scheme and a port");
	for (size_t i = 0; i < o->options.n; i++)
		if (str_trim(str_of(o->options.items[i])).n == 0 || o->options.items[i][0] == '-' ||
		    !is_plain(o->options.items[i], "-._=/:, "))
			return REFUSE(c, "INVALID_OSSFS_OPTION", "ossfs.options: one is blank, begins with '-' or has other characters");
	if (str_trim(str_of(o->key_id)).n == 0 || str_trim(str_of(o->key_secret)).n == 0)
		return REFUSE(c, "INVALID_OSSFS_CREDENTIALS", "ossfs: both keys must be given");
	if (!is_installed(program))
		return REFUSE(c, "UNSUPPORTED_BACKEND", "ossfs: the program '%s' is not installed on this host", program);
	return REFUSE(c, "UNSUPPORTED_BACKEND", "ossfs: what '%s' mounts cannot be confined, so this server does not use it", program);
}

/* ---- all of them ---- */

static int check_one(struct checking *c, uint64_t *ret_size)
{
	const struct create_volume *v = c->volume;

	*c->row = (struct row_volume){ .name = v->name, .id = "", .sub_path = "", .mount_path = "", .is_read_only = v->is_read_only };
	if (check_sub_path(c) < 0 || check_place(c) < 0)
		return -1;
	if (v->has_ossfs)
		return check_ossfs(c);
	return v->has_host ? check_host(c) : check_pvc(c, ret_size);
}

/* Neither two of one name nor two at one place. */
static int check_apart(const struct checking *c, const struct row_volume *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(rows[i].mount_path, c->row->mount_path) == 0)
			return REFUSE(c, "INVALID_MOUNT_PATH", "mountPath '%s': there are two volumes at this place",
				      SHOWN(str_of(c->row->mount_path)));
	return 0;
}

static int check_names(const struct create_volume *volumes, size_t n, struct fault *f)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(volumes[i].name, volumes[k].name) == 0)
				return fault_set(f, 400, "VOLUME", "DUPLICATE_NAME", "volumes: there are two of the name '%s'", volumes[i].name);
	return 0;
}

int create_check_volumes(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
			 struct sandbox_order *o, struct fault *f)
{
	const struct create_volume *volumes = rq->volumes.items;
	size_t n = rq->volumes.n;
	struct row_volume *rows;
	uint64_t *sizes;

	if (n > VOLUMES_OF_SANDBOX_MAX)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "volumes: more than %d", VOLUMES_OF_SANDBOX_MAX);
	rows = arena_array(a, n + 1, sizeof(*rows));
	sizes = arena_array(a, n + 1, sizeof(*sizes));
	if (!rows || !sizes)
		return no_memory(f);
	if (check_names(volumes, n, f) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct checking c = { rules, a, &volumes[i], &rows[i], f };

		if (check_one(&c, &sizes[i]) < 0 || check_apart(&c, rows, i) < 0)
			return -1;
	}
	o->volumes = rows;
	o->volume_sizes = sizes;
	o->n_volumes = n;
	return 0;
}
