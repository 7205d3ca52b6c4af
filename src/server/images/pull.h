// SPDX-License-Identifier: Apache-2.0
/* server/images/pull.h - images of registries, from their names to files of layers: pulling, and remembering what is there.
 *
 * The work is the fetcher's (image/fetch.h). What it found is checked here once more and goes into the catalogue, in the store:
 * what is there is not pulled again. Layers come as blobs, one file each. Who has unpacked one says so, and the file goes; the
 * layer then counts as present until somebody says that it is gone. Many orders for one image are one pull.
 *
 * An image that was pulled with credentials is given only to who can have it from the registry, which is asked each time (I5). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/own.h"
#include "net/loop.h"
#include "server/store/store.h"

struct config_images;
struct puller;
struct pull_job;


#define PULL_ORDERS_MAX 4096  /* that wait at one time */
#define PULL_IMAGES_MAX 4096  /* in the catalogue */
#define PULL_CATALOGUE_MAX ((size_t)256 << 20) /* bytes of it */
#define PULL_SECRET_MAX 8192  /* of a user name, of a password */

struct pull_order {
	const char *uri;
	const char *username, *password; /* NULL: none */
	const char *os, *arch;           /* NULL: this host's */
	bool refresh;                    /* ask the registry even if the image is there: a tag may have moved */
	bool is_kept;                    /* see struct pulled_image */
	bool with_blobs;                 /* each layer is wanted as a blob, also if the runtime has it; until `done` returns */
};

struct pulled_layer {
	unsigned char name[DIGEST_NAME_SIZE]; /* of the blob, and of the layer: what all below know it by */
	struct digest digest;  /* of the blob as stored */
	struct digest diff_id; /* of the tar in it */
	uint64_t size;
};

struct pulled_image {
	const char *name, *os, *arch; /* the former whole: "docker.io/library/python:3.12" */
	const char *digest;           /* of the manifest: "sha256:...", or "sha512:..." */
	struct pulled_layer *layers;  /* lowest first */
	size_t n_layers;
	struct string_list digests;   /* of them, as they are written */
	uint64_t size;                /* of all layers */
	struct string_list env;       /* "K=V" */
	struct string_list entrypoint, cmd;
	const char *workdir, *user;   /* NULL: not said */
	bool is_private;
	bool is_kept;                 /* its name means another image now, or nothing: it is here for those who stand on it */
	int64_t pulled_us;            /* wall clock */
};

struct pull_progress {
	uint64_t bytes, total; /* total 0: not known yet */
	unsigned layers_done, layers;
	const char *phase;     /* "waiting", "resolving", "downloading", "reading" */
};

typedef void pull_progress_fn(const struct pull_progress *progress, void *arg);
/* Either of the two is NULL. The image is valid until the call returns. ERR_NOT_FOUND, ERR_DENIED, ERR_INVALID, ERR_LIMIT,
 * ERR_UNAVAILABLE or ERR_TIMEOUT, with words for the client. */
typedef void pull_done_fn(const struct pulled_image *image, const struct err *e, void *arg);

/* An order in progress, embedded in its owner. All fields are the puller's. */
struct pull {
	struct pull *prev, *next;
	struct puller *puller; /* NULL: nothing is in progress */
	struct pull_job *job;
	pull_progress_fn *progress;
	pull_done_fn *done;
	void *arg;
	struct deferred later; /* it could not even become a job */
	struct err failure;
};

struct puller_spec {
	struct loop *loop;
	const struct config_images *config; /* must outlive it */
	const char *socket, *blobs_dir;     /* where fetchers are asked, and what they leave */
	uint64_t reserve;                   /* what must stay free there; 0: see sys/room.h */
};

struct puller *puller_new(const struct puller_spec *spec, struct err *e);
void puller_free(struct puller *p); /* without calling anybody back. NULL is fine */
DEFINE_AUTO(struct puller *, puller_free)

/* Whether anything may be begun that takes room: ERR_LIMIT with ENOSPC in `sys` (L7). Pulls and loads are looked after while they go
 * on; this is for those who can still say it with a status. */
int puller_check_room(const struct puller *p, struct err *e);

/* Reads the catalogue and removes what no image needs from the folder. Once, before the store is started and before all below. */
int puller_attach(struct puller *p, struct store *s, enum store_fault *ret_fault, struct err *e);

/* DONE is called once, from the loop and never during this call, unless it is cancelled. Everything is copied. PROGRESS may
 * be NULL. */
void pull_start(struct puller *p, const struct pull_order *o, struct pull *op, pull_progress_fn *progress, pull_done_fn *done,
		void *arg);
void pull_cancel(struct pull *op); /* fine when nothing is in progress; a pull that nobody waits for ends */

/* ---- archives ---- */

#define PULL_LOAD_MS 3600000U

struct load_job;
typedef void load_done_fn(const struct pulled_image *const *images, size_t n, const struct err *e, void *arg);

struct load_order {
	const char *name; /* what the image in it is called, whatever it says; NULL: it says so */
	bool is_kept;     /* they are known by their digests alone, and are there for who stands on them when DONE returns */
};

/* The archive (see fetch/load.h) is to be written to *ret_pipe, which does not block and is the caller's to close: its end is
 * the archive's. DONE is called once, from the loop, and the job is gone then; unless it is cancelled. */
struct load_job *load_start(struct puller *p, const struct load_order *o, int *ret_pipe, load_done_fn *done, void *arg, struct err *e);
void load_cancel(struct load_job *l);

/* ---- layers ---- */

/* A descriptor to read the blob of a layer with. ERR_NOT_FOUND: it was released, or lost. */
int pull_open_blob(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE], struct err *e);
/* The runtime has the layer: the file goes, unless images.keep_blobs. Again and again is fine. */
void pull_release_blob(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE]);
/* The runtime does not have it any more. When it is wanted next, it is pulled. */
void pull_layer_gone(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE]);
/* Whether an image in the catalogue has it: what is in none may be thrown away. */
bool pull_layer_wanted(const struct puller *p, const unsigned char name[DIGEST_NAME_SIZE]);

/* ---- the catalogue ---- */

/* The N-th, in the order in which they came; NULL: there are no more. */
const struct pulled_image *images_at(const struct puller *p, size_t n);
const struct pulled_image *images_find(const struct puller *p, const char *digest); /* of a manifest, as it is written; NULL */
/* URI as in a request, or the digest of a manifest: all that it names, of any platform. ERR_NOT_FOUND. One that somebody stands
 * on is kept under its digest; ERR_CONFLICT: that is all that there was. */
int images_remove(struct puller *p, const char *uri, size_t *ret_n, struct err *e);

/* Whether a sandbox or a snapshot stands on the image with this manifest. An image that has lost its name stays as long as that
 * is so. Without it (NULL) those stay for good. */
typedef bool image_used_fn(const char *digest, void *arg);
void images_set_users(struct puller *p, image_used_fn *fn, void *arg);
void images_drop_unused(struct puller *p); /* of those that are kept */
/* What its registry said, byte by byte. */
void images_documents(const struct pulled_image *image, struct str *ret_manifest, struct str *ret_config);
