// SPDX-License-Identifier: Apache-2.0
/* Checksums of the durable tables, and the number of their last change: the stamp.
 *
 * The sum of a table is the exclusive or of the SHA-256 of its rows. Triggers of the connection, which are not part of the file,
 * pass each row that comes or goes to a function of SQL that adds it: to add a row twice is to take it away. */
#include <stdio.h>

#include "base/buf.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

#define FUNCTION "durable_row"
#define CHECK_SIZE 8
#define SUMS_SIZE (DURABLE_TABLES * sizeof(struct table_sum))
#define STAMP_SIZE (8 + 8 + SUMS_SIZE + CHECK_SIZE) /* version of the schema, number, sums, checksum of all that */

_Static_assert(STAMP_SIZE <= STORE_META_MAX, "a stamp is a value of meta");

#define SNAPSHOT_COLUMNS "id, sandbox_id, name, spec, state, reason, message, created_us, changed_us"
#define IMAGE_COLUMNS "name, os, arch, digest, manifest, config, is_private, pulled_us, is_kept"
#define POOL_COLUMNS "id, name, template, buffer_min, buffer_max, pool_min, pool_max, created_us"

const struct durable durables[DURABLE_TABLES] = {
	[DURABLE_VOLUMES] = { "volumes", "id, name, size_bytes, created_us, state", "id", "name", "name",
			      "a volume was restored from the copy of the database" },
	[DURABLE_SNAPSHOTS] = { "snapshots", SNAPSHOT_COLUMNS, "id", "id", "id",
				"a snapshot was restored from the copy of the database" },
	[DURABLE_IMAGES] = { "images", IMAGE_COLUMNS, "name, os, arch", "name", "name",
			     "an image was restored from the copy of the database" },
	[DURABLE_IMAGE_LAYERS] = { "image_layers", "digest", "digest", "lower(hex(digest))", "layer",
				   "a layer of an image was restored from the copy of the database" },
	[DURABLE_POOLS] = { "pools", POOL_COLUMNS, "id", "name", "name", "a pool was restored from the copy of the database" },
};

/* ---- the sum of a row ---- */

static void put_u64(unsigned char *out, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		out[i] = (unsigned char)(v >> (56 - 8 * i));
}

static uint64_t get_u64(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static void add_value(struct sha256 *sha, sqlite3_value *v)
{
	int type = sqlite3_value_type(v), n = type == SQLITE_INTEGER ? 0 : sqlite3_value_bytes(v);
	unsigned char head[9] = { (unsigned char)type };

	put_u64(head + 1, type == SQLITE_INTEGER ? (uint64_t)sqlite3_value_int64(v) : (uint64_t)n);
	sha256_add(sha, head, sizeof(head));
	if (n > 0)
		sha256_add(sha, sqlite3_value_blob(v), (size_t)n);
}

/* durable_row(table, column, ...) */
static void on_row(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct stamp *stamp = sqlite3_user_data(context);
	int64_t table = n > 0 ? sqlite3_value_int64(values[0]) : -1;
	unsigned char sum[SHA256_SIZE];
	struct sha256 sha;

	if (table < 0 || table >= DURABLE_TABLES) {
		sqlite3_result_error(context, FUNCTION ": no such table", -1);
		return;
	}
	sha256_init(&sha);
	for (int i = 1; i < n; i++)
		add_value(&sha, values[i]);
	sha256_end(&sha, sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		stamp->sums[table].bytes[i] ^= sum[i];
}

static int add_function(struct connection *c, struct err *e)
{
	c->rc = sqlite3_create_function_v2(c->db, FUNCTION, -1, SQLITE_UTF8 | SQLITE_INNOCUOUS, &c->stamp, on_row, NULL, NULL, NULL);
	return c->rc == SQLITE_OK ? 0 : sql_error(c->db, c->rc, "prepare the checksums", e);
}

/* "NEW.id, NEW.name" of "id, name" */
static void add_columns(struct buf *b, const char *row, const char *columns)
{
	buf_addf(b, ", %s.", row);
	for (; *columns; columns++) {
		buf_add(b, columns, 1);
		if (*columns == ' ')
			buf_addf(b, "%s.", row);
	}
}

static void add_trigger(struct buf *b, size_t table, const char *event, const char *first, const char *second)
{
	const char *rows[] = { first, second };

	buf_addf(b, "CREATE TEMP TRIGGER %s_%s AFTER %s ON main.%s BEGIN ", durables[table].table, event, event, durables[table].table);
	for (size_t i = 0; i < ARRAY_LEN(rows) && rows[i]; i++) {
		buf_addf(b, "SELECT " FUNCTION "(%zu", table);
		add_columns(b, rows[i], durables[table].columns);
		buf_addf(b, "); ");
	}
	buf_addf(b, "END;");
}

int stamp_follow(struct connection *c, struct err *e)
{
	AUTO(buf_done) struct buf sql = BUF_INIT(16384);

	if (c->has_triggers)
		return 0;
	if (add_function(c, e) < 0)
		return -1;
	for (size_t i = 0; i < DURABLE_TABLES; i++) {
		add_trigger(&sql, i, "INSERT", "NEW", NULL);
		add_trigger(&sql, i, "DELETE", "OLD", NULL);
		add_trigger(&sql, i, "UPDATE", "OLD", "NEW");
	}
	if (sql.failed)
		return err_no_memory(e);
	if (connection_do(c, buf_z(&sql), e) < 0)
		return -1;
	c->has_triggers = true;
	return 0;
}

int stamp_sum(struct connection *c, struct table_sum out[DURABLE_TABLES], struct err *e)
{
	char sql[256];

	if (add_function(c, e) < 0)
		return -1;
	memset(c->stamp.sums, 0, SUMS_SIZE);
	for (size_t i = 0; i < DURABLE_TABLES; i++) {
		(void)snprintf(sql, sizeof(sql), "SELECT " FUNCTION "(%zu, %s) FROM %s", i, durables[i].columns, durables[i].table);
		if (connection_do(c, sql, e) < 0)
			return -1;
	}
	memcpy(out, c->stamp.sums, SUMS_SIZE);
	return 0;
}

/* ---- the stamp ---- */

bool stamp_eq(const struct stamp *a, const struct stamp *b)
{
	return a->seq == b->seq && memcmp(a->sums, b->sums, SUMS_SIZE) == 0;
}

static void encode_stamp(const struct stamp *stamp, unsigned char out[STAMP_SIZE])
{
	unsigned char sum[SHA256_SIZE];

	put_u64(out, store_schema.n);
	put_u64(out + 8, (uint64_t)stamp->seq);
	memcpy(out + 16, stamp->sums, SUMS_SIZE);
	sha256((struct str){ (const char *)out, STAMP_SIZE - CHECK_SIZE }, sum);
	memcpy(out + STAMP_SIZE - CHECK_SIZE, sum, CHECK_SIZE);
}

static enum stamp_state decode_stamp(const unsigned char *p, size_t n, struct stamp *ret)
{
	unsigned char sum[SHA256_SIZE];

	if (n < 8 + 8 + CHECK_SIZE)
		return STAMP_BAD;
	sha256((struct str){ (const char *)p, n - CHECK_SIZE }, sum);
	if (memcmp(p + n - CHECK_SIZE, sum, CHECK_SIZE) != 0 || get_u64(p + 8) > INT64_MAX - 1)
		return STAMP_BAD;
	ret->seq = (int64_t)get_u64(p + 8);
	if (get_u64(p) != store_schema.n || n != STAMP_SIZE)
		return STAMP_OLD;
	memcpy(ret->sums, p + 16, SUMS_SIZE);
	return STAMP_GOOD;
}

int stamp_read(struct connection *c, enum stamp_state *ret_state, struct stamp *ret, struct err *e)
{
	char value[STORE_META_MAX];
	size_t n, unmade;

	if (connection_meta(c, STAMP_UNMADE_NAME, value, &unmade, e) < 0 || connection_meta(c, STAMP_NAME, value, &n, e) < 0)
		return -1;
	*ret = (struct stamp){ 0 };
	*ret_state = n > 0 ? decode_stamp((const unsigned char *)value, n, ret) : unmade > 0 ? STAMP_UNMADE : STAMP_NONE;
	return 0;
}

int stamp_write(struct connection *c, const struct stamp *stamp, struct err *e)
{
	unsigned char bytes[STAMP_SIZE];
	sqlite3_stmt *st = NULL;

	encode_stamp(stamp, bytes);
	c->rc = sqlite3_prepare_v2(c->db, "INSERT OR REPLACE INTO meta (name, value) VALUES ('" STAMP_NAME "', ?)", -1, &st, NULL);
	if (c->rc == SQLITE_OK)
		c->rc = sqlite3_bind_blob(st, 1, bytes, sizeof(bytes), SQLITE_STATIC);
	if (c->rc == SQLITE_OK)
		c->rc = sqlite3_step(st);
	(void)sqlite3_finalize(st);
	return c->rc == SQLITE_DONE ? 0 : sql_error(c->db, c->rc, "write the checksums", e);
}

int stamp_begin(struct connection *c, struct err *e)
{
	enum stamp_state state;

	if (stamp_read(c, &state, &c->stamp, e) < 0)
		return -1;
	/* None in a database that is being made, where there are no rows either. */
	return state == STAMP_GOOD || state == STAMP_NONE ? 0 : err_set(e, ERR_UNAVAILABLE, "the checksums of '%s' are not right", c->path);
}

int stamp_end(struct connection *c, struct err *e)
{
	c->stamp.seq++;
	return stamp_write(c, &c->stamp, e);
}
