// SPDX-License-Identifier: Apache-2.0
/* Building transactions: plain data, in an arena of their own. */
#include "base/buf.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

#define TX_MAX ((size_t)20 * 1024 * 1024) /* an image has two documents of 4 MiB at most, and may displace another */

struct store_tx *store_tx_new(void)
{
	struct store_tx *tx = calloc(1, sizeof(*tx));

	if (tx)
		tx->arena = ARENA_INIT(TX_MAX);
	return tx;
}

void store_tx_free(struct store_tx *tx)
{
	if (tx)
		arena_done(&tx->arena);
	free(tx);
}

static struct step *add_step(struct store_tx *tx, enum statement statement)
{
	struct step *s = tx ? arena_alloc(&tx->arena, sizeof(*s)) : NULL;

	if (!s) {
		if (tx)
			tx->failed = true;
		return NULL;
	}
	s->statement = statement;
	tx->is_copied |= sql_is_copied(statement);
	*(tx->last ? &tx->last->next : &tx->first) = s;
	tx->last = s;
	return s;
}

static void add_bytes(struct store_tx *tx, struct step *s, int kind, struct str bytes)
{
	char *copy = s ? arena_strndup(&tx->arena, bytes.n > 0 ? bytes.p : "", bytes.n) : NULL;

	if (!s)
		return;
	if (!copy) {
		tx->failed = true;
		return;
	}
	s->params[s->n++] = (struct param){ .kind = kind, .s = { copy, bytes.n } };
}

static void add_text(struct store_tx *tx, struct step *s, const char *z)
{
	add_bytes(tx, s, PARAM_TEXT, str_of(z));
}

static void add_int(struct step *s, int64_t v)
{
	if (s)
		s->params[s->n++] = (struct param){ .kind = PARAM_INT, .i = v };
}

static void add_document(struct store_tx *tx, struct step *s, const struct buf *b)
{
	if (b->failed && tx)
		tx->failed = true;
	else
		add_bytes(tx, s, PARAM_TEXT, buf_str(b));
}

void store_tx_member(struct store_tx *tx, const char *sandbox_id, const char *pool_id, bool is_idle)
{
	struct step *s = add_step(tx, SQL_MEMBER);

	add_text(tx, s, sandbox_id);
	add_text(tx, s, pool_id);
	add_int(s, is_idle);
}

/* All that a sandbox has of its own, but for its id. */
static void add_columns(struct store_tx *tx, struct step *s, const struct sandbox_row *row)
{
	AUTO(buf_done) struct buf spec = BUF_INIT(ROW_SPEC_MAX);
	AUTO(buf_done) struct buf metadata = BUF_INIT(ROW_METADATA_MAX);

	(void)row_write_spec(row, &spec);
	(void)row_write_metadata(&row->metadata, &metadata);
	add_document(tx, s, &spec);
	add_document(tx, s, &metadata);
	add_int(s, row->created_us);
	add_int(s, row->expires_us);
	add_int(s, (int64_t)row->deadline_ms);
	add_text(tx, s, sandbox_state_name(row->state));
	add_text(tx, s, row->reason);
	add_text(tx, s, row->message);
	add_int(s, row->changed_us);
}

void store_tx_insert(struct store_tx *tx, const struct sandbox_row *row)
{
	struct step *s = add_step(tx, SQL_INSERT);

	add_text(tx, s, row->id);
	add_columns(tx, s, row);
	if (row->pool && row->pool[0] != '\0')
		store_tx_member(tx, row->id, row->pool, row->is_idle);
}

void store_tx_hand_out(struct store_tx *tx, const struct sandbox_row *row)
{
	struct step *s = add_step(tx, SQL_HAND_OUT);

	add_columns(tx, s, row);
	add_text(tx, s, row->id);
	add_text(tx, add_step(tx, SQL_TAKE), row->id);
}

void store_tx_restore(struct store_tx *tx, const struct sandbox_row *row)
{
	struct step *s = add_step(tx, SQL_RESTORE);

	add_columns(tx, s, row);
	add_int(s, (int64_t)row->revision);
	add_text(tx, s, row->id);
	if (!row->is_idle)
		add_text(tx, add_step(tx, SQL_TAKE), row->id);
}

void store_tx_state(struct store_tx *tx, const struct sandbox_row *row)
{
	struct step *s = add_step(tx, SQL_STATE);

	add_text(tx, s, sandbox_state_name(row->state));
	add_text(tx, s, row->reason);
	add_text(tx, s, row->message);
	add_int(s, row->changed_us);
	add_text(tx, s, row->id);
}

void store_tx_expiry(struct store_tx *tx, const char *id, int64_t expires_us, uint64_t deadline_ms)
{
	struct step *s = add_step(tx, SQL_EXPIRY);

	add_int(s, expires_us);
	add_int(s, (int64_t)deadline_ms);
	add_text(tx, s, id);
}

void store_tx_metadata(struct store_tx *tx, const char *id, const struct string_map *metadata)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ROW_METADATA_MAX);
	struct step *s = add_step(tx, SQL_METADATA);

	(void)row_write_metadata(metadata, &b);
	add_document(tx, s, &b);
	add_text(tx, s, id);
}

void store_tx_delete(struct store_tx *tx, const char *id)
{
	add_text(tx, add_step(tx, SQL_DELETE), id);
}

void store_tx_intent(struct store_tx *tx, const char *id, enum sandbox_intent intent)
{
	struct step *s = add_step(tx, intent == INTENT_NONE ? SQL_NO_INTENT : SQL_INTENT);

	add_text(tx, s, id);
	if (intent != INTENT_NONE)
		add_text(tx, s, sandbox_intent_name(intent));
}

void store_tx_event(struct store_tx *tx, const struct store_event *event)
{
	struct step *s = add_step(tx, SQL_EVENT);

	add_text(tx, s, event->sandbox_id);
	add_int(s, event->at_us);
	add_text(tx, s, event->scope);
	add_text(tx, s, event->type);
	add_text(tx, s, event->message);
	s = add_step(tx, SQL_TRIM_EVENTS);
	add_text(tx, s, event->sandbox_id);
	add_int(s, STORE_EVENTS_MAX);
}

void store_tx_key(struct store_tx *tx, const struct store_key *key)
{
	struct step *s = add_step(tx, SQL_KEY);

	add_bytes(tx, s, PARAM_TEXT, key->key);
	add_bytes(tx, s, PARAM_BLOB, (struct str){ (const char *)key->body, sizeof(key->body) });
	add_text(tx, s, key->sandbox_id);
	add_int(s, key->expires_us);
}

void store_tx_forget_key(struct store_tx *tx, struct str key)
{
	add_bytes(tx, add_step(tx, SQL_FORGET_KEY), PARAM_TEXT, key);
}

void store_tx_volume(struct store_tx *tx, const struct volume_row *row)
{
	struct step *s = add_step(tx, SQL_VOLUME);

	add_text(tx, s, row->name);
	add_text(tx, s, row->id);
	add_int(s, (int64_t)row->size_bytes);
	add_int(s, row->created_us);
	add_text(tx, s, volume_state_name(row->state));
}

void store_tx_forget_volume(struct store_tx *tx, const char *id)
{
	add_text(tx, add_step(tx, SQL_FORGET_VOLUME), id);
}

void store_tx_meta(struct store_tx *tx, const char *name, struct str value)
{
	struct step *s = add_step(tx, SQL_META);

	add_text(tx, s, name);
	add_bytes(tx, s, PARAM_BLOB, value);
}

void store_tx_spec(struct store_tx *tx, const struct sandbox_row *row)
{
	AUTO(buf_done) struct buf spec = BUF_INIT(ROW_SPEC_MAX);
	struct step *s = add_step(tx, SQL_SPEC);

	(void)row_write_spec(row, &spec);
	add_document(tx, s, &spec);
	add_text(tx, s, row->id);
}

static void add_sum(struct store_tx *tx, struct step *s, const unsigned char *sum, size_t n)
{
	add_bytes(tx, s, PARAM_BLOB, (struct str){ (const char *)sum, n });
}

void store_tx_image(struct store_tx *tx, const struct store_image *image)
{
	struct step *s = add_step(tx, SQL_IMAGE);

	add_text(tx, s, image->name);
	add_text(tx, s, image->os);
	add_text(tx, s, image->arch);
	add_sum(tx, s, image->digest.bytes, image->digest.size);
	add_bytes(tx, s, PARAM_BLOB, image->manifest);
	add_bytes(tx, s, PARAM_BLOB, image->config);
	add_int(s, image->is_private);
	add_int(s, image->pulled_us);
	add_int(s, image->is_kept);
}

void store_tx_forget_image(struct store_tx *tx, const char *name, const char *os, const char *arch)
{
	struct step *s = add_step(tx, SQL_FORGET_IMAGE);

	add_text(tx, s, name);
	add_text(tx, s, os);
	add_text(tx, s, arch);
}

void store_tx_layer(struct store_tx *tx, const unsigned char name[DIGEST_NAME_SIZE], bool is_given)
{
	add_sum(tx, add_step(tx, is_given ? SQL_LAYER : SQL_FORGET_LAYER), name, DIGEST_NAME_SIZE);
}

/* ---- snapshots ---- */

void store_tx_durable(struct store_tx *tx)
{
	if (tx)
		tx->is_durable = true;
}

void store_tx_snapshot(struct store_tx *tx, const struct snapshot_row *row)
{
	AUTO(buf_done) struct buf spec = BUF_INIT(ROW_SPEC_MAX);
	struct step *s = add_step(tx, SQL_SNAPSHOT);

	store_tx_durable(tx);
	(void)snapshot_row_write_spec(row, &spec);
	add_text(tx, s, row->id);
	add_text(tx, s, row->sandbox_id);
	add_text(tx, s, row->name ? row->name : "");
	add_document(tx, s, &spec);
	add_text(tx, s, snapshot_state_name(row->state));
	add_text(tx, s, row->reason);
	add_text(tx, s, row->message);
	add_int(s, row->created_us);
	add_int(s, row->changed_us);
}

void store_tx_snapshot_state(struct store_tx *tx, const struct snapshot_row *row)
{
	AUTO(buf_done) struct buf spec = BUF_INIT(ROW_SPEC_MAX);
	struct step *s = add_step(tx, SQL_SNAPSHOT_STATE);

	store_tx_durable(tx);
	(void)snapshot_row_write_spec(row, &spec);
	add_text(tx, s, snapshot_state_name(row->state));
	add_text(tx, s, row->reason);
	add_text(tx, s, row->message);
	add_int(s, row->changed_us);
	add_document(tx, s, &spec);
	add_text(tx, s, row->id);
}

void store_tx_snapshot_delete(struct store_tx *tx, const char *id)
{
	store_tx_durable(tx);
	add_text(tx, add_step(tx, SQL_SNAPSHOT_DELETE), id);
}

/* ---- pools ---- */

static void add_capacity(struct step *s, const struct pool_capacity *c)
{
	add_int(s, c->buffer_min);
	add_int(s, c->buffer_max);
	add_int(s, c->pool_min);
	add_int(s, c->pool_max);
}

static struct step *add_durable(struct store_tx *tx, enum statement statement)
{
	store_tx_durable(tx);
	return add_step(tx, statement);
}

void store_tx_pool(struct store_tx *tx, const struct store_pool *pool)
{
	struct step *s = add_durable(tx, SQL_POOL);

	add_text(tx, s, pool->id);
	add_text(tx, s, pool->name);
	add_bytes(tx, s, PARAM_TEXT, pool->template);
	add_capacity(s, &pool->capacity);
	add_int(s, pool->created_us);
}

void store_tx_pool_capacity(struct store_tx *tx, const char *pool_id, const struct pool_capacity *capacity)
{
	struct step *s = add_durable(tx, SQL_POOL_CAPACITY);

	add_capacity(s, capacity);
	add_text(tx, s, pool_id);
}

void store_tx_pool_delete(struct store_tx *tx, const char *pool_id)
{
	add_text(tx, add_durable(tx, SQL_POOL_DELETE), pool_id);
}
