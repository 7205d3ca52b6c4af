// SPDX-License-Identifier: Apache-2.0
/* POST /files/replace. */
#include <fcntl.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/io/body.h"
#include "execd/task.h"
#include "sys/fd.h"

#include "base/banned.h"

#define REPLACE_PIECE ((size_t)64 * 1024)

struct change {
	struct str old, new;
};

static const struct field change_fields[] = {
	FIELD(struct change, old, FIELD_TEXT, "old", .required = true, .min = 1, .max = (int64_t)WORK_JSON_MAX),
	FIELD(struct change, new, FIELD_TEXT, "new"),
	{ 0 },
};

/* Content passes through in pieces; what could be the front of an occurrence waits for the next one. */
struct pass {
	const struct change *c;
	int to;
	struct buf in, out;
	uint64_t count;
};

static int flush(struct pass *p, size_t above, struct err *e)
{
	if (p->out.failed)
		return err_no_memory(e);
	if (p->out.n <= above)
		return 0;
	if (fd_write_all(p->to, p->out.p, p->out.n, e) < 0)
		return -1;
	buf_clear(&p->out);
	return 0;
}

static int add(struct pass *p, struct str bytes, struct err *e)
{
	buf_add_str(&p->out, bytes);
	return flush(p, REPLACE_PIECE, e);
}

static int pass_on(struct pass *p, bool is_last, struct err *e)
{
	struct str rest = buf_str(&p->in);
	size_t keep;

	while (rest.n >= p->c->old.n) {
		const char *at = memmem(rest.p, rest.n, p->c->old.p, p->c->old.n);

		if (!at)
			break;
		if (add(p, str_first(rest, (size_t)(at - rest.p)), e) < 0 || add(p, p->c->new, e) < 0)
			return -1;
		rest = str_skip(rest, (size_t)(at - rest.p) + p->c->old.n);
		p->count++;
	}
	keep = is_last ? 0 : MIN(rest.n, p->c->old.n - 1);
	if (add(p, str_first(rest, rest.n - keep), e) < 0)
		return -1;
	buf_consume(&p->in, p->in.n - keep);
	return is_last ? flush(p, 0, e) : 0;
}

static int run(struct task *t, struct pass *p, int from, struct err *e)
{
	size_t piece = MAX(REPLACE_PIECE, p->c->old.n); /* not to search the same bytes again and again */
	ssize_t n;

	do {
		char *room = buf_reserve(&p->in, piece);

		if (!room)
			return err_no_memory(e);
		n = read(from, room, piece);
		if (n < 0)
			return err_sys(e, errno, "read");
		buf_commit(&p->in, (size_t)n);
		if (task_in_time(t, e) < 0 || pass_on(p, n == 0, e) < 0)
			return -1;
	} while (n > 0);
	return 0;
}

static int replace_content(struct task *t, int from, int to, const struct change *c, uint64_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf in = BUF_INIT(4 * MAX(REPLACE_PIECE, c->old.n));
	AUTO(buf_done) struct buf out = BUF_INIT(4 * REPLACE_PIECE + MAX(c->old.n, c->new.n) * 4);
	struct pass p = { .c = c, .to = to, .in = in, .out = out };
	int r = run(t, &p, from, e);

	in = p.in;
	out = p.out;
	*ret = p.count;
	return r;
}

static int replace_at(struct task *t, const struct place *at, const struct change *c, uint64_t *ret, struct err *e)
{
	AUTO(seat_of_done) struct seat_of seat = SEAT_OF_INIT;
	AUTO(draft_done) struct draft d = DRAFT_INIT;
	AUTO_FD from = -1;
	struct attr_ids none = { 0 };
	struct stat st;

	from = place_open_regular(t->root, at, &st, e);
	if (from < 0 || place_seat_behind(t->root, at, false, &seat, e) < 0 || draft_open(&d, seat.dir, e) < 0 ||
	    replace_content(t, from, d.fd, c, ret, e) < 0 ||
	    draft_dress(&d, seat.name, &none, st.st_mode & 0777, e) < 0)
		return -1;
	if (fsync(d.fd) < 0)
		return err_sys(e, errno, "write");
	return draft_keep(&d, seat.name, e);
}

/* ---- the route ---- */

static int read_changes(struct task *t, struct json *body, struct change *ret)
{
	for (struct json *v = body->kids.first; v; v = v->next, ret++) {
		struct decode d = { .arena = &t->arena, .strict = true };
		struct err why = { 0 };

		body_fold_names(v, change_fields);
		if (decode(&d, v, change_fields, ret, &why) < 0)
			return task_fail(t, 400, CODE_INVALID_BODY, "invalid request body: '%.*s': %s", STR_ARG(v->key),
					 why.msg);
	}
	return 0;
}

static int replace_one(struct task *t, struct str sent, const struct change *c, uint64_t *ret)
{
	struct err why = { 0 };
	struct place at;

	if (task_place(t, sent, PLACE_CLEAN, &at) < 0)
		return -1;
	return replace_at(t, &at, c, ret, &why) < 0 ? task_fail_path(t, sent, &why) : 0;
}

static int answer(struct task *t, const struct json *body, const uint64_t *counts, struct err *e)
{
	const struct query_pair *verbose = query_get(&t->query, "verbose");
	struct json_out o;

	if (!verbose || !str_is(verbose->value, "true"))
		return task_empty(t);
	o = task_json(t);
	json_open(&o, '{');
	for (const struct json *v = json_first(body); v; v = v->next) {
		json_key_str(&o, v->key), json_open(&o, '{');
		json_key(&o, "replacedCount"), json_uint(&o, *counts++);
		json_close(&o, '}');
	}
	json_close(&o, '}');
	return task_end(t, e);
}

static int replace(struct task *t, struct err *e)
{
	const struct json *parsed = task_body(t, e);
	struct json *body = (struct json *)(uintptr_t)parsed; /* ours, in the arena */
	struct change *changes;
	uint64_t *counts;
	size_t i = 0;

	if (!body)
		return -1;
	if (body->type != JSON_OBJECT)
		return task_fail(t, 400, CODE_INVALID_BODY, "invalid request body: must be an object");
	changes = arena_array(&t->arena, body->kids.n + 1, sizeof(*changes));
	counts = arena_array(&t->arena, body->kids.n + 1, sizeof(*counts));
	if (!changes || !counts)
		return err_no_memory(e);
	if (read_changes(t, body, changes) < 0)
		return -1;
	for (const struct json *v = body->kids.first; v; v = v->next, i++)
		if (replace_one(t, v->key, &changes[i], &counts[i]) < 0)
			return -1;
	return answer(t, body, counts, e);
}

int files_replace_post(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct work_spec spec = { .fn = replace, .class = WORK_CHANGE, .has_json = true };

	return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e);
}
