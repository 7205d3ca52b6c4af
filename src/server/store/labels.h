// SPDX-License-Identifier: Apache-2.0
/* server/store/labels.h - the metadata of a sandbox: pairs that follow the rules of Kubernetes labels.
 *
 * A set of labels is immutable: a patch makes a new one. */
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/decode.h"
#include "base/own.h"
#include "base/str.h"

struct err;

#define LABELS_MAX 64
#define LABEL_NAME_MAX 63    /* of a name and of a value */
#define LABEL_PREFIX_MAX 253
#define LABEL_RESERVED "opensandbox.io/"

struct labels {
	struct arena arena;
	struct string_map map; /* in the order in which they were added */
};

/* A copy of MAP, in which no key appears twice. NULL: out of memory. */
struct labels *labels_new(const struct string_map *map, struct err *e);
void labels_free(struct labels *l); /* NULL is fine */
DEFINE_AUTO(struct labels *, labels_free)

/* One member of a merge patch: VALUE NULL deletes. */
struct label_change {
	const char *key, *value;
};

/* ERR_LIMIT when there would be more than LABELS_MAX. */
struct labels *labels_patch(const struct labels *l, const struct label_change *changes, size_t n,
			    struct err *e);

const char *labels_get(const struct labels *l, const char *key); /* or NULL */

/* What is wrong with it ("the name must ..."), or NULL. [prefix/]name; name and value of letters, digits,
 * '-', '_', '.', with a letter or digit at both ends. */
const char *label_check_key(struct str key);
const char *label_check_value(struct str value);
bool label_is_reserved(struct str key);
