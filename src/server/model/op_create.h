// SPDX-License-Identifier: Apache-2.0
/* server/model/op_create.h - a create in progress. What is made of it shows in op.stored (the store has its record) and
 * op.answered (the runtime has made it), which come in any order; the state says what it is at, and who knows what. */
#pragma once
#include "server/model/sandbox_impl.h"

enum create_state {
	CREATE_RECORDING,       /* its volumes wait for the store, and the runtime for them */
	CREATE_MAKING_VOLUMES,
	CREATE_MAKING,          /* the runtime is asked, beside the store */
	CREATE_TELLING_PENDING, /* the same; the store is to know that callers are told so */
	CREATE_PENDING,         /* the same; they were told */
	CREATE_OVERDUE,         /* callers were told that it failed; an answer is owed still */
	CREATE_OVERDUE_PENDING, /* they were told that it is Pending; an answer is owed still */
	CREATE_FORGETTING,      /* it failed, and the store forgets it */
	CREATE_KEEPING_VOLUMES, /* it runs, and the store is to know that its volumes are made for good */
	CREATE_OVER,
};

struct create {
	struct op op;
	struct arena arena; /* of the next three */
	struct environment env;
	const char *username, *password; /* for its image, or NULL */
	enum create_state state;
	uint64_t begun_ms;
	uint64_t progress_ms; /* of the last event that told of progress; 0: there was none, and it may not take long */
	size_t next_volume;   /* those before it are made */
	bool is_unwanted;     /* create_cancel() */
	unsigned notes;       /* which image it has: as often as the store was asked and has not answered */
	bool is_unnoted;      /* it did not take one of them: op.fault */
	struct runtime_failure failure; /* of the runtime */
	struct fault told;    /* once its traces are gone */
};

static inline struct create *create_of(struct op *op)
{
	return container_of(op, struct create, op);
}

/* op_create.c */
void create_join(struct op *op); /* something that it waits for has happened */

/* op_pending.c */
#define PENDING_REASON "IMAGE_PULLING"
bool pending_was_told(const struct box *b); /* by an earlier server, as the record says */
void pending_tell(struct create *c);
void pending_fail(struct create *c, const char *reason, const char *message); /* one that was told; ends it */
void pending_interrupted(struct box *b);
