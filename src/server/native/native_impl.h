// SPDX-License-Identifier: Apache-2.0
/* server/native/native_impl.h - what the files of this folder share. Nothing else includes it. */
#pragma once
#include "base/err.h"
#include "base/map.h"
#include "base/own.h"
#include "base/sha256.h"
#include "box/wire.h"
#include "net/loop.h"
#include "server/native/native.h"
#include "server/runtime/completion.h"
#include "server/runtime/runtime.h"
#include "sys/message_queue.h"

#if defined(__x86_64__)
#define NATIVE_ARCH "amd64"
#else
#define NATIVE_ARCH "arm64"
#endif

struct exporting;
struct image_call;
struct image_create;
struct native;
struct passed;
struct buf;
struct denials_watch;
struct egress_ask;
struct pulled_image;
struct pulled_layer;
struct puller;
struct store;
enum store_fault;

/* One request to the warden that has not been answered, or whose completion waits for the loop. */
struct call {
	struct call *prev, *next;
	struct native *n;
	uint64_t serial;
	enum wire_call kind;
	struct completion done;
	struct timer timer;
	struct deferred later;
	struct err failure; /* of one that could not be asked */
	unsigned port;
	struct dial *dialing;
	char id[WIRE_ID_SIZE];  /* of a sandbox that is dialled, for another try */
	struct timer retry;
	unsigned retry_ms;      /* 0: there was none yet */
	uint64_t busy_until_ms; /* then it is told that too many wait */
	struct runtime_log_query query;
	unsigned char layer[DIGEST_NAME_SIZE]; /* that is dropped */
	struct wire_reply *rows;
	size_t n_rows, cap_rows;
};

struct native {
	struct runtime rt;
	struct loop *loop;
	const struct string_pair *images;
	size_t n_images;
	const char *default_image;
	const struct string_list *host_paths;
	char path[108];
	int fd;
	struct io io;
	struct timer again;
	bool was_away; /* it was connected before */
	uint64_t serial;
	struct call *calls;
	struct refusals refusals; /* calls that there is no memory for */
	struct message_queue unsent; /* messages that wait for room */
	/* images of registries */
	struct puller *puller; /* NULL: there are none */
	bool owns_puller;
	struct image_create *image_creates;
	struct image_call *image_calls;
	struct exporting *exports;
	struct snapshot_set {
		struct map layers;
		struct adoption *adoption;
		struct timer sweep, look;
		uint64_t look_ms;     /* the pause before the next look */
		bool is_sweep_due;    /* soon */
		bool is_known;        /* what there is */
		struct completion asked; /* who wants to know it */
		bool leaves_unknown;
	} snapshots;
	const char *scratch_dir;
	struct map layers; /* names of those that the warden has, each its own value */
	bool are_layers_known;
	struct timer layer_sweep;
	unsigned layer_sweeps;
	size_t sweep_at;
	/* networks */
	char egress_path[108]; /* the socket of egress; empty: there is none */
	struct egress_ask *asks;
	struct denials_watch *denials;
};

extern const struct runtime_failure native_no_memory;

static inline struct native *native_of(struct runtime *rt)
{
	return container_of(rt, struct native, rt);
}

/* call.c. NULL: out of memory, and DONE will be told so. */
struct call *native_call_new(struct runtime *rt, enum wire_call kind, struct completion done);
void native_refuse(struct native *n, struct completion done); /* DONE is told, later, that there is no memory */
void native_call_send(struct call *c, const char *id, struct wire_request *rq, int fd); /* FD -1: none */
/* SIZE: of the request with what comes behind it. */
void native_call_send_all(struct call *c, const char *id, struct wire_request *rq, size_t size, const int *fds, size_t n_fds);
void native_dialed(struct transport *t, const struct err *e, void *arg); /* ARG is the call: completes it */
void native_call_simple(struct runtime *rt, enum wire_call kind, const char *id, runtime_done_fn *fn, void *arg); /* all of it */
void native_call_free(struct call *c);
void native_call_fail(struct call *c, const struct err *e); /* completes it */
void native_call_fail_later(struct call *c); /* with c->failure */
enum runtime_state native_state_of(uint32_t state); /* an enum wire_state */
struct runtime_end native_end_of(const struct wire_ending *w);

struct wire_request native_request(const struct runtime_spec *spec, uint32_t image); /* for a create, without its volumes */

/* spec.c */
struct native_config { /* what an image says of the programs that are run from it */
	struct string_list env; /* "K=V" */
	const char *workdir, *user; /* NULL: nothing */
};
/* IMAGE may be NULL. Returns the sealed descriptor. */
int native_spec_make(const struct runtime_spec *spec, const struct native_config *image, struct err *e);

/* image.c */
void native_image_create(struct native *n, const struct runtime_spec *spec, runtime_done_fn *fn, void *arg);
void native_image_cancel(struct runtime *rt, const char *id);
void native_layers_changed(struct native *n); /* they are known now: who waited for that goes on */
bool native_layer_is_wanted(const struct native *n, const unsigned char name[DIGEST_NAME_SIZE]);
void native_images_done(struct native *n);

/* images.c */
void native_images(struct runtime *rt, runtime_images_fn *fn, void *arg);
void native_image_remove(struct runtime *rt, const char *uri, runtime_done_fn *fn, void *arg);
void native_image_pull(struct runtime *rt, const struct runtime_image_order *o, runtime_image_progress_fn *progress, runtime_image_fn *fn,
		       void *arg);
int native_image_load(struct runtime *rt, const struct runtime_image_load *o, int *ret_pipe, runtime_images_fn *fn, void *arg,
		      struct err *e);
void native_image_save(struct runtime *rt, const struct runtime_image_order *o, runtime_parts_fn *fn, void *arg);
void native_image_forget(struct runtime *rt, void *arg);
int native_check_room(struct runtime *rt, struct err *e);
int native_open(struct runtime *rt, struct store *s, enum store_fault *ret_fault, struct err *e);
void native_image_calls_done(struct native *n);

/* export.c */
void native_snapshot_export(struct runtime *rt, const struct runtime_export *o, runtime_parts_fn *fn, void *arg);
void native_exports_done(struct native *n);

/* layers.c */
int native_layers_open(struct native *n, struct err *e);
void native_layers_done(struct native *n);
void native_layers_ask(struct native *n); /* the warden is there, and may have others than the last one */
bool native_layer_is_there(const struct native *n, const unsigned char name[DIGEST_NAME_SIZE]);
bool native_has_layers(const struct native *n, const struct pulled_image *image); /* all of them */
void native_layer_note(struct native *n, const unsigned char name[DIGEST_NAME_SIZE]);
void native_layer_add(struct native *n, const struct pulled_layer *layer, int blob, runtime_done_fn *fn, void *arg);
void native_answer_layers(struct call *c, const struct wire_reply *rp);
void native_answer_drop(struct call *c);
/* Of a snapshot or of an image (the other is NULL), into FD, an empty file, of which DISK_MAX bytes are on the disk at most. */
void native_pack(struct native *n, const char *snapshot, const unsigned char *blob, int fd, uint64_t disk_max, runtime_packed_fn *fn,
		 void *arg);
void native_answer_packed(struct call *c, const struct wire_layer *layer);

/* snapshot.c */
#define NATIVE_LAYER_LEN 32
/* The first name of a reference; *at is the rest then. False: there is none. */
bool native_next_layer(const char **at, char name[NATIVE_LAYER_LEN + 1]);
size_t native_count_layers(const char *reference); /* NULL is fine */
int native_add_layers(struct wire_request *rq, const char *reference, struct err *e); /* behind those that RQ has; NULL is fine */
int native_snapshot_reference(struct runtime *rt, const char *id, const char *base, struct buf *ret, struct err *e);
bool native_snapshot_is_below(struct runtime *rt, const char *reference, const char *other);
void native_snapshot(struct runtime *rt, const char *id, const char *reference, runtime_snapshot_fn *fn, void *arg);
void native_layer_remove(struct native *n, const char *layer, runtime_done_fn *fn, void *arg); /* ERR_CONFLICT: a sandbox stands on it */
void native_list_layers(struct native *n, runtime_layers_fn *fn, void *arg);
void native_volumes(struct runtime *rt, runtime_names_fn *fn, void *arg);
void native_answer_snapshot(struct call *c, const struct wire_snapshot *w);
void native_answer_names(struct call *c, const struct wire_reply *rp);

/* collect.c */
int native_collect_open(struct native *n, struct err *e);
void native_collect_done(struct native *n);
int native_collect_note(struct native *n, const char *name); /* a layer of this name is there, or will be; -1: no memory */
void native_snapshot_remove(struct runtime *rt, const char *reference, runtime_done_fn *fn, void *arg);
void native_snapshots(struct runtime *rt, bool leaves_unknown, runtime_snapshots_fn *fn, void *arg);
void native_snapshots_released(struct runtime *rt);
bool native_is_stranger(const struct native *n, const char *name); /* a layer that is left alone */
void native_leave_alone(struct native *n, const char *name);

/* adopt.c */
struct layer_found {
	char name[NATIVE_LAYER_LEN + 1];
	bool has_record;
	bool is_unknown; /* it has one, but none is recorded that it is the uppermost layer of */
};
struct adoption {
	struct native *n;
	void (*fn)(struct adoption *a);
	struct runtime_failure failure; /* the warden went away meanwhile; else without a code */
	size_t next, n_found;
	struct layer_found found[];
};
void native_snapshot_record_set(struct runtime *rt, const char *reference, struct str record, runtime_done_fn *fn, void *arg);
/* What of LAYERS has a record and is unknown is told, or left alone; then FN is called, perhaps at once. -1: no memory. The adoption
 * stays until the next one, or the end. */
int native_adopt(struct native *n, const struct runtime_layer_found *layers, size_t n_layers, void (*fn)(struct adoption *a));

/* queue.c */
/* Leaves when there is room; the descriptors stay the caller's, too. */
int native_queue(struct native *n, const void *bytes, size_t size, const int *fds, size_t n_fds, struct err *e);
void native_queue_flush(struct native *n);
void native_queue_drop(struct native *n); /* nobody is there any more */

/* network.c */
enum wire_network native_network(const struct runtime_spec *spec);
int native_policy_make(const struct runtime_spec *spec, struct err *e); /* its text in a sealed descriptor */
void native_dial_egress(struct call *c);
void native_policy(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg);
void native_activity(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg);
void native_network_done(struct native *n);

/* denials.c */
int native_denials_open(struct native *n, struct err *e);
void native_denials_done(struct native *n);

/* volume.c */
void native_create_send(struct call *c, const struct runtime_spec *spec, const struct wire_request *rq, int fd); /* with its volumes */
bool native_is_volume_fault(const struct err *e, struct runtime_failure *f); /* of a create: fills F then */
bool native_is_network_fault(const struct native *n, const struct err *e, struct runtime_failure *f); /* likewise */
void native_volume_make(struct runtime *rt, const char *id, uint64_t limit_bytes, runtime_done_fn *fn, void *arg);
void native_volume_remove(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg);

/* look.c */
bool native_more_rows(struct call *c); /* there is room for one more */
void native_list(struct runtime *rt, runtime_list_fn *fn, void *arg);
void native_answer_list(struct call *c, const struct wire_reply *rp);
void native_logs(struct runtime *rt, const char *id, const struct runtime_log_query *query, runtime_text_fn *fn, void *arg);
void native_inspect(struct runtime *rt, const char *id, runtime_info_fn *fn, void *arg);
void native_stats(struct runtime *rt, const char *id, runtime_stats_fn *fn, void *arg);
void native_answer_logs(struct call *c, const struct passed *got);
void native_answer_inspect(struct call *c, const struct wire_reply *rp);
void native_answer_stats(struct call *c, const struct wire_stats *w);

/* record.c */
void native_record_set(struct runtime *rt, const char *id, struct str record, runtime_done_fn *fn, void *arg);
void native_record_get(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg);
/* Of a snapshot, by the name of its layer. */
void native_layer_record_set(struct runtime *rt, const char *layer, struct str record, runtime_done_fn *fn, void *arg);
void native_layer_record_get(struct runtime *rt, const char *layer, runtime_text_fn *fn, void *arg);
void native_answer_record(struct call *c, const struct passed *got);
