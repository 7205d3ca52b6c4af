// SPDX-License-Identifier: Apache-2.0
/* cli/yaml/yaml_impl.h - shared by yaml_read.c and yaml_scalar.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/str.h"

struct arena;
struct err;

struct yaml_reader {
	struct arena *arena;
	struct str text;
	size_t at, line_start;
	unsigned line, depth;
	size_t values;
	struct err *e;
};

int yaml_fail(struct yaml_reader *r, const char *what); /* -1 */
struct json *yaml_value(struct yaml_reader *r, enum json_type type);
int yaml_put(struct yaml_reader *r, struct json *object, struct str key, struct json *v);

char yaml_peek(const struct yaml_reader *r, size_t ahead); /* NUL at the end */
bool yaml_is_end(char c);                                  /* of a line or the text */
bool yaml_skip(struct yaml_reader *r);
void yaml_skip_blanks(struct yaml_reader *r);
void yaml_next_line(struct yaml_reader *r);

/* Values at the cursor, which is behind them afterwards. PARENT: the column of the collection that they are
 * in. */
struct json *yaml_plain(struct yaml_reader *r, unsigned parent);
struct json *yaml_quoted(struct yaml_reader *r);
struct json *yaml_block(struct yaml_reader *r, unsigned parent); /* '|' and '>' */
struct json *yaml_flow(struct yaml_reader *r);                   /* '[' and '{' */
