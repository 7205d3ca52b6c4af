// SPDX-License-Identifier: Apache-2.0
/* The copy of a sandbox's record that the runtime keeps with the sandbox (runtime.h, record_set()): written with the create,
 * replaced after each change, and read by a start whose database may have been damaged or replaced by an older one.
 *
 * Three lines: numbers and names, then the documents of the database's row. What changes with the sandbox itself, like its
 * state, is not in it: the runtime knows that. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/uuid.h"
#include "server/sandbox_impl.h"

#include "base/banned.h"

#define VERSION 1

/* ---- its form ---- */

bool sandbox_record_write(const struct sandbox_row *r, struct buf *b)
{
	bool has_pool = r->pool && r->pool[0] != '\0';

	buf_addf(b, "%d %s %llu %lld %lld %llu %s %d\n", VERSION, r->id, (unsigned long long)r->revision, (long long)r->created_us,
		 (long long)r->expires_us, (unsigned long long)r->deadline_ms, has_pool ? r->pool : "-", r->is_idle);
	if (!row_write_spec(r, b) || !buf_add(b, "\n", 1) || !row_write_metadata(&r->metadata, b))
		return false;
	return !b->failed;
}

static bool take_number(struct str *line, uint64_t max, int64_t *ret)
{
	struct str word;
	uint64_t n;

	(void)str_cut(*line, ' ', &word, line);
	if (!str_to_u64(word, 0, max, &n))
		return false;
	*ret = (int64_t)n;
	return true;
}

/* The first line; the documents are checked by row_load(). */
static bool take_head(struct str line, struct row_columns *c, struct str *pool, int64_t *is_idle)
{
	int64_t version;

	if (!take_number(&line, INT32_MAX, &version) || version != VERSION)
		return false;
	(void)str_cut(line, ' ', &c->id, &line);
	if (!take_number(&line, INT64_MAX, &c->revision) || !take_number(&line, INT64_MAX, &c->created_us) ||
	    !take_number(&line, INT64_MAX, &c->expires_us) || !take_number(&line, INT64_MAX, &c->deadline_ms))
		return false;
	(void)str_cut(line, ' ', pool, &line);
	return take_number(&line, 1, is_idle) && line.n == 0 && (str_is(*pool, "-") || id_valid(*pool));
}

int sandbox_record_load(struct str text, struct arena *a, struct sandbox_row *ret, struct err *e)
{
	struct row_columns c = { .state = STR("Running"), .reason = STR("CONTAINER_RUNNING"),
				 .message = STR("Sandbox container is running.") };
	struct str line, pool;
	int64_t is_idle;

	if (!str_cut(text, '\n', &line, &text) || !take_head(line, &c, &pool, &is_idle))
		return err_set(e, ERR_INVALID, "a record of another version");
	c.changed_us = c.created_us;
	(void)str_cut(text, '\n', &c.spec, &c.metadata);
	if (row_load(&c, a, ret, e) < 0)
		return -1;
	ret->is_idle = is_idle;
	ret->pool = str_is(pool, "-") ? NULL : arena_dup(a, pool);
	return is_idle && !ret->pool ? err_set(e, ERR_INVALID, "a record of a place in no pool") : 0;
}

/* ---- keeping it up to date ---- */

/* One copy on its way: the sandbox may be gone when the answer comes. */
struct sending {
	struct sending *prev, *next;
	struct sandboxes *set;
	char id[ID_MAX + 1];
	uint64_t revision;
};

static void sending_free(struct sending *q)
{
	*(q->prev ? &q->prev->next : &q->set->sendings) = q->next;
	if (q->next)
		q->next->prev = q->prev;
	free(q);
}

void sandbox_records_free(struct sandboxes *s)
{
	while (s->sendings)
		sending_free(s->sendings);
}

static struct sending *sending_new(const struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct sending *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->set = s;
	q->revision = b->pub.row.revision;
	memcpy(q->id, b->id, sizeof(b->id));
	q->next = s->sendings;
	if (q->next)
		q->next->prev = q;
	s->sendings = q;
	return q;
}

/* A runtime that does not have the sandbox any more needs no copy either. */
static bool is_worth_another_try(const struct runtime_failure *failure)
{
	return failure && failure->err.code != ERR_NOT_FOUND && failure->err.code != ERR_CONFLICT;
}

static void on_sent(const struct runtime_failure *failure, void *arg)
{
	struct sending *q = arg;
	struct sandboxes *s = q->set;
	struct box *b = map_get(&s->by_id, str_of(q->id));

	if (b && is_worth_another_try(failure)) {
		log_warn("the copy of a record could not be written, trying again", LOG_S("id", b->id), LOG_ERR(&failure->err));
		b->is_record_sent = false;
		b->is_record_due = true;
		timer_in(&s->flush, RECORD_AGAIN_MS);
	} else if (b) {
		b->is_record_sent = false;
		b->record_revision = q->revision;
		sandbox_record_send(b);
	}
	sending_free(q);
}

static bool is_with_runtime(const struct box *b)
{
	enum sandbox_state s = b->pub.row.state;

	return s != SANDBOX_PENDING && s != SANDBOX_STOPPING;
}

void sandbox_record_send(struct box *b)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_RECORD_MAX);
	struct runtime *rt = b->pub.set->spec.runtime;
	struct sending *q;

	if (!rt->ops->record_set || b->is_record_sent || b->record_revision == b->pub.row.revision || !is_with_runtime(b))
		return;
	q = sandbox_record_write(&b->pub.row, &text) ? sending_new(b) : NULL;
	b->is_record_due = !q;
	b->is_record_sent = q != NULL;
	if (!q) {
		timer_in(&b->pub.set->flush, RECORD_AGAIN_MS);
		return;
	}
	rt->ops->record_set(rt, b->id, buf_str(&text), on_sent, q);
	KILL_POINT("server.record.sent");
}

void sandbox_record_changed(struct box *b)
{
	b->pub.row.revision++;
	sandbox_record_send(b);
}
