// SPDX-License-Identifier: Apache-2.0
/* execd/io/stream.h - one pipe of a program: bytes in, texts of events out.
 *
 * Input is buffered as far as the budget grants it. A full stream is not read, so that the program waits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "execd/io/events.h"
#include "execd/io/lines.h"
#include "net/loop.h"

struct budget;
struct drains;
struct err;
struct tail_file;

#define STREAM_BASE ((size_t)4 * 1024)          /* input that needs no grant of the budget */
#define STREAM_READ ((size_t)8 * 1024)         /* and this is asked for, to read in larger pieces */
#define STREAM_LINE_MAX ((size_t)1024 * 1024)   /* a longer line is split; without a grant a shorter one, too */

struct stream {
	enum event_stream kind;
	struct budget *budget;
	struct drains *drains;
	struct tail_file *tail; /* gets a copy of every byte; or NULL */
	int fd;            /* -1: at its end, or given away */
	struct io io;
	struct buf in;     /* waiting, from `at` on */
	size_t at;
	size_t granted;
	struct lines lines;
	bool is_bounded; /* the end is known: `left` bytes count, what comes after them does not */
	size_t left;
};

/* Takes the read end of a pipe, which is made non-blocking. The first four fields are the caller's to set. */
int stream_open(struct stream *s, struct loop *l, int fd, io_fn *fn, void *arg, struct err *e);
void stream_done(struct stream *s); /* gives the pipe away */
int stream_take(struct stream *s);  /* the pipe back, unwatched; -1 at its end */

/* whether to call when there is something to read */
void stream_watch(struct stream *s, struct loop *l, bool wanted);
bool stream_fill(struct stream *s); /* true when anything came, or the end */
void stream_drop(struct stream *s); /* reads, and keeps nothing but the copy */
void stream_forget(struct stream *s); /* what waits */

void stream_bound(struct stream *s);  /* what is in the pipe now is all that counts */
void stream_finish(struct stream *s); /* nothing more of it counts */
bool stream_is_over(const struct stream *s); /* nothing more comes */
bool stream_is_said(const struct stream *s); /* and all of it has been used */

/* The next text, a view of what waits, with what it takes of that. False: there is none yet. Use it with one
 * of: */
struct stream_text {
	struct str text;
	size_t skipped, used; /* before it; with it */
	struct lines before;
};
bool stream_next(struct stream *s, struct stream_text *ret);
void stream_use(struct stream *s, const struct stream_text *t);
/* its first N bytes: the line goes on */
void stream_use_part(struct stream *s, const struct stream_text *t, size_t n);
void stream_put_back(struct stream *s, const struct stream_text *t);
