// SPDX-License-Identifier: Apache-2.0
/* execd/work.h - requests that may take long, each in a short-lived child.
 *
 * Work that examines more than one file, reads or writes content, or waits for a disk would block the loop.
 * Such a request is done by a child that is forked for it, runs ordinary blocking code (execd/task.h) and
 * answers through a pipe:
 *
 *     body of JSON ---> collected here ---> fork: the child has it in its memory
 *     body of files ----------------------> pipe, as it arrives ---> child
 *     answer <------- pulled as the peer reads it <------------- pipe, from the child
 *
 * The child lives in the `user` leaf: its memory and time are charged to the sandbox. It has the ids of the
 * sandbox's user for what it creates and root's capabilities in the sandbox for access. It holds no
 * descriptor except its pipes, and dies with execd. A child that dies before its answer is complete causes an
 * error, or a visibly truncated body.
 *
 * Each class has a maximum of children at once; further requests wait in a queue, with their body unread.
 * Children have a deadline of their own, which does not count time spent waiting for the peer, and are killed
 * shortly after it. When the peer disconnects, a read ends at once. A change continues to its end, except an
 * upload with an incomplete body, which has no effect. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"

struct budget;
struct err;
struct execd_config;
struct init;
struct reply;
struct request;
struct task;
struct work;

enum work_class { WORK_READ, WORK_CHANGE, WORK_UPLOAD, WORK_CLASSES };

#define WORK_READS_MAX 16
#define WORK_CHANGES_MAX 8
#define WORK_UPLOADS_MAX 16
#define WORK_READ_MS 30000              /* O4 */
#define WORK_CHANGE_MS 600000           /* copying and removing large trees; an upload from the end of its body on */
#define WORK_KILL_MS 5000               /* after the deadline, for a child that does not mind it */
#define WORK_START_MS 10000             /* for a process to become available */
#define WORK_PIPE (32 * 1024)
#define WORK_WIDE_PIPE (128 * 1024)     /* for a body that is passed without a copy of ours */
#define WORK_FEED ((size_t)128 * 1024)  /* of the budget, for what an upload has sent and its child not taken */
#define WORK_JSON_MAX ((uint64_t)4 * 1024 * 1024)

typedef int work_fn(struct task *t, struct err *e); /* in the child; see task.h */

struct work_spec {
	work_fn *fn;
	enum work_class class;
	bool has_json; /* the body is collected first; the route is ROUTE_STREAM_IN */
};

struct work_line {
	struct work *first, *last; /* waiting */
	unsigned running;
};

struct workers {
	struct loop *loop;
	struct init *init;
	struct budget *budget;
	const struct execd_config *config;
	struct work_line lines[WORK_CLASSES];
	struct work *all;
	struct timer again; /* a process could not be had */
};

int workers_init(struct workers *ws, struct err *e); /* the fields above `lines` are the caller's to set */
void workers_done(struct workers *ws);               /* kills what runs; after the server is gone */

/* For handlers: answers later. SPEC must stay. */
int work_begin(struct workers *ws, const struct work_spec *spec, struct request *rq, struct reply *rp,
	       struct err *e);

/* ---- between the two sides ---- */

enum work_answer { WORK_EMPTY, WORK_ERROR, WORK_JSON, WORK_TEXT };

/* Written at once, before any body. */
struct work_head {
	uint32_t answer;
	uint32_t status;
	uint64_t length; /* of a body; or REPLY_UNSIZED */
	char code[40];
	char message[1024];
};

enum { WORK_IN_FD = 0, WORK_OUT_FD = 1, WORK_GO_FD = 3 }; /* GO is raised when a body of files is complete */
