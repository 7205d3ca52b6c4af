// SPDX-License-Identifier: Apache-2.0
#include "cli/encoding.h"

#include <iconv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"

#include "base/banned.h"

#define PIECE 65536

bool encoding_is_utf8(const char *name)
{
	static const char *const names[] = { "utf-8", "utf8", "utf_8", "ascii", "us-ascii" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_nocase(str_of(name), str_of(names[i])))
			return true;
	return false;
}

static int convert(iconv_t how, struct str in, struct buf *out, struct err *e)
{
	char *from = (char *)(uintptr_t)in.p; /* iconv() takes no const, and changes nothing */
	size_t left = in.n;

	for (;;) {
		char *room = buf_reserve(out, PIECE), *to = room;
		size_t free_bytes = PIECE, done;

		if (!room)
			return err_set(e, ERR_LIMIT, "the text is too long");
		done = iconv(how, left > 0 ? &from : NULL, &left, &to, &free_bytes);
		buf_commit(out, (size_t)(to - room));
		if (done != (size_t)-1 && left == 0)
			return 0;
		if (done == (size_t)-1 && errno != E2BIG)
			return err_set(e, ERR_INVALID, "byte %zu is not of that encoding", in.n - left);
	}
}

/* Scripts have the names that Python knows. */
static const char *spelling(const char *name)
{
	static const char *const others[][2] = { { "latin-1", "latin1" }, { "utf_16", "utf-16" }, { "utf_32", "utf-32" } };

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (str_eq_nocase(str_of(name), str_of(others[i][0])))
			return others[i][1];
	return name;
}

int encoding_convert(const char *from, const char *to, struct str in, struct buf *out, struct err *e)
{
	const char *other = encoding_is_utf8(from) ? to : from;
	iconv_t how = iconv_open(spelling(to), spelling(from));
	int r;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* what failed is -1, which the analyser takes for something to be closed */
	if (how == (iconv_t)-1)
		return err_set(e, ERR_INVALID, "encoding '%s' is not known here", SHOWN(str_of(other)));
#pragma GCC diagnostic pop
	r = convert(how, in, out, e);
	(void)iconv_close(how);
	return r < 0 ? err_wrap(e, "encoding '%s'", SHOWN(str_of(other))) : 0;
}
