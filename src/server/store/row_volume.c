// SPDX-License-Identifier: Apache-2.0
#include "server/store/row_volume.h"

#include "base/arena.h"
#include "base/civil.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "base/uuid.h"

#include "base/banned.h"

bool volume_name_valid(struct str name, size_t max)
{
	if (name.n == 0 || name.n > max || name.p[0] == '-' || name.p[name.n - 1] == '-')
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", name.p[i]) || name.p[i] == '\0')
			return false;
	return true;
}

/* ---- of a sandbox ---- */

static const char *const kinds[] = { [ROW_VOLUME_HOST] = "host", [ROW_VOLUME_NAMED] = "pvc", NULL };

#define VOLUME(member, kind_, name_, ...) FIELD(struct row_volume, member, kind_, name_, .required = true, __VA_ARGS__)
const struct field row_volume_fields[] = {
	VOLUME(name, FIELD_STRING, "name", .min = 1, .max = VOLUME_LABEL_MAX),
	VOLUME(kind, FIELD_ENUM, "kind", .names = kinds),
	VOLUME(source, FIELD_STRING, "source", .min = 1, .max = VOLUME_SOURCE_MAX),
	VOLUME(id, FIELD_STRING, "id", .max = ID_MAX),
	VOLUME(sub_path, FIELD_STRING, "subPath", .max = ROW_VOLUME_PATH_MAX),
	VOLUME(mount_path, FIELD_STRING, "mountPath", .min = 2, .max = ROW_VOLUME_PATH_MAX),
	VOLUME(is_read_only, FIELD_BOOL, "readOnly"),
	VOLUME(is_made, FIELD_BOOL, "made"),
	VOLUME(is_deleted_with, FIELD_BOOL, "delete"),
	{ 0 },
};

const char *row_volume_check(const void *item)
{
	const struct row_volume *v = item;
	bool is_named = v->kind == ROW_VOLUME_NAMED;

	if (is_named ? !id_valid(str_of(v->id)) || !volume_name_valid(str_of(v->source), VOLUME_NAME_MAX) : v->id[0] != '\0')
		return "is not named as its kind is";
	return v->mount_path[0] == '/' ? NULL : "has no place";
}

void row_volumes_write(struct json_out *o, const struct row_volume *volumes, size_t n)
{
	json_open(o, '[');
	for (size_t i = 0; i < n; i++) {
		const struct row_volume *v = &volumes[i];

		json_open(o, '{');
		json_key(o, "name"), json_cstr(o, v->name);
		json_key(o, "kind"), json_cstr(o, kinds[v->kind]);
		json_key(o, "source"), json_cstr(o, v->source);
		json_key(o, "id"), json_cstr(o, v->id);
		json_key(o, "subPath"), json_cstr(o, v->sub_path);
		json_key(o, "mountPath"), json_cstr(o, v->mount_path);
		json_key(o, "readOnly"), json_bool(o, v->is_read_only);
		json_key(o, "made"), json_bool(o, v->is_made);
		json_key(o, "delete"), json_bool(o, v->is_deleted_with);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static bool copy(struct arena *a, const char **z)
{
	*z = *z ? arena_dup(a, str_of(*z)) : "";
	return *z;
}

int row_volumes_copy(struct arena *a, const struct row_volume *from, size_t n, const struct row_volume **ret, struct err *e)
{
	struct row_volume *to = arena_array(a, n + 1, sizeof(*to));

	for (size_t i = 0; to && i < n; i++) {
		to[i] = from[i];
		if (!copy(a, &to[i].name) || !copy(a, &to[i].source) || !copy(a, &to[i].id) || !copy(a, &to[i].sub_path) ||
		    !copy(a, &to[i].mount_path) || !copy(a, &to[i].path))
			return err_no_memory(e);
	}
	*ret = to;
	return to ? 0 : err_no_memory(e);
}

/* ---- a named one ---- */

static const char *const states[] = {
	[VOLUME_MAKING] = "making", [VOLUME_READY] = "ready", [VOLUME_DOOMED] = "doomed", [VOLUME_REMOVING] = "removing",
};

const char *volume_state_name(enum volume_state s)
{
	return states[s];
}

static bool parse_state(struct str name, enum volume_state *ret)
{
	for (unsigned i = 0; i < VOLUME_STATES; i++) {
		if (str_is(name, states[i])) {
			*ret = (enum volume_state)i;
			return true;
		}
	}
	return false;
}

int volume_row_load(const struct volume_columns *c, struct arena *a, struct volume_row *ret, struct err *e)
{
	struct volume_row r = { .size_bytes = (uint64_t)c->size_bytes, .created_us = c->created_us };

	if (!volume_name_valid(c->name, VOLUME_NAME_MAX))
		return err_set(e, ERR_INVALID, "volume '%s': not a name", SHOWN(c->name));
	if (!id_valid(c->id) || !parse_state(c->state, &r.state) || c->size_bytes < 0 || c->created_us <= 0 ||
	    c->created_us / US_PER_S > CIVIL_MAX_S)
		return err_set(e, ERR_INVALID, "volume '%s': a record that cannot be", SHOWN(c->name));
	r.name = arena_dup(a, c->name);
	r.id = arena_dup(a, c->id);
	if (!r.name || !r.id)
		return err_no_memory(e);
	*ret = r;
	return 0;
}
