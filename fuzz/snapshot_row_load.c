// SPDX-License-Identifier: Apache-2.0
/* A row of the table of snapshots: whatever it holds, it is refused or reads back as it was written.
 * Input: lines "created changed", id, sandbox id, name, spec, state, reason, message. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "server/store/snapshot_row.h"

#include "columns.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(8 << 20);
	AUTO(buf_done) struct buf spec = BUF_INIT(1 << 20);
	AUTO(buf_done) struct buf again = BUF_INIT(1 << 20);
	struct str in = { (const char *)data, size }, numbers = line(&in);
	struct snapshot_columns c = { .created_us = number(&numbers) };
	struct snapshot_row r;
	struct err e = { 0 };

	c.changed_us = number(&numbers);
	c.id = line(&in), c.sandbox_id = line(&in), c.name = line(&in), c.spec = line(&in);
	c.state = line(&in), c.reason = line(&in), c.message = line(&in);
	if (snapshot_row_load(&c, &a, &r, &e) < 0) {
		if (e.code == ERR_NONE || e.msg[0] == '\0')
			abort();
		return 0;
	}
	if ((r.reference && strlen(r.reference) > RUNTIME_REFERENCE_MAX) || !snapshot_row_write_spec(&r, &spec))
		abort();
	c.spec = buf_str(&spec);
	if (snapshot_row_load(&c, &a, &r, &e) < 0) /* escapes make it longer than what was read */
		return e.code == ERR_INVALID || e.code == ERR_LIMIT ? 0 : (abort(), 0);
	if (!snapshot_row_write_spec(&r, &again) || !str_eq(buf_str(&spec), buf_str(&again)))
		abort();
	return 0;
}
