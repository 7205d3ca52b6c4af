// SPDX-License-Identifier: Apache-2.0
#include "image/dir_times.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "image/entry.h"
#include "sys/path.h"

#include "base/banned.h"

/* The path follows, with its NUL. */
struct note {
	int64_t s;
	int32_t ns;
	uint32_t path_size;
};

void dir_times_init(struct dir_times *t)
{
	*t = (struct dir_times){ BUF_INIT(DIR_TIMES_MAX) };
}

void dir_times_done(struct dir_times *t)
{
	buf_done(&t->notes);
}

int dir_times_note(struct dir_times *t, const struct entry *en, struct err *e)
{
	const struct note n = { en->mtime_s, (int32_t)en->mtime_ns, (uint32_t)strlen(en->path) + 1 };

	buf_add(&t->notes, &n, sizeof(n));
	buf_add(&t->notes, en->path, n.path_size);
	return t->notes.failed ? err_set(e, ERR_LIMIT, "the directories have longer names than an image may have") : 0;
}

static int apply(int root, const struct note *n, const char *path, struct err *e)
{
	const struct timespec both[2] = { { n->s, n->ns }, { n->s, n->ns } };
	struct err why = { 0 };
	AUTO_FD dir = root_open(root, path[0] ? path : "/", O_RDONLY | O_DIRECTORY, 0, &why);

	if (dir < 0 && (why.sys == ENOENT || why.sys == ENOTDIR || why.sys == ELOOP)) /* a symlink on its way has changed */
		return 0;
	if (dir < 0) {
		*e = why;
		return -1;
	}
	return futimens(dir, both) < 0 ? err_sys(e, errno, "set the time of a directory") : 0;
}

int dir_times_apply(const struct dir_times *t, int root, struct err *e)
{
	struct str rest = buf_str(&t->notes);

	while (rest.n > 0) {
		struct note n;

		memcpy(&n, rest.p, sizeof(n));
		rest = str_skip(rest, sizeof(n));
		if (apply(root, &n, rest.p, e) < 0)
			return -1;
		rest = str_skip(rest, n.path_size);
	}
	return 0;
}
