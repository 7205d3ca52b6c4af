// SPDX-License-Identifier: Apache-2.0
/* The copy of a snapshot's record that the runtime keeps with it (runtime.h, snapshot_record_set()): written once the snapshot is
 * Ready, removed before the record is, and given back where there is no record: the database and its copy may both have lost it.
 * What has no such copy was never a whole snapshot, or is to go.
 *
 * A sum, then numbers and names, the document of the database's row, and the name. */
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/sha256.h"
#include "server/model/snapshot_impl.h"

#include "base/banned.h"

#define VERSION 1
#define RECORD_AGAIN_MS 2000

/* ---- its form ---- */

static bool write_record(const struct snapshot_row *r, struct buf *out)
{
	AUTO(buf_done) struct buf body = BUF_INIT(RUNTIME_RECORD_MAX);
	char sum[SHA256_HEX_LEN + 1];

	buf_addf(&body, "%d %s %s %lld\n", VERSION, r->id, r->sandbox_id, (long long)r->created_us);
	if (!snapshot_row_write_spec(r, &body))
		return false;
	buf_addf(&body, "\n%s", r->name ? r->name : "");
	sha256_hex(buf_str(&body), sum);
	buf_addf(out, "%s\n", sum);
	return !body.failed && buf_add(out, body.p, body.n);
}

static struct str take_word(struct str *line)
{
	struct str word;

	(void)str_cut(*line, ' ', &word, line);
	return word;
}

static int read_record(struct str text, struct arena *a, struct snapshot_row *ret, struct err *e)
{
	struct snapshot_columns c = { .state = STR("Ready"), .reason = STR("snapshot_record_recovered"),
				      .message = STR("The record of this snapshot was lost, and made anew from the copy beside its layer.") };
	char sum[SHA256_HEX_LEN + 1];
	struct str first, line;
	uint64_t created;

	if (!str_cut(text, '\n', &first, &text))
		return err_set(e, ERR_INVALID, "a record without a sum");
	sha256_hex(text, sum);
	if (!str_is(first, sum) || !str_cut(text, '\n', &line, &text))
		return err_set(e, ERR_INVALID, "a record with another sum");
	if (!str_is(take_word(&line), "1"))
		return err_set(e, ERR_INVALID, "a record of another version");
	c.id = take_word(&line);
	c.sandbox_id = take_word(&line);
	if (!str_to_u64(line, 0, INT64_MAX, &created))
		return err_set(e, ERR_INVALID, "a record of no time");
	c.created_us = c.changed_us = (int64_t)created;
	(void)str_cut(text, '\n', &c.spec, &c.name);
	return snapshot_row_load(&c, a, ret, e);
}

/* ---- keeping it ---- */

static bool is_worth_another_try(const struct runtime_failure *failure)
{
	return failure && failure->err.code != ERR_NOT_FOUND;
}

static void on_sent(const struct runtime_failure *failure, void *arg)
{
	struct item *it = arg;

	it->is_record_sent = false;
	if (!is_worth_another_try(failure))
		return;
	log_warn("the copy of a snapshot's record could not be written, trying again", LOG_S("id", it->pub.row.id),
		 LOG_ERR(&failure->err));
	it->is_record_due = true;
	timer_in(&it->pub.set->flush, RECORD_AGAIN_MS);
}

/* It is told to be Ready before that: until then the database and its copy have it. */
void snapshot_record_send(struct item *it)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_RECORD_MAX);
	struct runtime *rt = it->pub.set->spec.runtime;
	const struct snapshot_row *r = &it->pub.row;

	it->is_record_due = false;
	if (!rt->ops->snapshot_record_set || !r->reference || r->state != SNAPSHOT_READY || it->is_record_sent)
		return;
	if (!write_record(r, &text)) {
		it->is_record_due = true;
		timer_in(&it->pub.set->flush, RECORD_AGAIN_MS);
		return;
	}
	it->is_record_sent = true;
	rt->ops->snapshot_record_set(rt, r->reference, buf_str(&text), on_sent, it);
}

/* ---- taking it for the record ---- */

/* That of another snapshot, in the place of this one's, is none. */
int snapshots_adopt(struct snapshots *s, const char *reference, struct str record, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ITEM_ARENA_MAX);
	struct snapshot_row row;

	if (read_record(record, &a, &row, e) < 0)
		return -1;
	if (!row.reference || strcmp(row.reference, reference) != 0)
		return err_set(e, ERR_INVALID, "a record of another snapshot");
	if (snapshot_adopt(s, &row, e) < 0)
		return -1;
	log_error("the record of a snapshot was lost, and is made anew from the copy beside its layer", LOG_S("id", row.id),
		  LOG_S("name", row.name ? row.name : ""));
	return 0;
}
