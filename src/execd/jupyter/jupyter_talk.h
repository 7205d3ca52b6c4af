// SPDX-License-Identifier: Apache-2.0
/* execd/jupyter/jupyter_talk.h - translates messages of a kernel for a context; the same for direct kernels
 * and for Jupyter servers.
 *
 *     stream                              output, in pieces as they come
 *     display_data, update_display_data   a value
 *     execute_result                      a value, with the count of executions
 *     error                               the error of the run
 *     execute_reply                       the end of the run, together with...
 *     status idle                         ...this one; an error in a reply is used if none was reported
 *     everything else                     nothing
 *
 * Only messages that answer the current request are used. Data for which the context has no room waits here;
 * no further data may be passed in meanwhile. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/uuid.h"
#include "execd/jupyter/jupyter_message.h"

struct code_context;

#define TALK_ID_MAX (UUID_LEN + 12)

typedef void talk_hang_up_fn(void *arg); /* closes what leads to the kernel */

struct talk {
	struct code_context *context;
	char session[UUID_LEN + 1];
	char run[TALK_ID_MAX + 1]; /* id of the request that runs; "": none does */
	unsigned n_requests;
	struct jupyter_in shell, iopub; /* replies; what is published */
	struct buf text;                /* of a stream, passed on up to text_at */
	size_t text_at;
	enum event_stream stream;
	bool waits;  /* the message in `iopub` is complete, and not passed on yet */
	bool has_reply, has_idle, has_error;
	bool is_dead; /* and that was reported */
	talk_hang_up_fn *hang_up;
	void *arg;
};

int talk_init(struct talk *t, struct code_context *c, struct budget *budget, talk_hang_up_fn *hang_up,
	      void *arg, struct err *e);
void talk_done(struct talk *t);

/* A new id for a message, in OUT. */
void talk_new_id(struct talk *t, char out[TALK_ID_MAX + 1]);
void talk_begin(struct talk *t, const char *id); /* the request of that id runs from now on */

/* After a piece was given to t->iopub, and at any later time: tells what there is. False: no room; nothing
 * more is to be given to iopub until this says true. IS_WHOLE: the piece made its message complete. */
bool talk_piece(struct talk *t, bool is_whole);
bool talk_proceed(struct talk *t);

/* There is a message in t->shell. */
void talk_reply(struct talk *t);

/* Its end, if it has come. Says code_done(); not to be called while talk_proceed() says false. */
void talk_end_run(struct talk *t);

/* The kernel is of no use any more, for the reason that is told first: hangs up and says code_died(). */
void talk_die(struct talk *t, const struct err *why);
void talk_die_of(struct talk *t, const char *what);

/* The messages of `iopub` that answer ID: the caller's own requests. */
static inline bool talk_is_answer(const struct jupyter_in *in, const char *id)
{
	return id[0] && strcmp(in->parent, id) == 0;
}
