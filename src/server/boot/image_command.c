// SPDX-License-Identifier: Apache-2.0
#include "server/boot/image_command.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/opt.h"
#include "server/boot/admin_command.h"
#include "sys/fd.h"

#include "base/banned.h"

#define LINE_MAX_BYTES ((size_t)256 * 1024)
#define PASSWORD_MAX 8192
#define SHOW_MS 100

struct image_options {
	const char *config, *platform, *username, *name;
	bool password_stdin, json, quiet;
	char password[PASSWORD_MAX + 1]; /* no option */
};

#define OPTION(member, kind, name, short_, arg, help, ...) OPT(struct image_options, member, kind, name, short_, arg, help, __VA_ARGS__)
#define CONFIG OPTION(config, OPT_STRING, "config", 'c', "FILE", "Read the configuration from FILE.", .is_file = true)
#define WHICH \
	OPTION(platform, OPT_STRING, "platform", 0, "OS/ARCH", "Take the image for OS/ARCH instead of this host's.", 0), \
	OPTION(username, OPT_STRING, "username", 'u', "NAME", "Log in to the registry as NAME.", 0), \
	OPTION(password_stdin, OPT_FLAG, "password-stdin", 0, NULL, "Read the password from standard input.", 0)
#define QUIET OPTION(quiet, OPT_FLAG, "quiet", 'q', NULL, "Show no progress.", 0)

static const struct opt pull_opts[] = { CONFIG, WHICH, QUIET, { 0 } };
static const struct opt save_opts[] = { CONFIG, WHICH, { 0 } };
static const struct opt remove_opts[] = { CONFIG, { 0 } };
static const struct opt list_opts[] = { CONFIG, OPTION(json, OPT_FLAG, "json", 0, NULL, "Print one JSON object.", 0), { 0 } };
static const struct opt load_opts[] = {
	CONFIG, OPTION(name, OPT_STRING, "name", 0, "IMAGE", "Call the image IMAGE, whatever the archive says.", 0), { 0 },
};

enum { IMAGE_PULL, IMAGE_LIST, IMAGE_REMOVE, IMAGE_LOAD, IMAGE_SAVE }; /* rows below */

const struct opt_command image_commands[] = {
	[IMAGE_PULL] = { .name = "pull", .summary = "pull an image from its registry", .operands = "IMAGE", .opts = pull_opts,
			 .min_operands = 1, .max_operands = 1,
			 .about = "Asks the registry even if the image is present: its tag may have moved." },
	[IMAGE_LIST] = { .name = "list", .summary = "list the images that are present", .opts = list_opts },
	[IMAGE_REMOVE] = { .name = "remove", .summary = "forget images", .operands = "IMAGE|DIGEST...", .opts = remove_opts,
			   .min_operands = 1, .max_operands = OPT_OPERANDS_ANY,
			   .about = "Sandboxes that run go on. An image that a sandbox or a snapshot stands on loses its name alone. Layers go when "
				    "nothing needs them any more." },
	[IMAGE_LOAD] = { .name = "load", .summary = "take the images of an archive", .operands = "PATH", .opts = load_opts,
			 .min_operands = 1, .max_operands = 1,
			 .about = "PATH is an OCI layout (a folder or a tar), what 'docker save' wrote, or the tar of a root file "
				  "system, which needs a name. '-' is standard input." },
	[IMAGE_SAVE] = { .name = "save", .summary = "write an image to an archive", .operands = "IMAGE PATH", .opts = save_opts,
			 .min_operands = 2, .max_operands = 2,
			 .about = "Writes an OCI layout that 'docker load' takes as well: a tar, or a folder if PATH is one or ends "
				  "with '/'. '-' is standard output." },
	{ 0 },
};

/* ---- which image ---- */

static int read_password(struct image_options *o, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PASSWORD_MAX + 2);
	struct str text;

	if (!o->password_stdin)
		return o->username ? err_set(e, ERR_INVALID, "--username needs --password-stdin") : 0;
	if (!o->username)
		return err_set(e, ERR_INVALID, "--password-stdin needs --username");
	if (fd_read_all(STDIN_FILENO, PASSWORD_MAX + 1, &b, e) < 0)
		return err_wrap(e, "read the password");
	text = buf_str(&b);
	while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
		text.n--;
	if (text.n > PASSWORD_MAX)
		return err_set(e, ERR_LIMIT, "a password of more than %d bytes", PASSWORD_MAX);
	if (text.n > 0)
		memcpy(o->password, text.p, text.n);
	if (b.p)
		secret_wipe(b.p, b.n);
	return 0;
}

/* The body that says which image, for pull and save. */
static int write_which(struct image_options *which, const char *uri, struct buf *b, struct err *e)
{
	struct str os = { 0 }, arch = { 0 };
	struct json_out o = json_out(b);

	if (read_password(which, e) < 0)
		return -1;
	if (which->platform && !str_cut(str_of(which->platform), '/', &os, &arch))
		return err_set(e, ERR_INVALID, "--platform: 'linux/amd64' is one");
	json_open(&o, '{');
	json_key(&o, "uri"), json_cstr(&o, uri);
	if (which->platform) {
		json_key(&o, "platform"), json_open(&o, '{');
		json_key(&o, "os"), json_str(&o, os);
		json_key(&o, "arch"), json_str(&o, arch);
		json_close(&o, '}');
	}
	if (which->username) {
		json_key(&o, "auth"), json_open(&o, '{');
		json_key(&o, "username"), json_cstr(&o, which->username);
		json_key(&o, "password"), json_cstr(&o, which->password);
		json_close(&o, '}');
	}
	json_close(&o, '}');
	return b->failed ? err_no_memory(e) : 0;
}

/* ---- pull ---- */

struct event {
	const char *type, *phase, *message;
	int64_t bytes, total, layers_done, layers;
	const struct json *image;
};

static const struct field event_fields[] = {
	FIELD(struct event, type, FIELD_STRING, "type", .required = true),
	FIELD(struct event, phase, FIELD_STRING, "phase"),
	FIELD(struct event, message, FIELD_STRING, "message"),
	FIELD(struct event, bytes, FIELD_INT, "bytes"),
	FIELD(struct event, total, FIELD_INT, "total"),
	FIELD(struct event, layers_done, FIELD_INT, "layersDone"),
	FIELD(struct event, layers, FIELD_INT, "layers"),
	FIELD(struct event, image, FIELD_ANY, "image"),
	{ 0 },
};

struct watch {
	struct buf line;
	bool shows, is_shown, is_done;
	uint64_t shown_ms;
};

static void show(struct watch *w, const struct event *ev)
{
	uint64_t now = clock_mono_ms();
	bool is_last = ev->total > 0 && ev->bytes == ev->total;

	if (!w->shows || (w->is_shown && !is_last && now - w->shown_ms < SHOW_MS))
		return;
	w->shown_ms = now;
	w->is_shown = true;
	if (ev->total > 0)
		(void)fprintf(stderr, "\r\033[K%s %3lld %%  %.1f of %.1f MB, layer %lld of %lld", ev->phase,
			      (long long)(ev->bytes * 100 / ev->total), (double)ev->bytes / 1e6, (double)ev->total / 1e6,
			      (long long)ev->layers_done, (long long)ev->layers);
	else
		(void)fprintf(stderr, "\r\033[K%s", ev->phase);
	(void)fflush(stderr);
}

static void clear(struct watch *w)
{
	if (w->is_shown)
		(void)fputs("\r\033[K", stderr);
	w->is_shown = false;
}

static struct str text_at(const struct json *object, const char *key)
{
	const struct json *v = object && object->type == JSON_OBJECT ? json_get(object, key) : NULL;

	return v && v->type == JSON_STRING ? v->s : STR("");
}

static void print_image(const struct json *im)
{
	(void)printf("%.*s  %.*s\n", STR_ARG(text_at(im, "uri")), STR_ARG(text_at(im, "digest")));
}

static int on_event(struct watch *w, struct str text, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16 * LINE_MAX_BYTES);
	struct decode d = { .arena = &a };
	struct event ev = { .type = "", .phase = "", .message = "" };
	struct json *root = json_parse(&a, text, NULL, NULL, e);

	if (!root || decode(&d, root, event_fields, &ev, e) < 0)
		return err_wrap(e, "the server's answer");
	if (strcmp(ev.type, "progress") == 0) {
		show(w, &ev);
		return 0;
	}
	clear(w);
	if (strcmp(ev.type, "done") != 0)
		return err_set(e, ERR_UNAVAILABLE, "%.400s", ev.message);
	print_image(ev.image);
	w->is_done = true;
	return 0;
}

static int take_events(struct str piece, void *arg, struct err *e)
{
	struct watch *w = arg;
	struct str line, rest;

	if (!buf_add_str(&w->line, piece))
		return err_set(e, ERR_LIMIT, "the server's answer has a line that is too long");
	while (str_cut(buf_str(&w->line), '\n', &line, &rest)) {
		if (str_starts(line, STR("data: ")) && on_event(w, str_skip(line, sizeof("data: ") - 1), e) < 0)
			return -1;
		buf_consume(&w->line, line.n + 1);
	}
	return 0;
}

static int run_pull(struct admin_job *j, void *options, struct err *e)
{
	struct image_options *opts = options;
	AUTO(buf_done) struct buf body = BUF_INIT(LINE_MAX_BYTES);
	struct watch w = { .line = BUF_INIT(2 * LINE_MAX_BYTES), .shows = isatty(STDERR_FILENO) && !opts->quiet };
	struct admin_call call = { .method = "POST", .target = "/v1/images/pull", .type = "application/json", .take = take_events,
				   .arg = &w };
	int rc = write_which(opts, j->operands[0], &body, e);

	call.body = buf_str(&body);
	if (rc == 0)
		rc = admin_run(&j->admin, &call, e);
	if (rc == 0 && !w.is_done)
		rc = err_set(e, ERR_UNAVAILABLE, "the server ended before the image was there");
	clear(&w);
	buf_done(&w.line);
	if (body.p)
		secret_wipe(body.p, body.n);
	return rc;
}

/* ---- list, remove ---- */

static int print_items(struct str text, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16 * ADMIN_ANSWER_MAX);
	const struct json_limits limits = { .values = 16 * JSON_VALUES_MAX };
	struct json *root = json_parse(&a, text, &limits, NULL, e);

	if (!root)
		return err_wrap(e, "the server's answer");
	for (const struct json *im = json_first(json_get(root, "items")); im; im = im->next)
		print_image(im);
	return 0;
}

static int run_list(struct admin_job *j, void *options, struct err *e)
{
	const struct image_options *opts = options;
	AUTO(buf_done) struct buf b = BUF_INIT(ADMIN_ANSWER_MAX);
	struct admin_call call = { .method = "GET", .target = "/v1/images", .take = admin_take_all, .arg = &b };

	if (admin_run(&j->admin, &call, e) < 0)
		return -1;
	if (!opts->json)
		return print_items(buf_str(&b), e);
	(void)printf("%s\n", buf_z(&b));
	return 0;
}

static int run_remove(struct admin_job *j, void *options, struct err *e)
{
	(void)options;
	for (size_t i = 0; i < j->n; i++) {
		AUTO(buf_done) struct buf target = BUF_INIT(8192);
		struct admin_call call = { .method = "DELETE" };

		if (admin_target(&target, "/v1/images", "uri", j->operands[i], e) < 0)
			return -1;
		call.target = target.p;
		if (admin_run(&j->admin, &call, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- load, save ---- */

static int run_load(struct admin_job *j, void *options, struct err *e)
{
	AUTO(buf_done) struct buf target = BUF_INIT(8192);
	AUTO(buf_done) struct buf answer = BUF_INIT(ADMIN_ANSWER_MAX);
	const struct image_options *opts = options;

	if (admin_target(&target, "/v1/images/load", "name", opts->name, e) < 0 ||
	    admin_upload(j, target.p, j->operands[0], &answer, e) < 0)
		return -1;
	return print_items(buf_str(&answer), e);
}

static int run_save(struct admin_job *j, void *options, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(LINE_MAX_BYTES);
	struct admin_call call = { .method = "POST", .target = "/v1/images/save", .type = "application/json" };
	struct image_options *opts = options;
	int rc = write_which(opts, j->operands[0], &body, e);

	call.body = buf_str(&body);
	if (rc == 0)
		rc = admin_download(j, &call, j->operands[1], e);
	if (body.p)
		secret_wipe(body.p, body.n);
	return rc;
}

/* ---- all of them ---- */

static int (*const runs[])(struct admin_job *j, void *options, struct err *e) = {
	[IMAGE_PULL] = run_pull, [IMAGE_LIST] = run_list, [IMAGE_REMOVE] = run_remove, [IMAGE_LOAD] = run_load, [IMAGE_SAVE] = run_save,
};

int image_command(int argc, char **argv, const char *config, const char *const *env)
{
	static const struct admin_group group = { "image", "images of registries and archives", image_commands, runs };
	static struct image_options o; /* a password has its place in it, and no other */
	int status;

	o.config = config;
	status = admin_command(&group, argc, argv, &o, &o.config, env);
	secret_wipe(o.password, sizeof(o.password));
	return status;
}
