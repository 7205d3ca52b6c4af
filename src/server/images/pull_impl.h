// SPDX-License-Identifier: Apache-2.0
/* server/images/pull_impl.h - what the files of the puller share.
 *
 * pull.c takes orders and has the jobs; pull_job.c has the conversation of a job with its fetcher; pull_image.c
 * images, pull_catalogue.c those that are present. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "image/fetch.h"
#include "net/loop.h"
#include "server/config/config.h"
#include "server/images/pull.h"

/* The supervisor starts sixteen fetchers at most. Slow registries must not keep others from what is there already: questions about
 * that have some to themselves, and so have errands. */
#define PULL_JOBS_AT_ONCE 11
#define PULL_CHECKS_MORE 3

struct json_out;

/* ---- the catalogue ---- */

struct image { /* pub.name is whole */
	struct image *prev, *next;
	unsigned refs;
	struct arena arena; /* of all that pub points to */
	struct pulled_image pub;
	struct digest digest;
	struct str manifest, config;
	size_t bytes; /* of memory */
};

/* From what a fetcher, or the store, says. ERR_INVALID: it does not fit together. */
struct image *image_new(const struct store_image *from, struct err *e);
struct image *image_ref(struct image *im);
void image_unref(struct image *im); /* NULL is fine */
DEFINE_AUTO(struct image *, image_unref)
void image_write(const struct image *im, struct store_tx *tx);
struct image *image_without_name(const struct image *im, struct err *e); /* the same, kept, known by its digest */

struct image_list {
	struct image *first, *last;
	size_t n, bytes;
};
void image_list_add(struct image_list *l, struct image *im);
void image_list_remove(struct image_list *l, struct image *im); /* and lets go of it */
struct image *image_list_find(const struct image_list *l, const char *name, const char *os, const char *arch);

/* ---- jobs ---- */

enum job_state {
	JOB_QUEUED,
	JOB_ASKING,     /* a fetcher works on it */
	JOB_COMMITTING, /* what it found is being written */
};

struct pull_job {
	struct pull_job *prev, *next; /* oldest first */
	struct puller *p;
	struct pull *waiting; /* who hears of it; NULL with JOB_COMMITTING: nobody any more */
	enum job_state state;
	/* what is wanted */
	struct reference ref;
	char name[REFERENCE_TEXT_MAX + 1]; /* of it, whole */
	char *os, *arch, *username, *password;
	unsigned char credentials[SHA256_SIZE]; /* of both: equal ones share a job */
	bool refresh, with_blobs, is_kept;
	/* how far it is */
	bool is_check; /* of an image that is there, which has this digest */
	struct digest checked;
	struct image *found;
	bool is_want_due; /* the fetcher waits to hear which layers of it are wanted */
	struct pull_progress progress;
	struct conversation {
		int fd; /* -1: none */
		struct io io;
		struct timer timer;
	} talk;
	struct err outcome; /* of what failed where it could not end */
	bool is_ending;     /* who waited is being told */
};

struct load_job {
	struct load_job *prev, *next;
	struct puller *p;
	char *name;
	int archive; /* to read from; -1: the fetcher has it */
	bool is_kept, is_begun, is_committing;
	struct conversation talk;
	struct image *found[LAYOUT_IMAGES_MAX];
	size_t n_found;
	load_done_fn *done;
	void *arg;
};

struct errand { /* a sweep, of which there is one at a time */
	bool is_wanted, is_running;
	struct conversation talk;
};

struct puller {
	struct puller_spec spec;
	char *socket; /* of it */
	struct store *store;
	int blobs; /* the folder */
	struct pull_job *jobs, *last_job;
	struct load_job *loads;
	size_t n_orders, n_active;
	struct image_list images;
	image_used_fn *used;
	void *used_arg;
	struct map given; /* digests of layers that the runtime has: each is its own value */
	struct errand sweep;
	struct deferred schedule;
};

/* pull.c */
void job_end(struct pull_job *j, const struct err *e); /* from the loop: tells everybody, frees it */
void job_told(struct pull_job *j);                      /* j->progress has changed */
void puller_wake(struct puller *p);                     /* there may be something to begin */
void puller_keep_names(const struct puller *p, struct json_out *o); /* the blobs that are needed, as an array of JSON */
int layer_give(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE], struct err *e); /* the runtime has it */
bool layer_is_given(const struct puller *p, const unsigned char name[DIGEST_NAME_SIZE]);

/* pull_catalogue.c */
void image_write_entry(const struct puller *p, const struct image *im, struct store_tx *tx); /* and what becomes of the one before */
void image_enter(struct puller *p, struct image *im); /* into the catalogue, in the place of one of its name and platform */
int catalogue_load(struct puller *p, enum store_fault *ret_fault, struct err *e);

/* pull_job.c */
int job_begin(struct pull_job *j, struct err *e); /* asks a fetcher; job_end() follows */
int sweep_begin(struct puller *p, struct err *e); /* p->sweep.is_running is false again when it is over */
struct passed;
/* ARCHIVE goes along, unless it is -1. */
int conversation_begin(struct conversation *t, const struct puller *p, struct buf *order, int archive, io_fn *fn, timer_fn *late,
		       void *arg, struct err *e);
int conversation_receive(const struct conversation *t, struct fetch_message *m, struct passed *passed, struct err *e);
void conversation_end(struct conversation *t);
int fetch_error(const struct fetch_message *m, struct err *e);
/* What a fetcher found; FROM has the rest. */
struct image *image_received(const struct puller *p, struct store_image *from, const struct fetch_message *m,
			     const struct passed *passed, struct err *e);

/* pull_load.c */
void loads_begin(struct puller *p);
void loads_drop(struct puller *p);
