// SPDX-License-Identifier: Apache-2.0
/* cli/yaml/yaml_read.h - reads the YAML that people write by hand into a tree: block and flow collections,
 * plain and quoted scalars, literal and folded blocks, comments. JSON is a part of it. Anchors, aliases,
 * tags, directives, complex keys and further documents are refused by name. Pure.
 *
 * A plain scalar is null, a boolean, an integer or a real number where JSON or YAML 1.2 says so, and a string
 * otherwise: "no" and "12:30" are strings here. The text must live as long as the tree. */
#pragma once
#include "base/str.h"

struct arena;
struct err;
struct json;

#define YAML_TEXT_MAX ((size_t)1024 * 1024)
#define YAML_DEPTH_MAX 32

/* NULL and "line 7: ..." on what it cannot read. An empty document is null. */
struct json *yaml_parse(struct arena *a, struct str text, struct err *e);
