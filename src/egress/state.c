// SPDX-License-Identifier: Apache-2.0
#include "egress/state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/uuid.h"
#include "net/policy.h"
#include "sys/fd.h"

#include "base/banned.h"

#define SUFFIX ".json"
#define NEW_SUFFIX ".new"
#define NAME_MAX_ (ID_MAX + 16)

static void file_name(const char *id, const char *suffix, char out[NAME_MAX_])
{
	(void)snprintf(out, NAME_MAX_, "%s%s", id, suffix); /* ids are id_valid(), and fit */
}

int state_write(int dir, const char *id, const struct policy *p, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STATE_BYTES_MAX);
	char temp[NAME_MAX_];
	AUTO_FD fd = -1;

	file_name(id, NEW_SUFFIX, temp);
	policy_write(p, &b);
	buf_add_char(&b, '\n');
	if (b.failed)
		return err_set(e, ERR_LIMIT, "a policy that is too large");
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "make '%s'", temp);
	if (fd_write_all(fd, b.p, b.n, e) == 0)
		return 0;
	state_forget(dir, id);
	return err_wrap(e, "write '%s'", temp);
}

int state_replace(int dir, const char *id, struct err *e)
{
	char name[NAME_MAX_], temp[NAME_MAX_];

	file_name(id, SUFFIX, name);
	file_name(id, NEW_SUFFIX, temp);
	return renameat(dir, temp, dir, name) < 0 ? err_sys(e, errno, "rename '%s'", temp) : 0;
}

void state_forget(int dir, const char *id)
{
	char temp[NAME_MAX_];

	file_name(id, NEW_SUFFIX, temp);
	(void)unlinkat(dir, temp, 0); /* or the next start does it */
}

struct policy *state_load(int dir, const char *id, bool *ret_is_there, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STATE_BYTES_MAX);
	char name[NAME_MAX_];

	file_name(id, SUFFIX, name);
	if (fd_read_file(dir, name, STATE_BYTES_MAX, &b, e) < 0) {
		*ret_is_there = e->sys != ENOENT;
		return NULL;
	}
	*ret_is_there = true;
	return b.n == 0 ? (err_set(e, ERR_INVALID, "'%s' is empty", name), NULL) : policy_parse(buf_str(&b), 0, e);
}

void state_remove(int dir, const char *id)
{
	char name[NAME_MAX_];

	file_name(id, SUFFIX, name);
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		log_warn("cannot remove the policy of a sandbox", LOG_S("id", id));
	state_forget(dir, id);
}

/* A change of one that is kept may be on its way. */
static bool is_wanted(const char *name, bool (*keep)(const char *id, void *arg), void *arg)
{
	char id[ID_MAX + 1];
	struct str s = str_of(name);
	size_t n = s.n - (str_ends(s, STR(SUFFIX)) ? strlen(SUFFIX) : str_ends(s, STR(NEW_SUFFIX)) ? strlen(NEW_SUFFIX) : 0);

	if (n == s.n || n > ID_MAX)
		return false;
	memcpy(id, name, n);
	id[n] = '\0';
	return id_valid(str_of(id)) && keep(id, arg);
}

void state_sweep(int dir, bool (*keep)(const char *id, void *arg), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!d) {
		closep(&fd);
		return;
	}
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.' && !is_wanted(entry->d_name, keep, arg))
			(void)unlinkat(dir, entry->d_name, 0);
	(void)closedir(d);
}
