// SPDX-License-Identifier: Apache-2.0
/* Paths that a sandbox names while it is copied: what is taken is below the folder, whatever the kernel makes of it. The input is
 * the folder, a listed path and a link's target, each on a line of its own. */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "cli/copy/copy.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* Where PATH leads from a folder that has ABOVE others above it, without any links: -1 if out of the top one. */
static long walk(struct str path, long above)
{
	struct str part;

	while (path.n > 0) {
		(void)str_cut(path, '/', &part, &path);
		if (str_is(part, ".."))
			above--;
		else if (part.n > 0 && !str_is(part, "."))
			above++;
		if (above < 0)
			return -1;
	}
	return above;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	struct str top, listed, target, rest = { (const char *)data, size }, below;
	long above = 0;
	struct err e = { 0 };

	(void)str_cut(rest, '\n', &top, &rest);
	(void)str_cut(rest, '\n', &listed, &target);
	if (top.n == 0 || copy_below(top, listed, &below, &e) < 0)
		return 0;
	require(below.n > 0 && below.p[0] != '/' && walk(below, 0) > 0);
	require(str_starts(listed, top) && str_ends(listed, below));
	require(copy_list_add(&l, COPY_LINK, below, 1, 0777, &e) == 0);
	if (!copy_link_stays(below, target))
		return 0;
	for (size_t i = 0; i < below.n; i++)
		above += below.p[i] == '/';
	require(target.n > 0 && target.p[0] != '/' && walk(target, above) >= 0);
	return 0;
}
