// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <stdio.h>
#include <sys/ioctl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/render.h"
#include "cli/settings.h"

#include "base/banned.h"

#define TEXT_MAX ((size_t)64 * 1024 * 1024)
#define MESSAGE_MAX ((size_t)64 * 1024)
#define WIDTH_MAX 10000

const char *const output_table[] = { "table", "json", "yaml", NULL };
const char *const output_table_raw[] = { "table", "json", "yaml", "raw", NULL };
const char *const output_raw_table[] = { "raw", "table", "json", "yaml", NULL };
const char *const output_raw[] = { "raw", NULL };

static unsigned find_width(const char *const *env)
{
	const char *columns = settings_env(env, "COLUMNS");
	struct winsize ws = { 0 };
	uint64_t v = 0;

	if (columns && str_to_u64(str_of(columns), 1, WIDTH_MAX, &v))
		return (unsigned)v;
	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 ? ws.ws_col : 0;
}

void output_begin(struct output *o, bool is_plain, const char *const *env)
{
	const char *term = settings_env(env, "TERM");
	bool may_color = !is_plain && !settings_env(env, "NO_COLOR") && term && !str_is(str_of(term), "dumb");

	*o = (struct output){
		.format = o->format,
		.is_plain = is_plain,
		.is_ansi_out = may_color && isatty(STDOUT_FILENO),
		.is_ansi_err = may_color && isatty(STDERR_FILENO),
		.width = find_width(env),
	};
}

enum output_format output_format_of(const char *name)
{
	static const char *const names[] = {
		[OUTPUT_TABLE] = "table", [OUTPUT_JSON] = "json", [OUTPUT_YAML] = "yaml", [OUTPUT_RAW] = "raw"
	};
	size_t i = 0;

	while (i < OUTPUT_RAW && !str_is(str_of(name), names[i]))
		i++;
	return (enum output_format)i;
}

bool output_is_people(const struct output *o)
{
	return o->format == OUTPUT_TABLE || o->format == OUTPUT_RAW;
}

/* ---- writing --------------------------------------------------------------------------------------------- */

int output_bytes(struct output *o, struct str bytes)
{
	output_spin_end(o);
	if (bytes.n > 0 && fwrite(bytes.p, 1, bytes.n, stdout) != bytes.n)
		o->is_failed = true;
	return o->is_failed ? -1 : 0;
}

static int output_buf(struct output *o, const struct buf *b)
{
	o->is_failed = o->is_failed || b->failed;
	return output_bytes(o, buf_str(b));
}

int output_line(struct output *o, struct str text)
{
	(void)output_bytes(o, text);
	return output_bytes(o, STR("\n"));
}

int output_flush(struct output *o)
{
	if (fflush(stdout) != 0 || ferror(stdout)) /* what could not be written may be forgotten by then */
		o->is_failed = true;
	return o->is_failed ? -1 : 0;
}

int output_end(struct output *o, struct err *e)
{
	output_spin_end(o);
	(void)output_flush(o);
	return o->is_failed ? err_set(e, ERR_IO, "cannot write to standard output") : 0;
}

/* ---- results --------------------------------------------------------------------------------------------- */

static struct render_style style_of(const struct output *o)
{
	return (struct render_style){ .is_ansi = o->is_ansi_out, .is_ascii = o->is_plain, .width = o->width };
}

/* True: V has been written in a format of machines. */
static bool write_for_machines(struct output *o, const struct json *v)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct render_style style = style_of(o);

	if (output_is_people(o))
		return false;
	if (o->format == OUTPUT_JSON) {
		render_json(v, &style, &b);
		buf_add_char(&b, '\n');
	} else {
		render_yaml(v, &b);
	}
	(void)output_buf(o, &b);
	return true;
}

int output_dict(struct output *o, const struct json *v, const char *title)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct render_style style = style_of(o);

	if (write_for_machines(o, v))
		return o->is_failed ? -1 : 0;
	render_dict(v, title, &style, &b);
	return output_buf(o, &b);
}

int output_rows(struct output *o, const struct json *v, const char *const *columns, const char *title)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct render_style style = style_of(o);

	if (write_for_machines(o, v))
		return o->is_failed ? -1 : 0;
	render_rows(v, columns, title, &style, &b);
	return output_buf(o, &b);
}

int output_json_line(struct output *o, const struct json *v)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	render_json_line(v, &b);
	buf_add_char(&b, '\n');
	return output_buf(o, &b);
}

static void add_rule(struct buf *b, const char *title)
{
	for (size_t i = 0; i < render_width(str_of(title)) + 2; i++)
		buf_addf(b, "─");
}

int output_panel(struct output *o, const struct json *v, const char *title)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	bool ansi = o->is_ansi_out;
	const char *off = render_sgr(ansi, RENDER_PLAIN);

	if (write_for_machines(o, v))
		return o->is_failed ? -1 : 0;
	if (o->is_plain) {
		buf_addf(&b, "--- %s ---\n", title);
	} else {
		buf_addf(&b, "\n  %s✓ %s%s\n  %s", render_sgr(ansi, RENDER_BOLD_GREEN), title, off, render_sgr(ansi, RENDER_DIM));
		add_rule(&b, title);
		buf_addf(&b, "%s\n", off);
	}
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		buf_addf(&b, "  %s%.*s:%s %s", render_sgr(ansi, RENDER_BOLD), STR_ARG(kid->key), off, render_sgr(ansi, RENDER_CYAN));
		render_value(kid, &b);
		buf_addf(&b, "%s\n", off);
	}
	if (!o->is_plain)
		buf_add_char(&b, '\n');
	return output_buf(o, &b);
}

int output_text_panel(struct output *o, struct str text, const char *title)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct render_style style = style_of(o);

	if (o->is_plain) {
		buf_addf(&b, "--- %s ---\n", title);
		render_text(text, &b);
		buf_add_char(&b, '\n');
	} else {
		render_panel(text, title, &style, &b);
	}
	return output_buf(o, &b);
}

/* ---- messages -------------------------------------------------------------------------------------------- */

struct kind {
	const char *status, *plain, *icon;
	enum render_color color;
	bool is_stderr;
};

static const struct kind success = { "ok", "OK", "✅ ", RENDER_BOLD_GREEN, false };
static const struct kind info = { "info", "INFO", "ℹ️  ", RENDER_BOLD_BLUE, false };
static const struct kind warning = { "warning", "WARN", "⚠️  ", RENDER_BOLD_YELLOW, true };
static const struct kind error = { "error", "ERROR", "❌ ", RENDER_BOLD_RED, true };

/* {"status":"ok","message":"..."}, without a parser in between. */
static void say_to_machines(struct output *o, const struct kind *k, struct str text)
{
	struct json message = { .type = JSON_STRING, .key = STR("message"), .s = text };
	struct json status = { .type = JSON_STRING, .key = STR("status"), .s = str_of(k->status), .next = &message };
	struct json object = { .type = JSON_OBJECT, .kids = { .first = &status, .last = &message, .n = 2 } };

	(void)write_for_machines(o, &object);
}

static int say(struct output *o, const struct kind *k, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
static int say(struct output *o, const struct kind *k, const char *fmt, va_list ap)
{
	AUTO(buf_done) struct buf text = BUF_INIT(MESSAGE_MAX), b = BUF_INIT(MESSAGE_MAX * 8);
	bool ansi = k->is_stderr ? o->is_ansi_err : o->is_ansi_out;

	buf_addv(&text, fmt, ap);
	if (!output_is_people(o)) {
		say_to_machines(o, k, buf_str(&text));
		return o->is_failed ? -1 : 0;
	}
	if (o->is_plain)
		buf_addf(&b, "%s: ", k->plain);
	else
		buf_addf(&b, "  %s%s", render_sgr(ansi, k->color), k->icon);
	render_text(buf_str(&text), &b);
	buf_addf(&b, "%s\n", render_sgr(ansi, RENDER_PLAIN));
	if (!k->is_stderr)
		return output_buf(o, &b);
	output_spin_end(o);
	(void)fputs(buf_z(&b), stderr); /* there is nowhere to say that this failed */
	return 0;
}

#define DEFINE_SAY(name_) \
	int output_##name_(struct output *o, const char *fmt, ...) \
	{ \
		va_list ap; \
		int r; \
\
		va_start(ap, fmt); \
		r = say(o, &name_, fmt, ap); \
		va_end(ap); \
		return r; \
	}
DEFINE_SAY(success)
DEFINE_SAY(info)
DEFINE_SAY(warning)
DEFINE_SAY(error)

static void panel_lines(struct buf *b, const char *text)
{
	struct str rest = str_of(text), line;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		buf_addf(b, "  ");
		render_text(line, b);
		buf_add_char(b, '\n');
	}
}

void output_error_panel(struct output *o, const char *title, const char *message, const char *hint)
{
	AUTO(buf_done) struct buf b = BUF_INIT(MESSAGE_MAX * 8);
	bool ansi = o->is_ansi_err;
	const char *off = render_sgr(ansi, RENDER_PLAIN);

	if (o->is_plain) {
		buf_addf(&b, "ERROR [%s]: ", title);
		render_text(str_of(message), &b);
		buf_addf(&b, hint ? "\nHINT: %s\n" : "%s\n", hint ? hint : "");
	} else {
		buf_addf(&b, "\n  %s%s%s\n  %s", render_sgr(ansi, RENDER_BOLD_RED), title, off, render_sgr(ansi, RENDER_DIM));
		add_rule(&b, title);
		buf_addf(&b, "%s\n", off);
		panel_lines(&b, message);
		if (hint)
			buf_addf(&b, "\n  %s\n", hint);
		buf_add_char(&b, '\n');
	}
	output_spin_end(o);
	(void)fflush(stdout); /* what was said before stands before */
	(void)fputs(buf_z(&b), stderr);
}

/* ---- the spinner ----------------------------------------------------------------------------------------- */

bool output_may_spin(const struct output *o)
{
	return o->format == OUTPUT_TABLE && o->is_ansi_err;
}

void output_spin(struct output *o, const char *doing)
{
	static const char *const frames[] = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" };

	if (!output_may_spin(o))
		return;
	(void)fprintf(stderr, "\r\033[K%s%s %s%s", render_sgr(true, RENDER_BOLD_CYAN), frames[o->spin++ % ARRAY_LEN(frames)], doing,
		      render_sgr(true, RENDER_PLAIN));
	(void)fflush(stderr);
}

void output_spin_end(struct output *o)
{
	if (o->spin > 0)
		(void)fprintf(stderr, "\r\033[K");
	o->spin = 0;
}
