// SPDX-License-Identifier: Apache-2.0
/* osb cp, out of a sandbox: everything that it says is hostile (see copy.h). */
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
#include "cli/local_file.h"
#include "cli/values.h"
#include "sys/path.h"

#include "base/banned.h"

#define FILE_MODE 0644
#define FOLDER_MODE 0755
#define LINKS_AT_ONCE 100
#define TARGETS_MAX ((size_t)LINKS_AT_ONCE * (PATH_BYTES_MAX + 2))

/* ---- what there is ---- */

/* The sandbox says what a file allows to whom, the user's umask what it never does. */
static unsigned mode_here(const struct copy_job *j, int digits, unsigned fallback)
{
	return copy_mode(digits, fallback) & ~j->mask;
}

static int list_entry(struct copy_job *j, struct copy_list *l, struct str top, const struct osb_file_info *f, struct err *e)
{
	struct str path, type = str_of(f->type ? f->type : "file");

	if (copy_below(top, str_of(f->path), &path, e) < 0)
		return -1;
	if (str_is(type, "file"))
		return copy_list_add(l, COPY_FILE, path, f->size > 0 ? (uint64_t)f->size : 0, mode_here(j, f->mode, FILE_MODE), e);
	if (str_is(type, "directory"))
		return copy_list_add(l, COPY_DIR, path, 0, mode_here(j, f->mode, FOLDER_MODE), e);
	if (str_is(type, "symlink"))
		return copy_list_add(l, COPY_LINK, path, 0, 0777, e);
	l->n_skipped++;
	return 0;
}

/* What is directly in the folder TOP/BELOW. */
static int list_folder(struct copy_job *j, struct copy_list *l, const char *top, const char *below)
{
	AUTO(osb_free) struct osb_files *found = NULL;
	const char *path = below[0] ? copy_join(j, top, str_of(below)) : top;
	struct err e = { 0 };

	if (!path)
		return -1;
	if (copy_wait(j, osb_directory_list(j->sandbox, path, 1, &found, cli_call(j->cli))) < 0)
		return -1;
	for (size_t i = 0; i < found->n; i++) {
		struct str listed = str_of(found->items[i].path);

		if (str_is(listed, path)) /* the folder itself */
			continue;
		if (list_entry(j, l, str_of(top), &found->items[i], &e) < 0)
			return copy_refuse(j, &e);
	}
	return 0;
}

/* The list grows while it is gone through: each folder on it is looked into when its turn comes. */
static int list_tree(struct copy_job *j, struct copy_list *l, const char *top)
{
	if (list_folder(j, l, top, "") < 0)
		return -1;
	for (size_t i = 0; i < l->n; i++)
		if (l->items[i].kind == COPY_DIR && list_folder(j, l, top, l->items[i].path) < 0)
			return -1;
	j->n_skipped += l->n_skipped;
	return 0;
}

/* ---- links ---- */

static void on_targets(const struct osb_event *event, void *arg)
{
	struct buf *b = arg;

	if (event->kind != OSB_EVENT_STDOUT || !event->text)
		return;
	if (event->n_text != 1 || event->text[0] != '\n') /* that is an empty line */
		buf_add(b, event->text, event->n_text);
	buf_add_char(b, '\n');
}

/* One target for each link, each with a NUL behind it; between lines of output the ends of lines are put back. */
static int take_targets(struct copy_job *j, struct copy_list *l, struct copy_entry *const *links, size_t n, struct str text)
{
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct str target;

		if (!str_cut(text, '\0', &target, &text))
			return cli_fail(j->cli, "links need a program called 'readlink' in the sandbox"), -1;
		if (copy_list_set_target(l, links[i], target, &e) < 0)
			return copy_refuse(j, &e);
	}
	return 0;
}

static int read_targets(struct copy_job *j, struct copy_list *l, const char *top, struct copy_entry *const *links, size_t n)
{
	AUTO(buf_done) struct buf script = BUF_INIT(TARGETS_MAX * 4);
	AUTO(buf_done) struct buf text = BUF_INIT(TARGETS_MAX);
	struct osb_command command = { .size = sizeof(command), .skip_accumulation = true };

	if (!copy_is_literal(j, top))
		return -1;
	buf_addf(&script, "for l in");
	for (size_t i = 0; i < n; i++) {
		char *word = arena_dup(&j->cli->arena, str_of(copy_join(j, top, str_of(links[i]->path))));

		if (!word)
			return -1;
		buf_add_char(&script, ' ');
		value_quote(&word, 1, &script);
	}
	buf_addf(&script, "; do readlink -n -- \"$l\" && printf '\\0' || exit; done");
	if (script.failed)
		return cli_fail(j->cli, "out of memory"), -1;
	command.command = buf_z(&script);
	if (copy_wait(j, osb_command_run(j->sandbox, &command, on_targets, &text, NULL, cli_call(j->cli))) < 0)
		return -1;
	return take_targets(j, l, links, n, buf_str(&text));
}

static int ask_targets(struct copy_job *j, struct copy_list *l, const char *top)
{
	struct copy_entry *links[LINKS_AT_ONCE];
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (l->items[i].kind == COPY_LINK)
			links[n++] = &l->items[i];
		if (n > 0 && (n == LINKS_AT_ONCE || i + 1 == l->n)) {
			if (read_targets(j, l, top, links, n) < 0)
				return -1;
			n = 0;
		}
	}
	return 0;
}

/* ---- making it here ---- */

static int keep_file(struct copy_job *j, struct file_transfer *t, const char *path, unsigned mode)
{
	struct err e = { 0 };

	if (t->is_cut) { /* what was there when it was listed is here, as with any file that grows */
		progress_clear(&j->bar);
		(void)fprintf(stderr, "osb: '%s' has grown while it was copied\n", SHOWN(str_of(path)));
	}
	if (file_transfer_finish(t, mode, &e) < 0)
		return copy_refuse(j, &e);
	j->n_files++;
	j->n_bytes += t->done;
	return 0;
}

static int begin_file(struct copy_ship *s, void *arg)
{
	const int *top = arg;
	struct err e = { 0 };

	if (landing_open(&s->transfer.landing, *top, s->entry->path, &e) < 0)
		return copy_refuse(s->j, &e);
	s->transfer.fd = s->transfer.landing.fd;
	s->transfer.limit = s->entry->size; /* or a sandbox could fill the disk with what it said was small */
	return osb_file_download(s->j->sandbox, s->path, NULL, file_transfer_write, &s->transfer, s->call);
}

static int end_file(struct copy_ship *s, void *arg)
{
	(void)arg;
	return keep_file(s->j, &s->transfer, s->path, s->entry->mode);
}

static int take_link(struct copy_job *j, int top_fd, const struct copy_entry *entry)
{
	struct err e = { 0 };

	if (!j->keeps_unsafe_links && !copy_link_stays(str_of(entry->path), str_of(entry->target))) {
		progress_clear(&j->bar);
		(void)fprintf(stderr, "osb: the link '%s' is left out: it leads out of the folder, to '%s'\n", SHOWN(str_of(entry->path)),
			      SHOWN(str_of(entry->target)));
		j->n_refused++;
		return 0;
	}
	if (copy_local_link(top_fd, entry->path, entry->target, &e) < 0)
		return copy_refuse(j, &e);
	j->n_links++;
	return 0;
}

/* What is no file: folders come before what is in them. */
static int take_entry(struct copy_job *j, int top_fd, struct copy_entry *entry)
{
	struct err e = { 0 };
	int made;

	if (entry->kind == COPY_LINK)
		return take_link(j, top_fd, entry);
	if (entry->kind == COPY_FILE)
		return 0;
	made = copy_local_mkdir(top_fd, entry->path, &e);
	if (made < 0)
		return copy_refuse(j, &e);
	entry->is_made = made;
	j->n_folders++;
	return 0;
}

static int take_tree(struct copy_job *j, const char *top, const char *to, unsigned mode)
{
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	AUTO_FD top_fd = -1;
	struct err e = { 0 };
	bool is_new = access(to, F_OK) < 0;

	if (list_tree(j, &l, top) < 0 || ask_targets(j, &l, top) < 0)
		return -1;
	top_fd = copy_local_top(to, &e);
	if (top_fd < 0)
		return copy_refuse(j, &e);
	progress_init(&j->bar, STDERR_FILENO, j->is_quiet, STR(""), l.bytes);
	j->n_folders++;
	for (size_t i = 0; i < l.n; i++)
		if (take_entry(j, top_fd, &l.items[i]) < 0)
			return -1;
	if (copy_fleet(j, &l, top, begin_file, end_file, &top_fd) < 0)
		return -1;
	for (size_t i = l.n; i-- > 0;) /* the innermost first: a folder may become read-only */
		if (l.items[i].is_made && copy_local_chmod(top_fd, l.items[i].path, l.items[i].mode, &e) < 0)
			return copy_refuse(j, &e);
	if (is_new && fchmod(top_fd, mode) < 0)
		return err_sys(&e, errno, "set the mode of '%s'", to), copy_refuse(j, &e);
	return 0;
}

/* ---- all of it ---- */

/* Without '/' and "/." at its end, so that names which begin with it can be compared. */
static const char *plain(struct copy_job *j, const char *path)
{
	struct str s = str_of(path[0] ? path : ".");

	while (s.n > 1 && (s.p[s.n - 1] == '/' || str_ends(s, STR("/."))))
		s.n--;
	return arena_dup(&j->cli->arena, s);
}

static int take_single(struct copy_job *j, const char *path, const char *to, const struct osb_file_info *info)
{
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
	struct err e = { 0 };

	if (file_transfer_open_out(&t, j->cli, to, copy_base_name(path), info->size > 0 ?
			      (uint64_t)info->size : PROGRESS_UNKNOWN, j->is_quiet,
			      &e) < 0)
		return copy_refuse(j, &e);
	j->bar = t.own_bar;
	t.bar = &j->bar;
	if (copy_ended(j, &t, cli_wait(j->cli, NULL, osb_file_download(j->sandbox, path, NULL,
								       file_transfer_write,
								       &t, cli_call(j->cli)))) < 0)
		return -1;
	return keep_file(j, &t, path, mode_here(j, info->mode, FILE_MODE));
}

int copy_down(struct copy_job *j, const struct copy_place *from, const struct copy_place *to, bool to_is_dir)
{
	const char *path = plain(j, from->path), *target = to->path;
	struct osb_file_info info = { 0 };
	enum copy_found found;

	j->mask = local_mask();
	if (!path || copy_look(j, path, &found, &info) < 0)
		return -1;
	if (found == COPY_FOUND_NONE)
		return cli_fail(j->cli, "'%s' is not there", SHOWN(str_of(path))), -1;
	if (found == COPY_FOUND_OTHER)
		return cli_fail(j->cli, "'%s' is neither a file nor a folder", SHOWN(str_of(path))), -1;
	if (to->side == COPY_STREAM && found == COPY_FOUND_DIR)
		return cli_fail(j->cli, "'%s' is a folder, and '-' is none", SHOWN(str_of(path))), -1;
	if (to_is_dir && !from->wants_contents && copy_base_name(path).n > 0)
		target = copy_join(j, target, copy_base_name(path));
	if (!target)
		return -1;
	if (found == COPY_FOUND_FILE)
		return take_single(j, path, target, &info);
	return take_tree(j, path, target, mode_here(j, info.mode, FOLDER_MODE));
}
