// SPDX-License-Identifier: Apache-2.0
/* server/model/sandbox_impl.h - what the sandbox*.c files share. Nothing else includes it. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/map.h"
#include "base/random.h"
#include "image/reference.h"
#include "net/loop.h"
#include "server/model/sandbox.h"
#include "server/model/volumes.h"
#include "server/store/store.h"

#define RETRY_FIRST_MS 1000
#define RETRY_MAX_MS 30000
#define COMPARE_MS 200  /* between two looks at a runtime that is back, while changes are in progress */
#define SWEEP_MS 3600000 /* for idempotency keys that have aged */
#define BOX_ARENA_MAX ((size_t)4 * 1024 * 1024)

enum task_kind { TASK_CREATE, TASK_PAUSE, TASK_RESUME, TASK_RENEW, TASK_PATCH, TASK_SNAPSHOT, TASK_ROLLBACK, TASK_REMOVE,
		 TASK_HAND_OUT, TASK_POLICY };

/* Somebody who waits for a create that another request has begun. */
struct waiter {
	struct waiter *next;
	sandbox_fn *fn;
	void *arg;
};

struct task {
	struct task *next;
	enum task_kind kind;
	sandbox_fn *fn; /* or NULL */
	void *arg;
	struct arena arena; /* of the four below */
	struct string_map env;
	struct string_list env_names; /* of a rollback */
	const char *base; /* of a rollback, or the reference of a snapshot that is taken */
	struct label_change *changes;
	size_t n_changes;
	struct waiter *waiters;
	int64_t expires_us;
	uint64_t deadline_ms;
	struct labels *labels;
	struct hand *hand; /* of a hand-out, in the arena */
	enum sandbox_state was; /* before a removal, with its reason, message and time */
	char was_reason[ROW_REASON_MAX + 1], was_message[ROW_MESSAGE_MAX + 1];
	int64_t was_changed_us;
	/* of a create */
	const char *username, *password; /* for its image, or NULL; in the arena */
	uint64_t begun_ms, progress_ms;  /* the latter: of the last event that told of it; 0: none did */
	bool is_pulling;                 /* there was progress: it may take long */
	bool is_recording, is_told;      /* that it is Pending: the store is asked; whoever waited knows */
	unsigned noting;                 /* which image it has: as often as the store was asked and has not answered */
	bool is_unnoted;                 /* it did not take it */
	size_t next_volume;         /* those before it are made */
	bool makes_volumes;         /* which waits for the store, and the runtime for that */
	bool is_unwanted;           /* create_cancel() */
	bool is_logged, is_refused; /* the store has answered, and did not take it */
	bool is_made, has_failed;   /* the runtime has answered, and failed */
	struct runtime_failure made;
	struct fault failure; /* until its traces are gone */
	char snapshot[ID_MAX + 1];         /* of a rollback */
	const char *policy;                /* of a rollback: as it is now, in the arena; NULL: as the row has it */
	bool is_again;                     /* a rollback that an earlier server has begun */
	unsigned n_tries;                  /* of a rollback */
	bool is_expiry;  /* a removal that a renewal makes void */
	bool is_overdue; /* a create that was given up; its completion comes all the same */
};

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
	struct timer expiry, retry, watchdog;
	unsigned retry_ms;
	struct task *first, *last; /* the first is being done */
	size_t n_tasks;
	bool is_busy;          /* the first has begun */
	struct deferred kick;
	bool is_remove_logged; /* the store knows that it is to go */
	bool is_unrecorded;    /* the store never knew of it */
	bool is_dirty;         /* the store lags behind: its state is written again when it can be */
	bool is_saving;
	uint64_t touched_ms;   /* when an access last renewed it */
	uint64_t record_revision; /* of the copy of its record that the runtime has */
	bool is_record_sent;   /* a newer one is on its way */
	bool is_record_due;    /* it failed, or has to be tried again */
	bool is_finish_due;    /* the task in progress waits for it */
};

struct key {
	char hex[SHA256_HEX_LEN + 1];
	unsigned char body[SHA256_SIZE];
	char sandbox_id[ID_MAX + 1];
	int64_t expires_us;
};

/* A box that nobody knows any more but the runtime, or the store. */
struct orphan {
	struct orphan *next;
	struct sandboxes *set;
	char id[ID_MAX + 1];
	bool has_record;
	struct timer retry;
	unsigned retry_ms;
};

struct sandboxes {
	struct sandboxes_spec spec;
	struct map by_id; /* of struct box */
	size_t n_idle;    /* of them */
	struct sandbox *newest, *oldest;
	struct map keys;  /* of struct key */
	struct orphan *orphans;
	struct sending *sendings; /* copies of records on their way to the runtime */
	struct recovery *recovery; /* the first comparison, while records are read */
	struct volumes *volumes;
	struct random_pool random;
	unsigned creates; /* in progress */
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

/* sandbox.c */
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
void box_apply_end(struct box *b, const struct runtime_end *end, struct store_tx *tx); /* TX may be NULL */
void box_save(struct box *b, struct store_tx *tx); /* its state, with what TX (taken; or NULL) has; tried until it works */
/* Notes it in memory and, if there is one, in TX. */
void box_event(struct box *b, struct store_tx *tx, enum event_scope scope, const char *type, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void box_prepend_events(struct box *b, struct box *from); /* takes them */
int box_add_event(struct box *b, int64_t at_us, enum event_scope scope, const char *type, const char *message);
bool event_scope_parse(struct str name, enum event_scope *ret);
const char *event_type_known(struct str type); /* the constant, or "Event" */

/* sandbox_task.c */
int task_add(struct box *b, const struct task *t, struct fault *f); /* copies *t */
void task_free(struct task *t);
void task_done(struct task *t); /* what it holds; secrets are wiped */
void task_finish(struct box *b, const struct fault *f); /* the first: tells, and goes on with the next */
void task_stop_all(struct box *b);                      /* everybody who waits is told that the server stops */
void box_drop(struct box *b);                           /* out of the set; whoever waits is told */
int box_submit(struct box *b, struct store_tx *tx, store_done_fn *fn, struct fault *f);

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

/* sandbox_create.c */
void create_begin(struct box *b, struct task *t);
void create_overdue(void *arg);
void create_cancel(struct box *b); /* if one is in progress: nobody wants it any more */
void create_join(struct box *b); /* something that it waits for has happened */
/* What a sandbox made by this order is recorded as, but for its id and the names of its environment. */
int create_row(struct sandboxes *s, const struct sandbox_order *o, struct sandbox_row *r, struct fault *f);
struct key *key_find(struct sandboxes *s, const char hex[SHA256_HEX_LEN + 1]);
const struct key *key_of_box(const struct box *b); /* or NULL */
int key_add(struct sandboxes *s, const struct key *k, struct err *e);
void key_forget_of(struct sandboxes *s, const char *sandbox_id, struct store_tx *tx);
void key_forget(struct sandboxes *s, const char *sandbox_id); /* in memory and, if it can be, in the store */
void keys_sweep(void *arg);
void keys_free(struct sandboxes *s);

int task_copy_env(struct task *t, const struct string_map *env, struct string_list *names); /* into its arena */

/* sandbox_snapshot.c */
void snapshot_begin(struct box *b, struct task *t);
void rollback_begin(struct box *b, struct task *t);
void policy_begin(struct box *b);
void rollback_again(struct box *b); /* one that was cut off */
void rollback_go_on(struct box *b); /* its next try */

/* sandbox_pending.c */
#define PENDING_REASON "IMAGE_PULLING"
bool pending_was_told(const struct box *b); /* by an earlier server, as the record says */
void pending_tell(struct box *b);
void pending_fail(struct box *b, const char *reason, const char *message); /* one that was told; ends the task */
void pending_interrupted(struct box *b);
void on_create_resolved(const char *id, const char *digest, void *arg);
void on_create_progress(const char *id, const struct runtime_progress *p, void *arg);

/* sandbox_hand.c */
void hand_begin(struct box *b, struct task *t);

/* sandbox_remove.c */
void remove_begin(struct box *b, struct task *t);
void remove_quietly(struct box *b, bool is_expiry);
void on_expiry(void *arg);
void on_retry(void *arg);
void orphan_remove(struct sandboxes *s, const char *id);
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
void sandbox_record_finish(struct box *b);  /* the same, by the task in progress, which ends once the runtime has the copy, too */
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
