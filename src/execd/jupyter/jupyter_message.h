// SPDX-License-Identifier: Apache-2.0
/* execd/jupyter/jupyter_message.h - messages of Jupyter's protocol (version 5.3), both ways.
 *
 * Between a kernel and us each is a list of frames:
 *
 *     identities..., "<IDS|MSG>", signature, header, parent header, metadata, content, buffers...
 *
 * where the signature is the HMAC-SHA256 of the four of JSON. Between a Jupyter server and us it is one
 * object of JSON.
 *
 * A message to us is read as it arrives, and of its content what its kind calls for is kept: the text of a
 * stream goes on at once, in pieces, whatever its length; values and errors are collected up to a ceiling.
 * That a signature is wrong is known at the end of a message; then what it has said cannot be taken back, but
 * nobody is listened to any more. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json_feed.h"
#include "base/sha256.h"
#include "base/str.h"
#include "execd/code/code_driver.h"
#include "execd/io/events.h"

struct budget;
struct zmtp_event;

#define JUPYTER_ID_MAX 63    /* bytes of a message's id; ours are shorter, a longer one is none of ours */
#define JUPYTER_KEY_LEN 64
#define JUPYTER_HEAD_MAX 16384 /* bytes of a header */
#define JUPYTER_VALUES_MAX (CODE_RESULT_MAX + 8192)

/* ---- to a kernel ---- */

struct jupyter_out {
	struct str type;    /* "execute_request" */
	struct str id;      /* of the message */
	struct str session; /* ours */
	struct str content; /* JSON */
};
void jupyter_put_header(struct buf *b, const struct jupyter_out *m);
void jupyter_sign(struct str key, const struct str parts[4], char out[SHA256_HEX_LEN + 1]);
/* One object, for a server. */
void jupyter_put_object(struct buf *b, const struct jupyter_out *m, const char *channel);
void jupyter_put_execute(struct buf *b, struct str code); /* the content of an execute_request */

/* ---- to us ---- */

enum jupyter_kind {
	JUPYTER_OTHER,
	JUPYTER_STREAM,
	JUPYTER_DISPLAY, /* update_display_data, too */
	JUPYTER_RESULT,
	JUPYTER_ERROR,
	JUPYTER_STATUS,
	JUPYTER_REPLY, /* to execute_request */
	JUPYTER_INFO,  /* kernel_info_reply */
	JUPYTER_INPUT, /* input_request */
};

/* What is collected of the contents that have something to collect. */
struct jupyter_values {
	struct buf bytes; /* of all below */
	struct jupyter_span {
		size_t at, n;
	} types[CODE_MIMES_MAX], mimes[CODE_MIMES_MAX], trace[CODE_TRACE_MAX], name, value;
	size_t n_mimes, n_trace;
};

struct jupyter_in {
	/* The owner's to set: */
	struct budget *budget;
	struct str key; /* empty: no signatures */
	/* during the functions below */
	void (*on_text)(enum event_stream stream, struct str text, void *arg);
	void *arg;

	/* Of the message that is there, or on its way: */
	enum jupyter_kind kind;
	char parent[JUPYTER_ID_MAX + 1]; /* id of what it answers; "" */
	char channel;                    /* of a server's: the first letter of its channel */
	/* of a status: done; a server says that the kernel is no more, or another one */
	bool is_idle, is_gone;
	bool is_error, is_aborted;       /* of a reply: anything but "ok"; it may not have been run */
	uint64_t count;                  /* of executions; 0: absent */
	struct jupyter_values *values;   /* or NULL */
	/* some were left out: they are too large, or there is no memory for them */
	bool is_cut;

	int part;
	struct json_feed feed;
	struct hmac_sha256 hmac;
	char small[SHA256_HEX_LEN], signature[SHA256_HEX_LEN];
	size_t n_small, n_part, granted;
	char type[24], word[16], stream[8];
	size_t n_word;
	const char *what;
};

enum jupyter_step { JUPYTER_MORE, JUPYTER_MESSAGE, JUPYTER_BROKEN };

/* A piece of a message of frames. JUPYTER_MESSAGE: it is there, until jupyter_next(). JUPYTER_BROKEN:
 * in->what gives the reason. */
enum jupyter_step jupyter_take(struct jupyter_in *in, const struct zmtp_event *ev);

/* A message of one object: its heads first, then its content, in pieces of the caller's choice. */
bool jupyter_take_heads(struct jupyter_in *in, struct str object);
bool jupyter_take_content(struct jupyter_in *in, struct str piece);

/* forgets the message, with all that it takes; fine when there is none */
void jupyter_next(struct jupyter_in *in);

static inline struct str jupyter_text(const struct jupyter_values *v, struct jupyter_span span)
{
	return (struct str){ v->bytes.p + span.at, span.n };
}
