// SPDX-License-Identifier: Apache-2.0
/* egress/question.h - one query of a sandbox, from the decision to the answer. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct egress;
struct question;
struct sandbox;

/* The answer, or an empty one: there will be none. Called exactly once unless the question is dropped,
 * possibly during the call that asks; the question is gone. WHO is whoever asked, as a name for it. */
struct asker {
	void (*answer)(struct str reply, void *who);
	void *who;
	bool is_tcp;
};

/* BYTES are those of the query. */
void question_ask(struct sandbox *s, struct str bytes, const struct asker *who);
void questions_drop(struct sandbox *s);           /* without an answer */
void question_drop_who(struct sandbox *s, const void *who); /* of this one */
