// SPDX-License-Identifier: Apache-2.0
/* server/model/sandbox.h - the sandboxes of this server: what states they are in, and what may be done to them when.
 *
 * Memory is what is read, the store what survives. A change is an intent in the store, then what the runtime does, then
 * a commit, and only then good news for whoever asked (S2). Changes of one sandbox happen one after the other, in the order
 * in which they were asked for; one that asks to remove it comes before all that wait. Lives end by the boot-time clock
 * (S7); what clients read is wall-clock time.
 *
 * All callbacks come from the loop, never from the functions below, and exactly once; sandboxes_free() alone calls those
 * that are still owed, with 503. A pointer to a sandbox is good until the callback that it was looked up in returns. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/uuid.h"
#include "server/runtime/runtime.h"
#include "server/store/labels.h"
#include "server/store/row.h"

struct err;
struct loop;
struct sandbox;
struct sandboxes;
struct store;

#define SANDBOXES_MAX 65536
#define SANDBOX_TASKS_MAX 256         /* changes of one sandbox that wait */
#define SANDBOX_CREATE_MS 600000      /* a create that takes longer has failed; without progress, where there is any */
#define SANDBOX_ANSWER_MS 20000       /* a create whose image takes longer is told as Pending, and goes on */
#define SANDBOX_KEYS_MAX 65536
#define SANDBOX_KEY_LIFE_US (INT64_C(24) * 3600 * 1000000)
#define SANDBOX_TOKEN_LEN SHA256_HEX_LEN

/* ---- what a client is told when something is refused or fails ---- */

struct fault {
	unsigned status;
	unsigned retry_s; /* 0: no Retry-After */
	char code[80];
	char message[400];
};
/* PREFIX NULL: the code stands alone. Returns -1. */
int fault_set(struct fault *f, unsigned status, const char *prefix, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
int fault_of_store(struct fault *f, const struct err *e); /* 507 or 503 */
int fault_of_runtime(struct fault *f, const struct runtime *rt, const struct runtime_failure *failure);

/* ---- the set ---- */

typedef int64_t wall_fn(void *arg); /* microseconds since 1970 */

struct sandboxes_spec {
	struct loop *loop;
	struct runtime *runtime; /* not owned; must outlive the set, without a turn of the loop in between */
	struct store *store;     /* the same; opened, not started: the set loads it and starts it */
	const char *boot_id;     /* of this boot of the host */
	const struct string_list *host_paths; /* folders that may be volumes, as the runtime numbers them; NULL: none */
	unsigned creates_max;    /* in progress; one more is refused with 429 */
	wall_fn *wall_us;        /* NULL: the clock */
	void *wall_arg;
	/* A sandbox is about to go: its user data goes with it. Or NULL. */
	void (*gone)(struct sandbox *sb, void *arg);
	/* It has ended by itself. Or NULL. */
	void (*ended)(struct sandbox *sb, void *arg);
	/* The runtime tells of a denial. Or NULL. */
	void (*denied)(const struct runtime_denial *d, void *arg);
	/* One that nobody knew of is there, while the server runs. Or NULL. */
	void (*found)(struct sandbox *sb, void *arg);
	void *gone_arg; /* of all four */
};

enum store_fault;
struct sandboxes *sandboxes_new(const struct sandboxes_spec *spec, enum store_fault *ret_fault, struct err *e);
void sandboxes_free(struct sandboxes *s); /* NULL is fine */
DEFINE_AUTO(struct sandboxes *, sandboxes_free)

/* Compares what the records say with what the runtime has: adopts what is alive, finishes or rolls back what was cut
 * off, removes the rest. To be called once, before the first request. E is NULL when the set is ready; ERR_INVALID when
 * sandboxes run that a new database cannot know. */
typedef void recovered_fn(const struct err *e, void *arg);
void sandboxes_recover(struct sandboxes *s, recovered_fn *fn, void *arg);

/* NULL: no such id, valid or not, or that of one that is nobody's yet. */
struct sandbox *sandboxes_find(const struct sandboxes *s, struct str id);
struct sandbox *sandboxes_find_any(const struct sandboxes *s, struct str id); /* idle ones, too */
struct sandbox *sandboxes_newest(const struct sandboxes *s);              /* by creation time, then sandbox->older */
size_t sandboxes_count_owned(const struct sandboxes *s); /* without those that are nobody's yet */
unsigned sandboxes_creating(const struct sandboxes *s); /* how many are being made at the moment */
int64_t sandboxes_wall_us(const struct sandboxes *s);

/* ---- one sandbox ---- */

enum event_scope { EVENT_LIFECYCLE, EVENT_CONTAINER, EVENT_RUNTIME, EVENT_SCOPES };
const char *event_scope_name(enum event_scope s); /* "lifecycle", ... */

struct sandbox_event {
	struct sandbox_event *next; /* newer */
	int64_t at_us;
	enum event_scope scope;
	const char *type;
	char message[];
};

/* To be read only, but for `user` and `member`. */
struct sandbox {
	struct sandboxes *set;
	struct sandbox_row row;
	struct sandbox *older, *newer;
	struct sandbox_event *oldest_event;
	size_t n_events;
	struct runtime_snapshot made; /* how the last snapshot of it went */
	struct str policy_now; /* during the completion of sandbox_read_policy() alone */
	bool has_end; /* it has ended, and that is how */
	struct runtime_end end;
	void *user;
	void *member; /* the pools' */
};

/* A token for what answers on PURPOSE ("execd", "egress", "access": the sandbox as a whole) of this sandbox: the same after a restart, kept nowhere. */
void sandbox_token(const struct sandbox *sb, const char *purpose, char out[SANDBOX_TOKEN_LEN + 1]);

bool sandbox_can_be_called(const struct sandbox *sb); /* Running: requests may go in */


/* ---- changes ---- */

struct volumes;
struct volumes *sandboxes_volumes(const struct sandboxes *s);

struct sandbox_order {
	const char *image;
	const char *image_digest;  /* of what it is made from; NULL: whatever the image's name means now */
	const char *snapshot;      /* that it is made from; NULL: none that clients know of */
	const char *base;          /* the reference of the snapshot that it stands on */
	struct string_list entrypoint; /* as it is run */
	struct string_map env, metadata;
	const char *os, *arch; /* NULL: not asked for */
	const char *username, *password; /* for the image's registry, or NULL; kept nowhere */
	struct runtime_limits limits;
	int64_t timeout_s; /* 0: lives until it is deleted */
	const struct row_volume *volumes; /* without what volumes_claim() finds out */
	const uint64_t *volume_sizes;     /* of each: 0 for none */
	size_t n_volumes;
	enum runtime_network network;
	const char *policy; /* its text, with RUNTIME_NET_POLICY */
	bool inherits;     /* of a fork: the network is what its source has by then */
	int64_t renew_s;   /* 0: accesses do not extend its life */
	bool is_secure;    /* who comes in needs its token, or a signed route */
	struct row_port ports[ROW_PORTS_MAX]; /* that ports of the host lead to */
	size_t n_ports;
	const char *const *ignored; /* keys of the request that nobody knew */
	size_t n_ignored;
	struct str key;             /* Idempotency-Key; empty: none */
	unsigned char body[SHA256_SIZE]; /* digest of the request */
	const char *pool, *pool_name;    /* the id and name of the pool that it is made for; NULL: none */
	bool is_idle;                    /* for nobody yet */
};

/* SB is NULL on failure, and when it has been removed. */
typedef void sandbox_fn(struct sandbox *sb, const struct fault *f, void *arg);

/* 0: FN will be told how the making of *ret ends, or that it is Pending still, and then it is to be looked at. 1: *ret is there already, made with the same key; FN will not be
 * called. -1: F. */
int sandboxes_create(struct sandboxes *s, const struct sandbox_order *order, sandbox_fn *fn, void *arg,
		     struct sandbox **ret, struct fault *f);

/* What sandboxes_create() would answer to ORDER's key: its 0, 1 or -1; 2: there is no key, or nobody has used it. */
int sandboxes_replay(struct sandboxes *s, const struct sandbox_order *order, sandbox_fn *fn, void *arg,
		     struct sandbox **ret, struct fault *f);

/* Gives an idle sandbox to whoever ORDER speaks for, in one transaction: metadata, expiry, creation time, renewal, platform and
 * key are the order's from then on. On failure it is idle still, unless it has ended, and then it is removed.
 * 0: FN will be told. -1: F. */
int sandbox_hand_out(struct sandbox *sb, const struct sandbox_order *order, sandbox_fn *fn, void *arg, struct fault *f);

/* 0: FN (or NULL) will be told. -1: F, there are too many waiting. */
int sandbox_pause(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f);
int sandbox_resume(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f);
int sandbox_remove(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f);
void sandbox_discard(struct sandbox *sb); /* removes it; nobody waits for it, and what fails is tried again */
int sandbox_renew(struct sandbox *sb, int64_t expires_us, sandbox_fn *fn, void *arg, struct fault *f);
int sandbox_patch(struct sandbox *sb, const struct label_change *changes, size_t n, sandbox_fn *fn, void *arg,
		  struct fault *f);

/* Makes the snapshot REFERENCE of what it has now; it may run or be paused. 409 otherwise, with a code of snapshots;
 * 504 when it took too long. */
int sandbox_snapshot(struct sandbox *sb, const char *reference, sandbox_fn *fn, void *arg, struct fault *f);
/* Ends its processes, throws away what it has changed, and starts it anew on the snapshot SNAPSHOT. It keeps its id,
 * its metadata, its expiry and its tokens. Values of its environment are kept nowhere: ENV are those that it has from now
 * on. It may also have ended before. Cut off after its beginning, it is done again, without ENV, by the next start. */
int sandbox_rollback(struct sandbox *sb, const char *snapshot, const char *reference, const struct string_map *env,
		     sandbox_fn *fn, void *arg, struct fault *f);

/* What it may reach by now is sb->policy_now; empty: nobody keeps a policy for it, or it has no other than its network alone says. */
int sandbox_read_policy(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f);

/* Of every snapshot that a sandbox stands on, or is about to: some more than once. */
void sandboxes_each_reference(const struct sandboxes *s, runtime_reference_fn *fn, void *arg); /* as struct runtime_users has it */

/* Whether one stands on the image with this manifest, or is about to. */
bool sandboxes_have_image(const struct sandboxes *s, const char *digest);
bool sandboxes_have_snapshot(const struct sandboxes *s, const char *id); /* one was made from it, or from one that was */

/* Somebody used it: extends its life if it was made so, at most once in INTERVAL_S. */
void sandbox_touch(struct sandbox *sb, int64_t interval_s);
