// SPDX-License-Identifier: Apache-2.0
#include "egress/state.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/policy.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/uuid.h"
#include "sys/fd.h"

#include "base/banned.h"

#define SUFFIX ".json"
#define NEW_SUFFIX ".new"
#define FILE_NAME_MAX (NAME_MAX + 1)
#define MODE_NEW 0600

/* Two places: the one that counts is never written to. */
struct state_memory {
	_Atomic unsigned current; /* 0: none, or 1 + the place that counts */
	size_t n[2];
	char text[2][STATE_BYTES_MAX];
};

struct state_memory *state_memory_new(struct err *e)
{
	void *p = mmap(NULL, sizeof(struct state_memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		(void)err_sys(e, errno, "map memory for a policy");
		return NULL;
	}
	return p;
}

static unsigned spare_of(const struct state_memory *m)
{
	return atomic_load(&m->current) == 1 ? 1 : 0;
}

static void file_name(const struct state *st, const char *id, const char *suffix, char out[FILE_NAME_MAX])
{
	const char *name = st->file ? st->file : id;
	const char *end = st->file && strcmp(suffix, SUFFIX) == 0 ? "" : suffix;

	(void)snprintf(out, FILE_NAME_MAX, "%s%s", name, end); /* ids are id_valid(), and fit; a name of the operator's was measured */
}

/* Who may read the operator's file goes on to. */
static void keep_mode(const struct state *st, const char *id, int fd)
{
	char name[FILE_NAME_MAX];
	struct stat old;

	file_name(st, id, SUFFIX, name);
	if (st->file && fstatat(st->dir, name, &old, 0) == 0)
		(void)fchmod(fd, old.st_mode & 0777); /* a file of somebody else's has ours */
}

static int write_file(const struct state *st, const char *id, struct str text, struct err *e)
{
	char temp[FILE_NAME_MAX];
	AUTO_FD fd = -1;

	file_name(st, id, NEW_SUFFIX, temp);
	fd = openat(st->dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, MODE_NEW);
	if (fd < 0)
		return err_sys(e, errno, "make '%s'", temp);
	keep_mode(st, id, fd);
	if (fd_write_all(fd, text.p, text.n, e) == 0)
		return 0;
	state_forget(st, id);
	return err_wrap(e, "write '%s'", temp);
}

int state_write(const struct state *st, const char *id, const struct policy *p, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STATE_BYTES_MAX);
	unsigned place;

	policy_write(p, &b);
	buf_add_char(&b, '\n');
	if (b.failed)
		return err_set(e, ERR_LIMIT, "a policy that is too large");
	if (!st->memory)
		return write_file(st, id, buf_str(&b), e);
	place = spare_of(st->memory);
	memcpy(st->memory->text[place], b.p, b.n);
	st->memory->n[place] = b.n;
	return 0;
}

int state_replace(const struct state *st, const char *id, struct err *e)
{
	char name[FILE_NAME_MAX], temp[FILE_NAME_MAX];

	if (st->memory) {
		atomic_store(&st->memory->current, spare_of(st->memory) + 1);
		return 0;
	}
	file_name(st, id, SUFFIX, name);
	file_name(st, id, NEW_SUFFIX, temp);
	return renameat(st->dir, temp, st->dir, name) < 0 ? err_sys(e, errno, "rename '%s'", temp) : 0;
}

void state_forget(const struct state *st, const char *id)
{
	char temp[FILE_NAME_MAX];

	if (st->memory)
		return;
	file_name(st, id, NEW_SUFFIX, temp);
	(void)unlinkat(st->dir, temp, 0); /* or the next start does it */
}

static int read_text(const struct state *st, const char *id, struct buf *b, struct err *e)
{
	unsigned current = st->memory ? atomic_load(&st->memory->current) : 0;
	char name[FILE_NAME_MAX];

	if (st->memory && (current < 1 || current > 2 || st->memory->n[current - 1] > STATE_BYTES_MAX))
		return err_sys(e, ENOENT, "no policy was kept");
	if (st->memory)
		return buf_add(b, st->memory->text[current - 1], st->memory->n[current - 1]) ? 0 : err_no_memory(e);
	file_name(st, id, SUFFIX, name);
	return fd_read_file(st->dir, name, STATE_BYTES_MAX, b, e);
}

struct policy *state_load(const struct state *st, const char *id, bool *ret_is_there, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STATE_BYTES_MAX);

	if (read_text(st, id, &b, e) < 0) {
		*ret_is_there = e->sys != ENOENT;
		return NULL;
	}
	*ret_is_there = true;
	if (str_trim(buf_str(&b)).n == 0) {
		(void)err_set(e, ERR_INVALID, "the policy of '%s' is empty", id);
		return NULL;
	}
	return policy_parse(buf_str(&b), 0, e);
}

void state_remove(const struct state *st, const char *id)
{
	char name[FILE_NAME_MAX];

	if (st->memory)
		return;
	file_name(st, id, SUFFIX, name);
	if (unlinkat(st->dir, name, 0) < 0 && errno != ENOENT)
		log_warn("cannot remove the policy of a sandbox", LOG_S("id", id));
	state_forget(st, id);
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

void state_sweep(const struct state *st, bool (*keep)(const char *id, void *arg), void *arg)
{
	int fd = st->file || st->memory ? -1 : openat(st->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!d) {
		closep(&fd);
		return;
	}
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.' && !is_wanted(entry->d_name, keep, arg))
			(void)unlinkat(st->dir, entry->d_name, 0);
	(void)closedir(d);
}
