// SPDX-License-Identifier: Apache-2.0
/* The copy of a sandbox's record that the runtime keeps with the sandbox (runtime.h, record_set()): written with the create,
 * replaced after each change, and read by a start whose database may have been damaged or replaced by an older one.
 *
 * Three lines: numbers and names, with the idempotency key that it was asked for with, then the documents of the database's row. What changes with the sandbox itself, like its
 * state, is not in it: the runtime knows that. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/uuid.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define VERSION 1

/* ---- its form ---- */

/* "-" where there is none. */
static void write_key(const struct key *k, struct buf *b)
{
	char body[SHA256_HEX_LEN + 1] = "-";

	if (k)
		hex_encode(body, k->body, sizeof(k->body));
	buf_addf(b, " %s %s %lld\n", k ? k->hex : "-", body, k ? (long long)k->expires_us : 0LL);
}

static bool write_record(const struct sandbox_row *r, const struct key *k, struct buf *out)
{
	bool has_pool = r->pool && r->pool[0] != '\0';

	buf_addf(out, "%d %s %llu %lld %lld %llu %s %d", VERSION, r->id, (unsigned long long)r->revision, (long long)r->created_us,
		 (long long)r->expires_us, (unsigned long long)r->deadline_ms, has_pool ? r->pool : "-", r->is_idle);
	write_key(k, out);
	if (!row_write_spec(r, out) || !buf_add(out, "\n", 1) || !row_write_metadata(&r->metadata, out))
		return false;
	return !out->failed;
}

bool sandbox_record_write(const struct box *b, struct buf *out)
{
	return write_record(&b->pub.row, key_of_box(b), out);
}

bool sandbox_record_same(const struct sandbox_row *a, const struct sandbox_row *b)
{
	AUTO(buf_done) struct buf x = BUF_INIT(RUNTIME_RECORD_MAX);
	AUTO(buf_done) struct buf y = BUF_INIT(RUNTIME_RECORD_MAX);

	return write_record(a, NULL, &x) && write_record(b, NULL, &y) && str_eq(buf_str(&x), buf_str(&y));
}

static struct str take_word(struct str *line)
{
	struct str word;

	(void)str_cut(*line, ' ', &word, line);
	return word;
}

static bool take_number(struct str *line, uint64_t max, int64_t *ret)
{
	uint64_t n;

	if (!str_to_u64(take_word(line), 0, max, &n))
		return false;
	*ret = (int64_t)n;
	return true;
}

static bool take_key(struct str *line, const char *id, struct key *ret)
{
	struct str hex = take_word(line), body = take_word(line);
	unsigned char sum[SHA256_SIZE];

	*ret = (struct key){ 0 };
	if (!take_number(line, INT64_MAX, &ret->expires_us))
		return false;
	if (str_is(hex, "-"))
		return true;
	if (hex.n != SHA256_HEX_LEN || !hex_decode(hex, sum, sizeof(sum)) || body.n != SHA256_HEX_LEN ||
	    !hex_decode(body, ret->body, sizeof(ret->body)))
		return false;
	hex_encode(ret->hex, sum, sizeof(sum));
	memcpy(ret->sandbox_id, id, strlen(id) + 1);
	return true;
}

/* The numbers and names of the first line, up to the key; the documents are checked by row_load(). */
static bool take_head(struct str *line, struct row_columns *c, struct str *pool, int64_t *is_idle)
{
	int64_t version;

	if (!take_number(line, INT32_MAX, &version) || version != VERSION)
		return false;
	c->id = take_word(line);
	if (!take_number(line, INT64_MAX, &c->revision) || !take_number(line, INT64_MAX, &c->created_us) ||
	    !take_number(line, INT64_MAX, &c->expires_us) || !take_number(line, INT64_MAX, &c->deadline_ms))
		return false;
	*pool = take_word(line);
	return take_number(line, 1, is_idle) && (str_is(*pool, "-") || id_valid(*pool));
}

int sandbox_record_load(struct str text, struct arena *a, struct sandbox_record *ret, struct err *e)
{
	struct row_columns c = { .state = STR("Running"), .reason = STR("CONTAINER_RUNNING"),
				 .message = STR("Sandbox container is running.") };
	struct str line, pool;
	int64_t is_idle;

	if (!str_cut(text, '\n', &line, &text) || !take_head(&line, &c, &pool, &is_idle))
		return err_set(e, ERR_INVALID, "a record of another version");
	c.changed_us = c.created_us;
	(void)str_cut(text, '\n', &c.spec, &c.metadata);
	if (row_load(&c, a, &ret->row, e) < 0)
		return -1;
	if (!take_key(&line, ret->row.id, &ret->key) || line.n > 0)
		return err_set(e, ERR_INVALID, "a record with a key that is none");
	ret->row.is_idle = is_idle;
	ret->row.pool = str_is(pool, "-") ? NULL : arena_dup(a, pool);
	return is_idle && !ret->row.pool ? err_set(e, ERR_INVALID, "a record of a place in no pool") : 0;
}

/* ---- keeping it up to date ---- */

/* One copy on its way: the sandbox may be gone when the answer comes. */
struct sending {
	struct list_node at;
	struct sandboxes *set;
	char id[ID_MAX + 1];
	uint64_t revision;
};

static void sending_free(struct sending *q)
{
	list_remove(&q->set->sendings, &q->at);
	free(q);
}

void sandbox_records_free(struct sandboxes *s)
{
	while (s->sendings.first)
		sending_free(LIST_FIRST(&s->sendings, struct sending, at));
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
	list_append(&s->sendings, &q->at);
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
	struct op *op;

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
	op = b ? op_first(&b->queue) : NULL;
	if (op && op->state == OP_COPYING && !b->is_record_sent)
		op_succeed(op);
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
	q = sandbox_record_write(b, &text) ? sending_new(b) : NULL;
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

void sandbox_record_done(struct op *op)
{
	struct box *b = box_of_op(op);

	sandbox_record_changed(b);
	if (b->is_record_sent)
		op->state = OP_COPYING;
	else
		op_succeed(op);
}
