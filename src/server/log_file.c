// SPDX-License-Identifier: Apache-2.0
#include "server/log_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"

#include "base/banned.h"

#define NAME_MAX_BYTES 4200 /* of a path, with the number of a rotated file */

int make_parents(const char *path, struct err *e)
{
	char folder[NAME_MAX_BYTES];
	size_t n = strlen(path);

	if (n >= sizeof(folder))
		return err_set(e, ERR_INVALID, "path '%.64s...' is too long", path);
	for (size_t i = 1; i < n; i++) {
		if (path[i] != '/')
			continue;
		memcpy(folder, path, i);
		folder[i] = '\0';
		if (mkdir(folder, 0700) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make folder '%s'", folder);
	}
	return 0;
}

int log_file_reopen(struct log_file *l, struct err *e)
{
	int fd, old = l->fd;

	if (!l->config || !l->config->file_enabled)
		return 0;
	fd = open(l->config->file_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return err_sys(e, errno, "open log '%s'", l->config->file_path);
	l->fd = fd;
	log_set_fd(fd);
	if (old >= 0)
		(void)close(old);
	return 0;
}

int log_file_open(struct log_file *l, const struct config_log *config, struct err *e)
{
	enum log_level level = LOG_LEVEL_INFO;

	*l = (struct log_file){ .config = config, .fd = -1 };
	if (!log_level_parse(str_of(config->level), &level))
		return err_set(e, ERR_INVALID, "log.level: unknown level '%s'", config->level);
	log_set_level(level);
	log_set_format((enum log_format)config->format);
	if (!config->file_enabled)
		return 0;
	if (make_parents(config->file_path, e) < 0)
		return -1;
	return log_file_reopen(l, e);
}

void log_file_done(struct log_file *l)
{
	if (l->fd < 0)
		return;
	log_set_fd(2);
	closep(&l->fd);
	l->fd = -1;
}

static int shift(const char *path, int64_t from, struct err *e)
{
	char old[NAME_MAX_BYTES], new[NAME_MAX_BYTES];

	if (from == 0)
		(void)snprintf(old, sizeof(old), "%s", path); /* paths have been checked to fit */
	else
		(void)snprintf(old, sizeof(old), "%s.%lld", path, (long long)from);
	(void)snprintf(new, sizeof(new), "%s.%lld", path, (long long)from + 1);
	if (rename(old, new) < 0 && errno != ENOENT)
		return err_sys(e, errno, "rotate log '%s'", path);
	return 0;
}

int log_file_rotate_if_large(struct log_file *l, struct err *e)
{
	const struct config_log *c = l->config;
	struct stat st;

	if (l->fd < 0 || c->file_max_bytes == 0 || fstat(l->fd, &st) < 0 || st.st_size < c->file_max_bytes)
		return 0;
	for (int64_t i = c->file_backup_count - 1; i >= 0; i--)
		if (shift(c->file_path, i, e) < 0)
			return -1;
	if (c->file_backup_count == 0 && unlink(c->file_path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "rotate log '%s'", c->file_path);
	return log_file_reopen(l, e);
}
