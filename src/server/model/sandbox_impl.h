// SPDX-License-Identifier: Apache-2.0
/* server/model/sandbox_impl.h - what the sandbox*.c and op_*.c files share. Nothing else includes it. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/map.h"
#include "base/random.h"
#include "image/reference.h"
#include "net/loop.h"
#include "server/model/op.h"
#include "server/model/sandbox.h"
#include "server/model/volumes.h"
#include "server/store/store.h"

#define COMPARE_MS 200  /* between two looks at a runtime that is back, while changes are in progress */
#define SWEEP_MS 3600000 /* for idempotency keys that have aged */
#define BOX_ARENA_MAX ((size_t)4 * 1024 * 1024)

#define LOST_REASON "CONTAINER_LOST" /* of one that is gone, and nobody saw how */

struct box { /* a sandbox, and what only the model knows of it */
	struct sandbox pub;
	char id[ID_MAX + 1], pool[ID_MAX + 1];
	char key[SHA256_HEX_LEN + 1]; /* that it was asked for with, if there still is such a key for it; or empty */
	char reason[ROW_REASON_MAX + 1], message[ROW_MESSAGE_MAX + 1];
	char digest[DIGEST_TEXT_MAX + 1]; /* of its image */
	struct arena arena;
	struct arena stack; /* of struct box_stack */
	struct labels *labels;
	struct sandbox_event *newest_event;
	struct timer expiry;
	struct op_queue queue;
	bool is_remove_logged; /* the store knows that it is to go */
	bool is_unrecorded;    /* the store never knew of it */
	bool is_dirty;         /* the store lags behind: its state is written again when it can be */
	bool is_saving;
	uint64_t touched_ms;   /* when an access last renewed it */
	uint64_t record_revision; /* of the copy of its record that the runtime has */
	bool is_record_sent;   /* a newer one is on its way */
	bool is_record_due;    /* it failed, or has to be tried again */
};

struct key {
	char hex[SHA256_HEX_LEN + 1];
	unsigned char body[SHA256_SIZE];
	char sandbox_id[ID_MAX + 1];
	int64_t expires_us;
};

/* A box that nobody knows any more but the runtime, or the store. */
struct orphan {
	struct list_node at;
	struct sandboxes *set;
	char id[ID_MAX + 1];
	bool has_record;
	struct timer retry;
	unsigned pause_ms;
};

#define REMOVED_MAX 1024
struct removed { /* ids of the last that this process has removed, or failed to make: their end was ordered */
	char ids[REMOVED_MAX][ID_MAX + 1];
	size_t n; /* as many there ever were */
};

struct sandboxes {
	struct sandboxes_spec spec;
	struct map by_id; /* of struct box */
	size_t n_idle;    /* of them */
	struct sandbox *newest, *oldest;
	struct map keys;  /* of struct key */
	struct list orphans;
	struct list sendings; /* copies of records on their way to the runtime */
	struct recovery *recovery; /* a comparison, while records are read */
	struct removed removed;
	struct volumes *volumes;
	struct random_pool random;
	unsigned creates; /* admitted, and not over */
	unsigned char secret[SHA256_SIZE];
	bool is_new;      /* so is the database */
	bool is_new_boot;
	struct timer flush, sweep, compare;
	bool is_comparing;  /* a list is on its way */
	bool is_recovering; /* the first comparison is still to come */
	recovered_fn *recovered;
	void *recovered_arg;
};

static inline struct box *box_of(struct sandbox *sb)
{
	return container_of(sb, struct box, pub);
}

static inline struct box *box_of_op(const struct op *op)
{
	return box_of(op->queue->sandbox);
}

static inline struct runtime *box_runtime(const struct box *b)
{
	return b->pub.set->spec.runtime;
}

/* sandbox_box.c */
struct box *box_new(struct sandboxes *s, const struct sandbox_row *row, struct err *e); /* copies ROW; not in the set */
void box_free(struct box *b);
int box_link(struct box *b, struct err *e);
void box_unlink(struct box *b);
void box_move(struct box *b, int64_t created_us); /* to the place in the list that this time gives it */
void box_set_idle(struct box *b, bool is_idle); /* of one in the set */
void box_arm(struct box *b); /* the timer of its expiry */
void box_set_digest(struct box *b, const char *digest); /* of its image */
struct box_stack { /* what of a row a rollback changes */
	const char *snapshot; /* or NULL */
	const char *base; /* or NULL */
	enum runtime_network network;
	const char *policy; /* or NULL */
};
int box_set_stack(struct box *b, const struct box_stack *stack, struct err *e); /* copied */
void box_set_state(struct box *b, enum sandbox_state state, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* sandbox.c */
void box_apply_end(struct box *b, const struct runtime_end *end, struct store_tx *tx); /* TX may be NULL */
void box_save(struct box *b, struct store_tx *tx); /* its state, with what TX (taken; or NULL) has; tried until it works */
void box_save_last(struct box *b, struct store_tx *tx); /* the same, by an operation that ends with it: so does its intent */
void box_lags(struct box *b);                           /* the store has not taken its state: box_save(), later */
void box_drop(struct box *b);                           /* out of the set; whoever waits is told */

/* sandbox_events.c */
/* Notes it in memory and, if there is one, in TX. */
void box_event(struct box *b, struct store_tx *tx, enum event_scope scope, const char *type, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void box_prepend_events(struct box *b, struct box *from); /* takes them */
int box_add_event(struct box *b, int64_t at_us, enum event_scope scope, const char *type, const char *message);
bool event_scope_parse(struct str name, enum event_scope *ret);
const char *event_type_known(struct str type); /* the constant, or "Event" */

/* ---- operations; op.h has the engine, and each kind its file ---- */

extern const struct op_type create_type, pause_type, resume_type, rollback_type, remove_type;

/* sandbox_volumes.c */
/* Copies what the order says of volumes into A, and claims them for ROW; and the opposite, of what was never recorded. */
int order_claim_volumes(struct sandboxes *s, const struct sandbox_order *o, struct arena *a, struct sandbox_row *row, struct fault *f);
void row_unclaim_volumes(struct sandboxes *s, const struct sandbox_row *row);
bool box_has_unmade_volumes(const struct box *b);
void box_keep_volumes(struct box *b, struct store_tx *tx); /* they are made for good, and when TX is committed: */
void box_volumes_kept(struct box *b);
size_t box_runtime_volumes(const struct box *b, struct runtime_volume ret[VOLUMES_OF_SANDBOX_MAX]);
/* Whether it could be made once more: F names a folder of the host that is not allowed any more. */
int box_check_volumes(const struct box *b, struct fault *f);
void box_release_volumes(struct box *b, struct store_tx *tx); /* volumes_release(), and when TX is committed: */
void box_volumes_released(struct box *b);

/* sandbox_keys.c */
struct key *key_find(struct sandboxes *s, const char hex[SHA256_HEX_LEN + 1]);
struct key *key_find_of(const struct sandboxes *s, const char *sandbox_id);
const struct key *key_of_box(const struct box *b); /* or NULL */
int key_add(struct sandboxes *s, const struct key *k, struct err *e);
void key_record(const struct key *k, struct store_tx *tx);
void key_forget_of(struct sandboxes *s, const char *sandbox_id, struct store_tx *tx);
void key_forget(struct sandboxes *s, const char *sandbox_id); /* in memory and, if it can be, in the store */
void keys_sweep(void *arg);
void keys_free(struct sandboxes *s);

/* sandbox_create.c */
/* What a sandbox made by this order is recorded as, but for its id and the names of its environment. */
int create_row(struct sandboxes *s, const struct sandbox_order *o, struct sandbox_row *r, struct fault *f);
struct environment { /* its values may be secrets: they are wiped */
	struct string_map map; /* for the runtime */
	struct string_list names; /* for the record */
};
int environment_copy(struct environment *env, struct arena *a, const struct string_map *from);
void environment_wipe(struct environment *env);

/* op_create.c */
void create_cancel(struct box *b); /* if one is in progress: nobody wants it any more */

/* op_pending.c */
void on_create_resolved(const char *id, const char *digest, void *arg);
void on_create_progress(const char *id, const struct runtime_progress *p, void *arg);

/* op_policy.c */
bool policy_is_unknown(const struct box *b, const struct runtime_failure *failure, struct fault *f);
bool policy_is_own(const struct box *b, struct str text); /* it says something that its network does not say */

/* op_rollback.c */
void rollback_each_reference(struct op *op, runtime_reference_fn *fn, void *arg); /* that it is about to stand on */

/* op_remove.c */
void remove_quietly(struct box *b, bool is_expiry);
void on_expiry(void *arg);

/* sandbox_orphan.c */
void orphan_remove(struct sandboxes *s, const char *id);
bool is_orphan(const struct sandboxes *s, const char *id); /* that is going on */
void orphan_forget(struct sandboxes *s, const char *id); /* gone already, but for its record */
void removed_note(struct sandboxes *s, const char *id);
bool was_removed(const struct sandboxes *s, const char *id);
void orphans_free(struct sandboxes *s);

/* sandbox_record.c */
#define RECORD_AGAIN_MS 2000
struct sandbox_record {
	struct sandbox_row row;
	struct key key; /* without digits: none */
};
bool sandbox_record_write(const struct box *b, struct buf *out); /* false: it does not fit */
bool sandbox_record_same(const struct sandbox_row *a, const struct sandbox_row *b); /* in all that records hold, but keys, which age */
int sandbox_record_load(struct str text, struct arena *a, struct sandbox_record *ret, struct err *e); /* ERR_INVALID */
void sandbox_record_changed(struct box *b); /* the store has a change of what is in the record */
void sandbox_record_done(struct op *op);     /* the same, by OP, which is done once the runtime has the copy, too */
void sandbox_record_send(struct box *b);    /* if the runtime's copy is another one */
void sandbox_records_free(struct sandboxes *s);

/* sandbox_restore.c */
struct found { /* something that the runtime has */
	struct recovery *of;
	char id[ID_MAX + 1];
	struct runtime_box box;
	struct arena arena; /* of the record */
	bool has_record;
	struct sandbox_record record;
};
struct recovery {
	struct sandboxes *set;
	void (*fn)(void *);
	struct deferred later;
	bool has_failed; /* the runtime went away meanwhile */
	bool is_asking;
	size_t next, pending;
	size_t n;
	struct found at[];
};
/* Reads the runtime's copies of the records of these; then FN is called with S, from the loop. */
int recovery_begin(struct sandboxes *s, const struct runtime_box *boxes, size_t n, void (*fn)(void *), struct err *e);
int recovery_restore(struct sandboxes *s, struct err *e); /* afterwards each of them has a record, the one that is right */
void recovery_free(struct sandboxes *s);

/* sandbox_recover.c */
void sandboxes_changed(const char *id, enum runtime_state state, void *arg); /* as struct runtime_events has it */
void sandboxes_compare(void *arg); /* with what the runtime has, once more: it may have changed without our knowing */
struct box *box_load(struct sandboxes *s, const struct sandbox_row *row, struct err *e); /* in the set */
int sandboxes_load(struct sandboxes *s, enum store_fault *ret_fault, struct err *e);
