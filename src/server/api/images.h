// SPDX-License-Identifier: Apache-2.0
/* server/api/images.h - shared by the handlers of images. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "net/loop.h"
#include "server/model/plane.h"

struct err;
struct json_out;
struct runtime_failure;
struct runtime_image;
struct runtime_image_load;
struct reply;
struct request;

/* L7: 0 when something may be begun that takes room on the server's disk, where that is ours to look at; 1 when it was refused. */
int request_check_room(const struct request *rq, struct reply *rp, struct err *e);

/* Which image, for whom. */
struct image_auth {
	const char *username, *password; /* NULL: none */
};

struct image_platform {
	const char *os, *arch; /* NULL: this host's */
};

struct image_request {
	const char *uri;
	struct image_auth auth;
	struct image_platform platform;
	bool refresh;
};

/* as service_decode() */
int image_request_decode(struct request *rq, struct reply *rp, struct image_request *ret, struct err *e);

void write_image(struct json_out *o, const struct runtime_image *im);

/* ---- an archive that comes as the body of a request ---- */

/* The first member of what it is part of, which is allocated for it alone. */
struct loading {
	struct plane_job job;
	struct request *rq;
	struct reply *rp;   /* NULL: nobody waits for the answer any more */
	int pipe;           /* -1: all of it was written, or nobody reads it any more */
	struct io io;
	struct buf waiting;
	bool has_ended;     /* the body */
	bool is_over;       /* so is the loading: `done` was called */
	/* Answers, sooner or later, and frees it. */
	void (*done)(struct loading *l, const struct runtime_image *images, size_t n, const struct err *e);
};

/* Holds the reply. -1: L is freed. */
int loading_begin(struct loading *l, struct request *rq, struct reply *rp, const struct runtime_image_load *o, struct err *e);
void loading_free(struct loading *l);
int loading_failed(struct reply *rp, const struct err *e); /* the answer then */
