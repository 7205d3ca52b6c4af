// SPDX-License-Identifier: Apache-2.0
/* server/runtime/completion.h - the completions of runtime.h as one type, and calls that are refused before they begin.
 *
 * A completion never comes during the call that it belongs to, also when there is no memory left to remember the call with. For
 * that case a runtime has a struct refusals, whose memory it takes when it is made. */
#pragma once
#include "base/sha256.h"
#include "net/loop.h"
#include "server/runtime/runtime.h"

struct err;

/* Of a layer as an uncompressed tar: its digest. */
typedef void runtime_packed_fn(const unsigned char digest[SHA256_SIZE], const struct runtime_failure *failure, void *arg);

/* Of a list of layers of snapshots. */
struct runtime_layer_found {
	const char *name;
	bool has_record;
};
typedef void runtime_layers_fn(const struct runtime_layer_found *layers, size_t n, const struct runtime_failure *failure, void *arg);

enum completion_kind {
	COMPLETION_NONE, /* nobody waits */
	COMPLETION_DONE,
	COMPLETION_DIAL,
	COMPLETION_TEXT,
	COMPLETION_INFO,
	COMPLETION_STATS,
	COMPLETION_LIST,
	COMPLETION_SNAPSHOT,
	COMPLETION_NAMES,
	COMPLETION_SNAPSHOTS,
	COMPLETION_PACKED, /* this one and the next: within a runtime */
	COMPLETION_LAYERS,
	COMPLETION_IMAGE,
	COMPLETION_IMAGES,
	COMPLETION_PARTS,
};

struct completion {
	enum completion_kind kind;
	union {
		runtime_done_fn *done;
		runtime_dial_fn *dial;
		runtime_text_fn *text;
		runtime_info_fn *info;
		runtime_stats_fn *stats;
		runtime_list_fn *list;
		runtime_snapshot_fn *snapshot;
		runtime_names_fn *names;
		runtime_snapshots_fn *snapshots;
		runtime_packed_fn *packed;
		runtime_layers_fn *layers;
		runtime_image_fn *image;
		runtime_images_fn *images;
		runtime_parts_fn *parts;
	} fn;
	void *arg;
};

#define COMPLETION_OF(name, KIND) \
	static inline struct completion completion_##name(runtime_##name##_fn *fn, void *arg) \
	{ \
		return (struct completion){ .kind = COMPLETION_##KIND, .fn.name = fn, .arg = arg }; \
	}
COMPLETION_OF(done, DONE)
COMPLETION_OF(dial, DIAL)
COMPLETION_OF(text, TEXT)
COMPLETION_OF(info, INFO)
COMPLETION_OF(stats, STATS)
COMPLETION_OF(list, LIST)
COMPLETION_OF(snapshot, SNAPSHOT)
COMPLETION_OF(names, NAMES)
COMPLETION_OF(snapshots, SNAPSHOTS)
COMPLETION_OF(packed, PACKED)
COMPLETION_OF(layers, LAYERS)
COMPLETION_OF(image, IMAGE)
COMPLETION_OF(images, IMAGES)
COMPLETION_OF(parts, PARTS)
#undef COMPLETION_OF

void completion_fail(const struct completion *c, const struct runtime_failure *failure); /* calls it, at once */

/* ---- refusals ---- */

#define REFUSALS_MAX 16384 /* in one turn of the loop; with more of them the program ends, as it must not forget one */

struct refusal {
	struct completion completion;
	const struct runtime_failure *failure;
};

struct refusals {
	struct loop *loop;
	struct deferred later;
	struct refusal *items;
	size_t n;
};

int refusals_init(struct refusals *r, struct loop *l, struct err *e);
void refusals_done(struct refusals *r); /* without calling anybody; fine without init */
/* C fails in the next turn of the loop. Allocates nothing. FAILURE is a constant; NULL: a COMPLETION_DONE succeeds. */
void refuse(struct refusals *r, const struct completion *c, const struct runtime_failure *failure);
void refusals_forget(struct refusals *r, const void *arg); /* those to ARG */
