// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/volume_path.h"

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "sys/path.h"

#include "base/banned.h"

const char *volume_path_clean(const char *path, struct arena *a)
{
	AUTO(buf_done) struct buf whole = BUF_INIT(PATH_BYTES_MAX + 2);
	AUTO(buf_done) struct buf out = BUF_INIT(PATH_BYTES_MAX + 2);

	buf_addf(&whole, "/%s", path);
	if (whole.failed || path_clean(buf_str(&whole), &out, &(struct err){ 0 }) < 0)
		return NULL;
	return arena_dup(a, out.n == 1 ? STR("") : buf_str(&out));
}

int volume_path_find(const struct string_list *listed, const char *path, struct arena *a, const char **ret_rest)
{
	size_t longest = 0;
	int found = -1;

	for (size_t i = 0; i < listed->n; i++) {
		const char *folder = volume_path_clean(listed->items[i], a);
		size_t n = folder ? strlen(folder) : 0;

		if (!folder || strncmp(path, folder, n) != 0 || (path[n] != '\0' && path[n] != '/') || (found >= 0 && n < longest))
			continue;
		found = (int)i;
		longest = n;
	}
	*ret_rest = path + longest + (path[longest] == '/');
	return found;
}

bool volume_path_valid(const char *path)
{
	struct str rest = str_of(path), word;

	if (rest.n > VOLUME_PATH_MAX)
		return false;
	while (rest.n > 0) {
		bool has_more = str_cut(rest, '/', &word, &rest);

		if (word.n == 0 || word.n > PATH_COMPONENT_MAX || str_is(word, ".") || str_is(word, "..") || (has_more && rest.n == 0))
			return false;
	}
	return true;
}

static bool is_in(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool volume_mount_path_valid(const char *path)
{
	return path[0] == '/' && path[1] && strlen(path) <= VOLUME_PATH_MAX && volume_path_valid(path + 1) && !is_in(path, "/proc") &&
	       !is_in(path, "/sys") && !is_in(path, "/dev");
}
