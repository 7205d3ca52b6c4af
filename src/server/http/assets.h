// SPDX-License-Identifier: Apache-2.0
/* server/http/assets.h - documents that are part of the program, made from specs/ and src/server/assets/ by tools/embed.
 * Only main.c links them; everything else gets asset_find() handed in. */
#pragma once
#include "base/str.h"

struct asset {
	const char *name; /* "server.json", "docs.html" */
	const char *type; /* content type */
	struct str bytes;
};

const struct asset *asset_find(const char *name); /* or NULL */
