// SPDX-License-Identifier: Apache-2.0
/* server/store/snapshot_row.h - the record of a snapshot, and its database row, validated when it is
 * loaded. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/str.h"
#include "server/runtime/runtime.h"

struct arena;
struct buf;
struct err;

enum snapshot_state {
	SNAPSHOT_CREATING,
	SNAPSHOT_READY,
	SNAPSHOT_FAILED,
	SNAPSHOT_DELETING,
	SNAPSHOT_STATES,
};
const char *snapshot_state_name(enum snapshot_state s); /* "Creating", ... as clients know them */

#define SNAPSHOT_NAME_MAX 255

struct snapshot_row {
	const char *id;
	const char *sandbox_id; /* what it was taken of; that may be gone */
	const char *name;       /* NULL: it has none */
	const char *image;      /* that everything stands on */
	const char *image_digest; /* as the sandbox's was; NULL: it is found by its name */
	const char *reference;  /* the runtime's; NULL: it was imported, and is its image */
	bool knows_network;           /* the source's, as it was then; not of what was imported or taken by an earlier version */
	enum runtime_network network;
	const char *policy;           /* with RUNTIME_NET_POLICY */
	enum snapshot_state state;
	const char *reason, *message;
	int64_t created_us, changed_us; /* wall clock */
};

struct snapshot_columns {
	struct str id, sandbox_id, name, spec, state, reason, message;
	int64_t created_us, changed_us;
};

bool snapshot_row_write_spec(const struct snapshot_row *r, struct buf *b);

/* Everything is copied into A. ERR_INVALID: "snapshot 'ab12': ..." */
int snapshot_row_load(const struct snapshot_columns *c, struct arena *a, struct snapshot_row *ret,
		      struct err *e);

/* The reference of a record: TEXT, or, in those of earlier versions, LAYERS, of which the native runtime's references are made. Both
 * may be missing: *ret is NULL. ERR_INVALID. */
#define ROW_LAYERS_MAX 127
int row_reference_load(const char *text, const struct string_list *layers, struct arena *a, const char **ret, struct err *e);
