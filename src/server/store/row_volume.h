// SPDX-License-Identifier: Apache-2.0
/* server/store/row_volume.h - volumes in records: those of a sandbox, and named ones. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/str.h"

struct arena;
struct err;
struct json_out;

#define VOLUMES_OF_SANDBOX_MAX 16
#define VOLUME_LABEL_MAX 63  /* what a sandbox calls it */
#define VOLUME_NAME_MAX 253  /* of a named one: the claim */
#define ROW_VOLUME_PATH_MAX 1023
#define VOLUME_SOURCE_MAX 4095

/* [a-z0-9] and '-', which stands neither first nor last. */
bool volume_name_valid(struct str name, size_t max);

/* ---- of a sandbox ---- */

enum row_volume_kind { ROW_VOLUME_HOST, ROW_VOLUME_NAMED };

struct row_volume {
	const char *name;   /* what the sandbox calls it */
	enum row_volume_kind kind;
	const char *source; /* the path on the host, or the name of the volume */
	const char *id;     /* of a named one, for the runtime; "" */
	const char *sub_path, *mount_path;
	bool is_read_only;
	bool is_made;         /* by the create of this sandbox */
	bool is_deleted_with; /* it goes with the sandbox, if that has made it */
	/* Not in the record, for the runtime: the path on the host with what is beneath it, or the one in the volume. */
	const char *path;
	bool is_nowhere; /* it is in none of the folders that are listed now */
};

extern const struct field row_volume_fields[]; /* of struct row_volume */

void row_volumes_write(struct json_out *o, const struct row_volume *volumes, size_t n); /* the array */
/* Of a document: "" or what is wrong with one. */
const char *row_volume_check(const void *item);
int row_volumes_copy(struct arena *a, const struct row_volume *from, size_t n, const struct row_volume **ret,
		     struct err *e);

/* ---- a named one ---- */

enum volume_state {
	VOLUME_MAKING,   /* no create that has it was acknowledged yet */
	VOLUME_READY,
	VOLUME_DOOMED,   /* it goes with the last sandbox that has it */
	VOLUME_REMOVING,
	VOLUME_STATES,
};
const char *volume_state_name(enum volume_state s); /* "making", ... */

struct volume_row {
	const char *name, *id;
	uint64_t size_bytes; /* 0: no limit */
	int64_t created_us;
	enum volume_state state;
};

struct volume_columns {
	struct str name, id, state;
	int64_t size_bytes, created_us;
};
/* ERR_INVALID */
int volume_row_load(const struct volume_columns *c, struct arena *a, struct volume_row *ret, struct err *e);
