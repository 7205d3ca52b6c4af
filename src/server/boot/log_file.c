// SPDX-License-Identifier: Apache-2.0
#include "server/boot/log_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "sys/path.h"

#include "base/banned.h"

#define NAME_MAX_BYTES 4200 /* of a path, with the number of a rotated file */

static int open_log(const char *path, int flags, struct err *e)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | flags, 0600);

	return fd < 0 ? err_sys(e, errno, "open log '%s'", path) : fd;
}

static void switch_to(struct log_file *l, int fd)
{
	log_set_fd(fd);
	closep(&l->fd);
	l->fd = fd;
}

int log_file_reopen(struct log_file *l, struct err *e)
{
	int fd;

	if (!l->config || !l->config->file_enabled)
		return 0;
	fd = open_log(l->config->file_path, 0, e);
	if (fd < 0)
		return -1;
	switch_to(l, fd);
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
	if (path_make_parents(config->file_path, 0700, e) < 0)
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

/* ---- rotation ---- */

static void backup_name(char out[NAME_MAX_BYTES], const char *path, int64_t number)
{
	if (number == 0)
		(void)snprintf(out, NAME_MAX_BYTES, "%s", path); /* paths have been checked to fit */
	else
		(void)snprintf(out, NAME_MAX_BYTES, "%s.%lld", path, (long long)number);
}

/* The backup that is missing, or the last one. What is beyond a gap stays: a rotation that was stopped half-way
 * costs no backup when it is tried again. */
static int64_t first_gap(const struct config_log *c)
{
	char name[NAME_MAX_BYTES];
	int64_t i = 1;

	for (; i < c->file_backup_count; i++) {
		backup_name(name, c->file_path, i);
		if (access(name, F_OK) < 0)
			break;
	}
	return i;
}

static int shift_backups(const struct config_log *c, struct err *e)
{
	char from[NAME_MAX_BYTES], to[NAME_MAX_BYTES];

	if (c->file_backup_count == 0)
		return 0; /* the new file replaces the old one */
	for (int64_t i = first_gap(c); i > 0; i--) {
		backup_name(from, c->file_path, i - 1);
		backup_name(to, c->file_path, i);
		if (rename(from, to) < 0)
			return err_sys(e, errno, "rotate log '%s'", c->file_path);
	}
	return 0;
}

/* The new file comes first: when it cannot be had, nothing has been moved. */
static int rotate(struct log_file *l, struct err *e)
{
	const char *path = l->config->file_path;
	char temp[NAME_MAX_BYTES];
	AUTO_FD fd = -1;
	int rc;

	(void)snprintf(temp, sizeof(temp), "%s.new", path);
	(void)unlink(temp); /* of a rotation that was stopped */
	fd = open_log(temp, O_EXCL, e);
	if (fd < 0)
		return -1;
	rc = shift_backups(l->config, e);
	if (rc == 0 && rename(temp, path) < 0)
		rc = err_sys(e, errno, "rotate log '%s'", path);
	if (rc == 0)
		switch_to(l, take_fd(&fd));
	else
		(void)unlink(temp);
	return rc;
}

/* False once somebody else has moved it away, or put another file in its place. */
static bool is_in_place(const struct log_file *l, const struct stat *mine)
{
	struct stat there;

	return stat(l->config->file_path, &there) == 0 && there.st_dev == mine->st_dev && there.st_ino == mine->st_ino;
}

int log_file_rotate_if_large(struct log_file *l, struct err *e)
{
	const struct config_log *c = l->config;
	struct stat st;

	if (l->fd < 0 || c->file_max_bytes == 0 || fstat(l->fd, &st) < 0 || st.st_size < c->file_max_bytes)
		return 0;
	return is_in_place(l, &st) ? rotate(l, e) : log_file_reopen(l, e);
}
