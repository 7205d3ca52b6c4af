// SPDX-License-Identifier: Apache-2.0
/* cli/output.h - the output of a command, in the requested format.
 *
 * Results go to stdout. So do messages, except warnings and errors of the human formats, which go to stderr;
 * in JSON and YAML a message is an object with "status" and "message". Colours and cursor movement are used
 * on terminals only. Functions return 0, or -1 when stdout cannot be written: output_end() reports that
 * once. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;
struct json;

enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_YAML, OUTPUT_RAW };

/* Tables of choices for options: the first one is the default of commands that offer it. */
extern const char *const output_table[];     /* table json yaml */
extern const char *const output_table_raw[]; /* table json yaml raw */
extern const char *const output_raw_table[]; /* the same, and raw is the default */
extern const char *const output_raw[];       /* raw */

struct output {
	enum output_format format;
	bool is_plain;       /* no decoration: --no-color, or the settings */
	bool is_ansi_out, is_ansi_err;
	bool is_failed;      /* stdout is gone */
	unsigned width;      /* of the terminal, or what COLUMNS says; 0: there is no limit */
	unsigned spin;       /* drawings of the spinner; 0: it is not there */
};

/* IS_PLAIN as above; looks at the descriptors, NO_COLOR, TERM and COLUMNS. */
void output_begin(struct output *o, bool is_plain, const char *const *env);
enum output_format output_format_of(const char *name); /* one of the choices */
bool output_is_people(const struct output *o);         /* a table: a result may be shown in another shape */

/* A result: as JSON or YAML it is V; as a table an object has a line per key, an array one per item with the
 * COLUMNS. */
int output_dict(struct output *o, const struct json *v, const char *title);
int output_rows(struct output *o, const struct json *v, const char *const *columns, const char *title);
/* What has been done: a title and a few lines. */
int output_panel(struct output *o, const struct json *v, const char *title);
/* Text under a title, for people. */
int output_text_panel(struct output *o, struct str text, const char *title);
int output_json_line(struct output *o, const struct json *v);
int output_bytes(struct output *o, struct str bytes); /* as they are */
int output_line(struct output *o, struct str text);   /* and a line end */

int output_success(struct output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int output_info(struct output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int output_warning(struct output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int output_error(struct output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Why a command failed, always for people and on stderr. HINT says what to do next, or is NULL. */
void output_error_panel(struct output *o, const char *title, const char *message, const char *hint);

/* One more picture of something that takes a while, on stderr; nothing where that would disturb. */
bool output_may_spin(const struct output *o);
void output_spin(struct output *o, const char *doing);
void output_spin_end(struct output *o);

int output_flush(struct output *o); /* now, for who waits for it */
/* Flushes. -1: something was not written. */
int output_end(struct output *o, struct err *e);
