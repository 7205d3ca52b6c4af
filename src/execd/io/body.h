// SPDX-License-Identifier: Apache-2.0
/* execd/io/body.h - complete request bodies, within the budget.
 *
 * For handlers of ROUTE_STREAM_IN routes: the bytes are freed once the body has been acted upon, not at the
 * end of a stream of events. A body for which the budget has no room is answered 503. */
#pragma once
#include "base/str.h"

struct arena;
struct budget;
struct err;
struct field;
struct json;
struct reply;
struct request;

/* Answers, or returns -1 with an error, as a handler. BODY is valid during the call. */
typedef int body_fn(struct request *rq, struct reply *rp, struct str body, struct err *e);

/* Calls FN when the body is complete; its size is bounded by the route. */
int body_read(struct request *rq, struct reply *rp, struct budget *budget, body_fn *fn, struct err *e);

/* Binds a body of JSON by FIELDS: names in any case, unknown ones ignored, null is absent. 0, or 1 after
 * having answered 400 (413 for one that has too many values), or -1. Nothing but what lives in A is kept. */
#define BODY_ARENA_MAX ((size_t)4 * 1024 * 1024)
int body_decode(struct reply *rp, struct str body, struct arena *a, const struct field *fields, void *out,
		struct err *e);

/* Gives the keys of OBJECT that are names of FIELDS in another case the case of the table. */
void body_fold_names(struct json *object, const struct field *fields);
