// SPDX-License-Identifier: Apache-2.0
/* base/uuid.h - random identifiers (UUID version 4), and what counts as an identifier here. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;
struct random_pool;

#define UUID_LEN 36     /* "3f2b6c1e-9a44-4c1e-8d0b-2f6f1a7c9e10" */
#define UUID_HEX_LEN 32 /* the same without dashes */
#define ID_MAX 63

/* Lower case, NUL-terminated. POOL may be NULL: then the bytes come straight from the kernel. */
int uuid_text(struct random_pool *pool, char out[UUID_LEN + 1], struct err *e);
int uuid_hex32(struct random_pool *pool, char out[UUID_HEX_LEN + 1], struct err *e);

/* ^[a-z0-9][a-z0-9-]{0,62}$ - to be asked before an id is used in a path, a name, a query or a log line. */
bool id_valid(struct str id);
