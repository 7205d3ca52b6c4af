// SPDX-License-Identifier: Apache-2.0
/* An archive, compressed or not, into a sink that keeps nothing: whatever comes through must obey the rules of I2 and I3,
 * once as a root file system and once as a layer, whose whiteouts mean something. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/str.h"
#include "image/entry.h"
#include "image/tar.h"

#include "base/banned.h"

#define BYTES_MAX ((uint64_t)1 << 24)
#define ENTRIES_MAX 1000

struct seen {
	uint64_t bytes, entries, size, end;
	enum entry_kind kind;
	int is_open, is_layer;
};

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_path(const char *path)
{
	struct str rest = str_of(path), part;
	size_t depth = 0;

	check(rest.n <= PATH_BYTES_MAX);
	while (rest.n > 0) {
		(void)str_cut(rest, '/', &part, &rest);
		check(part.n > 0 && part.n <= PATH_COMPONENT_MAX && !str_is(part, ".") && !str_is(part, "..") &&
		      !str_starts(part, STR(".wh.")) && ++depth <= ENTRY_DEPTH_MAX);
	}
	check(path[0] == '\0' || path[strlen(path) - 1] != '/');
}

static int make(void *arg, const struct entry *en, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	check(!s->is_open);
	check_path(en->path);
	check(en->path[0] || en->kind == ENTRY_DIR);
	check(s->is_layer || (en->kind != ENTRY_WHITEOUT && en->kind != ENTRY_OPAQUE));
	check(en->uid <= ENTRY_ID_MAX && en->gid <= ENTRY_ID_MAX && en->mode <= 07777);
	check(en->kind != ENTRY_DEVICE && en->kind != ENTRY_UNKNOWN);
	if (en->kind == ENTRY_HARDLINK)
		check_path(en->target);
	if (en->kind == ENTRY_SYMLINK)
		check(en->target[0] != '\0');
	s->bytes += en->size;
	check(s->bytes <= BYTES_MAX && ++s->entries <= ENTRIES_MAX);
	s->size = en->size;
	s->end = 0;
	s->kind = en->kind;
	s->is_open = 1;
	return 0;
}

static int attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	(void)arg;
	(void)e;
	check(str_starts(str_of(name), STR("user.")) && !str_starts(str_of(name), STR("user.overlay.")));
	check(n == 0 || value != NULL);
	return 0;
}

static int data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	struct seen *s = arg;
	volatile char last = ((const char *)p)[n - 1];

	(void)e;
	(void)last;
	check(s->is_open && s->kind == ENTRY_FILE && at >= s->end && at <= s->size && n <= s->size - at);
	s->end = at + n;
	return 0;
}

static int end(void *arg, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	check(s->is_open);
	s->is_open = 0;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct tar_sink sink = { make, attr, data, end };
	const struct tar_limits limits = { BYTES_MAX, ENTRIES_MAX };
	struct digest digest = { .size = SHA256_SIZE };

	for (int is_layer = 0; is_layer < 2; is_layer++) {
		const struct tar_source source = { .fd = -1, .bytes = { (const char *)bytes, n },
						   .form = is_layer ? ENTRY_LAYER : ENTRY_TAR,
						   .ret_digest = is_layer ? &digest : NULL };
		struct seen seen = { .is_layer = is_layer };
		struct err e = { 0 };

		if (tar_read(&source, &limits, &sink, &seen, &e) < 0)
			check(e.code != ERR_NONE && e.msg[0] != '\0');
	}
	return 0;
}
