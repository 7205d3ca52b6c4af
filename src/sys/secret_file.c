// SPDX-License-Identifier: Apache-2.0
#include "sys/secret_file.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/banned.h"

static bool is_open_to(const struct stat *st, mode_t group, mode_t other)
{
	return (st->st_mode & other) || ((st->st_mode & group) && st->st_gid != 0);
}

enum secret_file_fault secret_file_look(const char *path, enum secret_file_kind kind)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return SECRET_FILE_FINE;
	if (is_open_to(&st, S_IWGRP, S_IWOTH))
		return SECRET_FILE_WRITABLE;
	if (is_open_to(&st, kind == SECRET_FILE_SHARED ? 0 : S_IRGRP, S_IROTH))
		return SECRET_FILE_READABLE;
	return SECRET_FILE_FINE;
}

void secret_file_say(enum secret_file_fault fault, const char *path, enum secret_file_kind kind, char text[SECRET_FILE_TEXT_MAX])
{
	const char *what = fault == SECRET_FILE_WRITABLE ? "other users can change it" : "holds a secret that other users can read";

	/* A long path is cut, for people. */
	(void)snprintf(text, SECRET_FILE_TEXT_MAX, "%s: chmod %s %s", what, kind == SECRET_FILE_SHARED ? "640" : "600", path);
}
