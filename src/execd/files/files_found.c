// SPDX-License-Identifier: Apache-2.0
#include "execd/files/files_found.h"

#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "execd/files/files_walk.h"
#include "sys/path.h"

#include "base/banned.h"

/* What is told of a file, and how its path comes from the one before. */
struct entry {
	uint32_t keep, more; /* bytes of the path before, and bytes that follow here */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	off_t size;
	struct timespec modified, changed;
};

#define BYTES_MAX ((size_t)WALK_NAMES_MAX * (sizeof(struct entry) + PATH_COMPONENT_MAX + 1) + PATH_BYTES_MAX)

struct found found_init(void)
{
	return (struct found){ .bytes = BUF_INIT(BYTES_MAX), .path = BUF_INIT(WALK_PATH_MAX) };
}

void found_done(struct found *f)
{
	buf_done(&f->bytes);
	buf_done(&f->path);
}

static size_t common(struct str a, struct str b)
{
	size_t n = 0, max = MIN(a.n, b.n);

	while (n < max && a.p[n] == b.p[n])
		n++;
	return n;
}

int found_add(struct found *f, struct str path, const struct stat *st, struct err *e)
{
	size_t keep = common(buf_str(&f->path), path);
	struct entry entry = {
		.keep = (uint32_t)keep,
		.more = (uint32_t)(path.n - keep),
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = st->st_size,
		.modified = st->st_mtim,
		.changed = st->st_ctim,
	};

	buf_add(&f->bytes, (const char *)&entry, sizeof(entry));
	buf_add_str(&f->bytes, str_skip(path, keep));
	f->path.n = keep;
	buf_add_str(&f->path, str_skip(path, keep));
	return f->bytes.failed || f->path.failed ? err_no_memory(e) : 0;
}

void found_rewind(struct found *f)
{
	f->at = 0;
	buf_clear(&f->path);
}

bool found_next(struct found *f, struct str *ret_path, struct stat *ret)
{
	struct str rest = str_skip(buf_str(&f->bytes), f->at);
	struct entry entry;

	if (rest.n < sizeof(entry))
		return false;
	memcpy(&entry, rest.p, sizeof(entry)); /* it may lie anywhere */
	f->path.n = entry.keep;
	buf_add_str(&f->path, str_first(str_skip(rest, sizeof(entry)), entry.more));
	f->at += sizeof(entry) + entry.more;
	*ret_path = buf_str(&f->path);
	*ret = (struct stat){
		.st_mode = entry.mode,
		.st_uid = entry.uid,
		.st_gid = entry.gid,
		.st_size = entry.size,
		.st_mtim = entry.modified,
		.st_ctim = entry.changed,
	};
	return true;
}
