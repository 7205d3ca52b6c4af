// SPDX-License-Identifier: Apache-2.0
/* osb cp, from here into a sandbox. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "cli/cli.h"
#include "cli/copy/copy_fleet.h"
#include "cli/copy/copy_job.h"
#include "cli/copy/copy_local.h"
#include "cli/values.h"

#include "base/banned.h"

#define FOLDERS_AT_ONCE 500
#define SCRIPT_MAX ((size_t)60 * 1024) /* of one command; a path may come on top of it */
#define STDIN_MODE 644

/* ---- files ---- */

static int send_file(struct copy_job *j, struct file_transfer *t, int64_t size, const char *path, int digits)
{
	const struct osb_entry entry = { .path = path, .mode = digits };

	t->cli = j->cli;
	t->what = j->bar.what = copy_base_name(path);
	t->bar = &j->bar;
	if (copy_ended(j, t, cli_wait(j->cli, NULL, osb_file_upload(j->sandbox, &entry, size,
								    file_transfer_read,
								    t, cli_call(j->cli)))) < 0)
		return -1;
	j->n_files++;
	j->n_bytes += t->done;
	return 0;
}

static int begin_file(struct copy_ship *s, void *arg)
{
	const struct osb_entry entry = { .path = s->path, .mode = copy_digits(s->entry->mode) };
	const int *top = arg;
	struct err e = { 0 };

	s->transfer.fd = copy_local_read(*top, s->entry->path, &e);
	s->transfer.owns_fd = true;
	if (s->transfer.fd < 0)
		return copy_refuse(s->j, &e);
	return osb_file_upload(s->j->sandbox, &entry, file_transfer_size(&s->transfer), file_transfer_read,
			       &s->transfer, s->call);
}

static int end_file(struct copy_ship *s, void *arg)
{
	(void)arg;
	s->j->n_files++;
	s->j->n_bytes += s->transfer.done;
	return 0;
}

/* ---- folders ---- */

/* The API would look for a variable in it. */
static bool is_awkward(const struct copy_entry *entry)
{
	return strchr(entry->path, '$') != NULL;
}

static int make_folders(struct copy_job *j, const struct osb_entry *entries, size_t n)
{
	if (n > 0 && copy_wait(j, osb_directory_create(j->sandbox, entries, n, cli_call(j->cli))) < 0)
		return -1;
	j->n_folders += n;
	return 0;
}

static int send_folders(struct copy_job *j, const struct copy_list *l, const char *to, unsigned mode)
{
	struct osb_entry entries[FOLDERS_AT_ONCE];
	size_t n = 0;

	entries[n++] = (struct osb_entry){ .path = to, .mode = copy_digits(mode) };
	for (size_t i = 0; i < l->n; i++) {
		if (l->items[i].kind != COPY_DIR || is_awkward(&l->items[i]))
			continue;
		if (n == FOLDERS_AT_ONCE) {
			if (make_folders(j, entries, n) < 0)
				return -1;
			n = 0;
		}
		entries[n] = (struct osb_entry){ .path = copy_join(j, to, str_of(l->items[i].path)), .mode = copy_digits(l->items[i].mode) };
		if (!entries[n++].path)
			return -1;
	}
	return make_folders(j, entries, n);
}

/* ---- what the API cannot do ---- */

/* Commands of the sandbox's own shell: links, and names with a '$' in them, which the API takes for variables until they exist. */
struct script {
	struct copy_job *j;
	struct buf text;
};

static int script_run(struct script *s)
{
	const struct osb_command command = { .size = sizeof(command), .command = buf_z(&s->text) };
	AUTO(osb_free) struct osb_execution *x = NULL;
	struct cli *cli = s->j->cli;

	if (s->text.n == 0)
		return 0;
	if (copy_wait(s->j, osb_command_run(s->j->sandbox, &command, NULL, NULL, &x, cli_call(cli))) < 0)
		return -1;
	buf_clear(&s->text);
	if (x->has_exit_code && x->exit_code == 0)
		return 0;
	(void)cli_fail(cli, "a shell of the sandbox had to make links or names with a '$', and says: %s",
		       x->stderr_text && x->stderr_text[0] ? SHOWN(str_of(x->stderr_text)) : "nothing");
	return -1;
}

/* One more step: a command, and words that are quoted. The words are copied. */
static int script_add(struct script *s, const char *command, const char *first, const char *second)
{
	char *words[] = { arena_dup(&s->j->cli->arena, str_of(first)), second ? arena_dup(&s->j->cli->arena, str_of(second)) : NULL };

	if (!words[0] || (second && !words[1]))
		return cli_fail(s->j->cli, "out of memory"), -1;
	buf_addf(&s->text, "%s%s", s->text.n > 0 ? " && " : "", command);
	value_quote(words, second ? 2 : 1, &s->text);
	return s->text.n < SCRIPT_MAX ? 0 : script_run(s);
}

static int script_entry(struct script *s, const struct copy_entry *entry, const char *to)
{
	const char *path = copy_join(s->j, to, str_of(entry->path));
	char command[32];

	if (!path)
		return -1;
	switch (entry->kind) {
	case COPY_LINK:
		s->j->n_links++;
		return script_add(s, "ln -sfn -- ", entry->target, path);
	case COPY_FILE:
		return script_add(s, ": >> ", path, NULL);
	case COPY_DIR:
		break;
	}
	(void)snprintf(command, sizeof(command), "chmod %03o -- ", entry->mode);
	s->j->n_folders++;
	return script_add(s, "mkdir -p -- ", path, NULL) < 0 ? -1 : script_add(s, command, path, NULL);
}

/* Of links all, of the others those with awkward names. */
static int send_by_shell(struct copy_job *j, const struct copy_list *l, const char *to, bool does_links)
{
	struct script s = { .j = j, .text = BUF_INIT(4 * SCRIPT_MAX) };
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++) {
		const struct copy_entry *entry = &l->items[i];

		if (does_links ? entry->kind != COPY_LINK : entry->kind == COPY_LINK || !is_awkward(entry))
			continue;
		rc = copy_is_literal(j, to) ? script_entry(&s, entry, to) : -1;
	}
	if (rc == 0)
		rc = script_run(&s);
	buf_done(&s.text);
	return rc;
}

/* ---- all of it ---- */

static int send_tree(struct copy_job *j, const char *from, const char *to, unsigned mode)
{
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	AUTO_FD top = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };

	if (top < 0)
		return err_sys(&e, errno, "open '%s'", from), copy_refuse(j, &e);
	if (copy_local_list(top, &l, &e) < 0)
		return copy_refuse(j, &e);
	j->n_skipped += l.n_skipped;
	progress_init(&j->bar, STDERR_FILENO, j->is_quiet, STR(""), l.bytes);
	if (send_folders(j, &l, to, mode) < 0 || send_by_shell(j, &l, to, false) < 0)
		return -1;
	if (copy_fleet(j, &l, to, begin_file, end_file, &top) < 0)
		return -1;
	return send_by_shell(j, &l, to, true);
}

static int send_stream(struct copy_job *j, const char *to)
{
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;

	t.fd = STDIN_FILENO;
	progress_init(&j->bar, STDERR_FILENO, j->is_quiet, STR(""), PROGRESS_UNKNOWN);
	return send_file(j, &t, -1, to, STDIN_MODE);
}

int copy_up(struct copy_job *j, const struct copy_place *from, const struct copy_place *to, bool to_is_dir)
{
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
	struct str name = copy_base_name(from->path);
	const char *path = to->path[0] ? to->path : ".";
	struct err e = { 0 };
	struct stat st;

	if (from->side == COPY_STREAM && !to_is_dir)
		return send_stream(j, path);
	if (from->side == COPY_STREAM)
		return cli_fail(j->cli, "'-' has no name: say the whole path in the sandbox"), -1;
	if (stat(from->path, &st) < 0)
		return err_sys(&e, errno, "'%s'", from->path), copy_refuse(j, &e);
	if (to_is_dir && !from->wants_contents && name.n > 0)
		path = copy_join(j, path, name);
	if (!path)
		return -1;
	if (S_ISDIR(st.st_mode))
		return send_tree(j, from->path, path, st.st_mode & 0777);
	t.fd = open(from->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	t.owns_fd = true;
	if (t.fd < 0)
		return err_sys(&e, errno, "open '%s'", from->path), copy_refuse(j, &e);
	progress_init(&j->bar, STDERR_FILENO, j->is_quiet, name, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : PROGRESS_UNKNOWN);
	return send_file(j, &t, file_transfer_size(&t), path, copy_digits(st.st_mode));
}
