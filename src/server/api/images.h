// SPDX-License-Identifier: Apache-2.0
/* server/api/images.h - what the handlers of images share. */
#pragma once
struct json_out;
struct pulled_image;
struct puller;
struct reply;
struct request;

/* NULL: the runtime's images are not ours, and the answer is on its way. */
struct puller *request_puller(const struct request *rq, struct reply *rp);

void write_image(struct json_out *o, const struct pulled_image *im);
