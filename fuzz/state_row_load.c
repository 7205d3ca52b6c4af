// SPDX-License-Identifier: Apache-2.0
/* A row of the database: whatever it holds, it is refused or reads back as it was written.
 * Input: lines "created expires deadline changed", id, spec, metadata, state, reason, message, intent. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "server/store/row.h"

#include "columns.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_row(const struct sandbox_row *r, struct buf *spec, struct buf *metadata)
{
	if (!row_write_spec(r, spec) || !row_write_metadata(&r->metadata, metadata))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(32 << 20);
	AUTO(buf_done) struct buf spec = BUF_INIT(32 << 20);
	AUTO(buf_done) struct buf metadata = BUF_INIT(32 << 20);
	AUTO(buf_done) struct buf spec_again = BUF_INIT(32 << 20);
	AUTO(buf_done) struct buf metadata_again = BUF_INIT(32 << 20);
	struct str in = { (const char *)data, size }, numbers = line(&in);
	struct row_columns c = { .created_us = number(&numbers), .expires_us = number(&numbers) };
	struct sandbox_row r, again;
	struct err e = { 0 };

	c.deadline_ms = number(&numbers);
	c.changed_us = number(&numbers);
	c.id = line(&in), c.spec = line(&in), c.metadata = line(&in), c.state = line(&in);
	c.reason = line(&in), c.message = line(&in), c.intent = line(&in);
	if (row_load(&c, &a, &r, &e) < 0) {
		if (e.code == ERR_NONE || e.msg[0] == '\0')
			abort();
		return 0;
	}
	write_row(&r, &spec, &metadata);
	c.spec = buf_str(&spec);
	c.metadata = buf_str(&metadata);
	if (spec.n > ROW_SPEC_MAX || metadata.n > ROW_METADATA_MAX) /* escapes make it longer than what was read */
		return 0;
	if (row_load(&c, &a, &again, &e) < 0)
		abort();
	write_row(&again, &spec_again, &metadata_again);
	if (!str_eq(buf_str(&spec), buf_str(&spec_again)) || !str_eq(buf_str(&metadata), buf_str(&metadata_again)))
		abort();
	return 0;
}
