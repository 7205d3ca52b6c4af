// SPDX-License-Identifier: Apache-2.0
/* A pattern and, behind a NUL, a name: the answer is the same for a second time, the negation of the pattern says the
 * opposite, and a pattern of the name's own characters, escaped, matches it. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "execd/files/glob.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAME_MAX_HERE 4096

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_negation(struct str pattern, struct str name, bool matches)
{
	AUTO(buf_done) struct buf b = BUF_INIT(2 * GLOB_BYTES_MAX);
	AUTO(glob_free) struct glob *g = NULL;

	/* A closing parenthesis of the pattern's own would end the group. */
	if (pattern.n > 0 && memchr(pattern.p, ')', pattern.n))
		return;
	buf_addf(&b, "!(%.*s)", STR_ARG(pattern));
	g = glob_new(buf_str(&b), &(struct err){ 0 });
	require(!g || glob_matches(g, name) != matches);
}

static void check_escaped(struct str name)
{
	AUTO(buf_done) struct buf b = BUF_INIT(GLOB_BYTES_MAX);
	AUTO(glob_free) struct glob *g = NULL;
	struct err e = { 0 };

	for (size_t i = 0, n; i < name.n && b.n < GLOB_BYTES_MAX - 8; i += n) {
		uint32_t rune;

		n = utf8_next(str_skip(name, i), &rune);
		n = n > 0 ? n : 1;
		buf_add_char(&b, '\\');
		buf_add_str(&b, str_first(str_skip(name, i), n));
		if (b.n >= GLOB_BYTES_MAX - 8)
			return;
	}
	g = glob_new(buf_str(&b), &e);
	require(g && glob_matches(g, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size }, pattern, name;
	AUTO(glob_free) struct glob *g = NULL;
	struct err e = { 0 };
	bool matches;

	if (size > GLOB_BYTES_MAX + NAME_MAX_HERE)
		return 0;
	(void)str_cut(in, '\0', &pattern, &name);
	if (name.n > 0 && memchr(name.p, '\0', name.n))
		return 0;
	check_escaped(name);
	g = glob_new(pattern, &e);
	require(g || e.code == ERR_INVALID);
	if (!g)
		return 0;
	matches = glob_matches(g, name);
	require(glob_matches(g, name) == matches);
	check_negation(pattern, name, matches);
	return 0;
}
