// SPDX-License-Identifier: Apache-2.0
/* base/log.h - one event, one line: a constant message and typed fields.
 *
 *     log_info("sandbox started", LOG_S("id", sb->id), LOG_MS("took", took));
 *
 *     2026-06-15T09:46:58.120Z info sandbox started id=ab12 took_ms=41
 *     {"ts":"2026-06-15T09:46:58.120Z","level":"info","msg":"sandbox started","id":"ab12","took_ms":41}
 *
 * error = someone must act, warn = we coped, info = state changed, debug = free. Values may come from a peer:
 * controls, line ends, escape sequences, direction marks and ill-formed UTF-8 are escaped in both formats.
 * Messages and keys are ours and constant. Fields are not evaluated when the level is off. A line is written
 * by a single write(2) and is at most LOG_LINE_MAX bytes; what does not fit is left out and marked cut=true.
 * Nothing is allocated, errno is preserved, and logging neither fails nor waits for a reader: a line that
 * cannot be written is lost, and the next one that can says dropped=N. (A terminal that stops half-way
 * through a line is the one reader that is waited for.) */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct err;

#define LOG_LINE_MAX 4096

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* The state of the process: info, text, descriptor 2. Set at start-up; safe to read from any thread. */
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
void log_set_fd(int fd); /* any time: once it returns, the old descriptor may be closed */

/* Any case: error, critical (as error), warn, warning, info, debug. */
bool log_level_parse(struct str name, enum log_level *ret_level);
bool log_format_parse(struct str name, enum log_format *ret_format); /* text, json */

enum log_kind {
	LOG_KIND_END,
	LOG_KIND_STR,
	LOG_KIND_INT,
	LOG_KIND_UINT,
	LOG_KIND_BOOL,
	LOG_KIND_SECRET,
	LOG_KIND_ERR,
};

struct log_field {
	const char *key;
	const char *unit; /* appended to the key, or NULL */
	enum log_kind kind;
	union {
		struct str s; /* p == NULL is written as null */
		int64_t i;
		uint64_t u;
		bool b;
		const struct err *e;
	};
};

#define LOG_FIELD(kind_, ...) ((struct log_field){ .kind = (kind_), __VA_ARGS__ })
#define LOG_FIELD_END ((struct log_field){ .kind = LOG_KIND_END })
#define LOG_S(key_, z_) LOG_FIELD(LOG_KIND_STR, .key = (key_), .s = str_of(z_))
#define LOG_STR(key_, s_) LOG_FIELD(LOG_KIND_STR, .key = (key_), .s = (s_))
#define LOG_D(key_, v_) LOG_FIELD(LOG_KIND_INT, .key = (key_), .i = (v_))
#define LOG_U(key_, v_) LOG_FIELD(LOG_KIND_UINT, .key = (key_), .u = (v_))
#define LOG_B(key_, v_) LOG_FIELD(LOG_KIND_BOOL, .key = (key_), .b = (v_))
#define LOG_MS(key_, v_) LOG_FIELD(LOG_KIND_UINT, .key = (key_), .unit = "_ms", .u = (v_))
#define LOG_SECRET(key_, v_) LOG_FIELD(LOG_KIND_SECRET, .key = ((void)(v_), (key_))) /* writes **** alone */
#define LOG_ERR(e_) LOG_FIELD(LOG_KIND_ERR, .key = "error", .e = (e_)) /* code=denied error="..." */

bool log_enabled(enum log_level level);
/* ended by LOG_KIND_END */
void log_write(enum log_level level, const char *msg, const struct log_field *fields);

#define log_at(level_, msg_, ...) \
	do { \
		if (log_enabled(level_)) \
			log_write((level_), (msg_), \
				  (const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ) LOG_FIELD_END }); \
	} while (0)
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
