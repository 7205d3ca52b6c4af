// SPDX-License-Identifier: Apache-2.0
/* server/store/row.h - the record of a sandbox, and its database row.
 *
 * After a crash or a manual change a row may contain anything, so loaded rows are validated like requests. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/str.h"
#include "server/runtime/runtime.h"
#include "server/store/row_volume.h"

struct arena;
struct buf;
struct err;

enum sandbox_state {
	SANDBOX_PENDING,
	SANDBOX_RUNNING,
	SANDBOX_PAUSING,
	SANDBOX_PAUSED,
	SANDBOX_RESUMING,
	SANDBOX_STOPPING,
	SANDBOX_TERMINATED,
	SANDBOX_FAILED,
	SANDBOX_STATES,
};
const char *sandbox_state_name(enum sandbox_state s); /* "Pending", ... as clients know them */
bool sandbox_state_parse(struct str name, enum sandbox_state *ret);

enum sandbox_intent {
	INTENT_NONE,
	INTENT_CREATE,
	INTENT_PAUSE,
	INTENT_RESUME,
	INTENT_REMOVE,
	INTENT_ROLLBACK,
	SANDBOX_INTENTS,
};
const char *sandbox_intent_name(enum sandbox_intent i); /* "create", ... */

#define ROW_REASON_MAX 64
#define ROW_MESSAGE_MAX 400
#define ROW_IMAGE_MAX 1024
#define ROW_ARGS_MAX 256
#define ROW_ENV_MAX 256
#define ROW_SPEC_MAX ((size_t)3 * 1024 * 1024) /* bytes of the document */
#define ROW_METADATA_MAX ((size_t)64 * 1024)

#define ROW_PORTS_MAX 8

/* A port of the sandbox that a port of the host leads to. */
struct row_port {
	unsigned inside, host;
};

struct sandbox_row {
	const char *id;
	const char *image;
	/* of its manifest: what the name meant when it was made; NULL: not known, or it has none */
	const char *image_digest;
	const char *snapshot;         /* that it was made from or rolled back to; NULL: the image alone */
	const char *base;             /* the runtime's reference of the snapshot that it stands on; NULL: none */
	struct string_list entrypoint;
	/* the values are nobody's business once it runs, and are kept nowhere */
	struct string_list env_names;
	const char *os, *arch;        /* NULL: the request named no platform */
	struct runtime_limits limits;
	const struct row_volume *volumes;
	size_t n_volumes;
	enum runtime_network network;
	/* that it was made with, as text, if it has one; what it is now egress knows */
	const char *policy;
	int64_t renew_s;              /* what an access extends the life by; 0: nothing */
	bool is_secure;               /* who comes in needs its token, or a signed route */
	struct row_port ports[ROW_PORTS_MAX];
	size_t n_ports;
	struct string_map metadata;
	int64_t created_us;           /* wall clock */
	int64_t expires_us;           /* wall clock; 0: never */
	uint64_t deadline_ms;         /* the same on the boot-time clock of that boot; this is what counts */
	enum sandbox_state state;
	const char *reason, *message;
	int64_t changed_us;
	enum sandbox_intent intent;
	/* of all but the state, the reason, the message and the intent: higher with each change */
	uint64_t revision;
	const char *pool;             /* the id of the pool that it was made for; NULL or empty: none */
	bool is_idle;                 /* nobody's yet: it waits in that pool */
};

const char *row_network_name(enum runtime_network n); /* "none", "default" or "policy" */

/* The columns as they are stored. */
struct row_columns {
	struct str id, spec, metadata, state, reason, message;
	struct str intent; /* empty: none */
	int64_t created_us, expires_us, deadline_ms, changed_us, revision;
};

bool row_write_spec(const struct sandbox_row *r, struct buf *b);
bool row_write_metadata(const struct string_map *m, struct buf *b);

/* Everything is copied into A. ERR_INVALID: "sandbox 'ab12': ..." */
/* Parts of it that other rows have, too. */
bool row_is_instant(int64_t us);
bool row_digest_valid(const char *text);
int row_load_text(struct str s, size_t max, const char *what, struct arena *a, const char **ret,
		  struct err *e);

int row_load(const struct row_columns *c, struct arena *a, struct sandbox_row *ret, struct err *e);
