// SPDX-License-Identifier: Apache-2.0
/* What was read from a mountinfo line and is written as one again, escaped to the last byte, reads the same. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "sys/mountinfo.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_escaped(struct buf *b, const char *z)
{
	for (; *z; z++) {
		if (isalnum((unsigned char)*z))
			(void)buf_add_char(b, *z);
		else
			(void)buf_addf(b, "\\%03o", (unsigned char)*z);
	}
	(void)buf_add_char(b, ' ');
}

static void check_row(const struct mountinfo *m, struct arena *a)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct mountinfo n;
	struct err e;

	(void)buf_addf(&b, "%llu %llu %u:%u ", (unsigned long long)m->id, (unsigned long long)m->parent, m->major, m->minor);
	add_escaped(&b, m->root);
	add_escaped(&b, m->place);
	add_escaped(&b, m->options);
	(void)buf_addf(&b, "shared:1 - ");
	add_escaped(&b, m->fs);
	add_escaped(&b, m->source);
	(void)buf_addf(&b, "rw");
	if (b.failed)
		return;
	if (mountinfo_parse(buf_str(&b), a, &n, &e) < 0) {
		if (e.sys == ENOMEM)
			return;
		abort();
	}
	if (m->id != n.id || m->parent != n.parent || m->major != n.major || m->minor != n.minor ||
	    strcmp(m->root, n.root) != 0 || strcmp(m->place, n.place) != 0 || strcmp(m->options, n.options) != 0 ||
	    strcmp(m->fs, n.fs) != 0 || strcmp(m->source, n.source) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16 << 20);
	struct mountinfo_list all, some;
	struct err e;

	if (mountinfo_select((struct str){ (const char *)data, size }, "", &a, &all, &e) < 0)
		return 0;
	for (size_t i = 0; i < all.n; i++)
		check_row(&all.rows[i], &a);
	if (mountinfo_select((struct str){ (const char *)data, size }, "/a", &a, &some, &e) == 0 && some.n > all.n)
		abort();
	return 0;
}
