// SPDX-License-Identifier: Apache-2.0
/* mcp/schema.h - JSON schemas of the arguments and results of tools. */
#pragma once
#include "base/str.h"

struct field;
struct json_out;

/* Of arguments, by their table: an optional string, list or object may be null, everything else has its
 * default of args_defaults. */
void schema_input(const char *tool, const struct field *fields, struct json_out *o);

/* Of results, by the name of a shape below. "Name[]" is a list of them, as {"result": [...]} of which TOOL
 * gives the title.
 *
 * A shape is "name:type name:type ...": string, int, number, bool, time, map (of strings), or another shape;
 * "[]" behind it is a list, "?" that it may be null, "~" that it may be absent. */
void schema_output(const char *tool, const char *shape, struct json_out *o);
