// SPDX-License-Identifier: Apache-2.0
/* server/api/images.h - what the handlers of images share. */
#pragma once
#include <stdbool.h>

struct err;
struct json_out;
struct pulled_image;
struct puller;
struct reply;
struct request;

/* NULL: the runtime's images are not ours, and the answer is on its way. */
struct puller *request_puller(const struct request *rq, struct reply *rp);

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

int image_request_decode(struct request *rq, struct reply *rp, struct image_request *ret, struct err *e); /* as service_decode() */

void write_image(struct json_out *o, const struct pulled_image *im);
