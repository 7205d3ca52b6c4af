// SPDX-License-Identifier: Apache-2.0
/* server/http/assets.h - documents embedded into the program, from specs/ and src/server/assets/, by
 * tools/embed. Only main.c links them; other code gets asset_find() as a parameter. */
#pragma once
#include "base/str.h"

struct asset {
	const char *name; /* "server.json", "docs.html" */
	const char *type; /* content type */
	struct str bytes;
};

const struct asset *asset_find(const char *name); /* or NULL */
