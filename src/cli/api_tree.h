// SPDX-License-Identifier: Apache-2.0
/* cli/api_tree.h - converts API responses that the library returns unchanged to the names of all other
 * results. */
#pragma once
#include "client/opensandbox.h"

struct arena;
struct cli;
struct json;

/* ANSWER's tree, its keys in snake_case ("created_at" of "createdAt"). NULL: it has been said why. */
const struct json *api_tree(struct cli *cli, const struct osb_bytes *answer);
/* Pure: the same for a tree. NULL: no memory. */
struct json *api_rename(struct arena *a, const struct json *v);

/* Rows for a table: of each item the values that the dotted PATHS ("status.total") lead to, called as the
 * columns are; both are ended by NULL. Bytes in a column called "size" are shown as people read them, and of
 * a "digest" as much as tells it from others. NULL: no memory. */
const struct json *api_rows(struct cli *cli, const struct json *items, const char *const *paths,
			    const char *const *columns);
/* The same for one object, which people see as a few lines. */
const struct json *api_row(struct cli *cli, const struct json *item, const char *const *paths,
			   const char *const *columns);
