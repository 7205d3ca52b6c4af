// SPDX-License-Identifier: Apache-2.0
/* server/config/config_impl.h - shared by the config_*.c files; not for others. */
#pragma once
#include "base/buf.h"
#include "server/config/config.h"

/* A value that did not come from the file, and what it came from. */
struct config_origin {
	struct config_origin *next;
	const struct json *node;
	const char *name; /* "OPENSANDBOX_SERVER_PORT", "--port" */
};

struct config_loading {
	struct arena *arena;
	const char *path;  /* of the file, or NULL */
	struct json *root; /* of what the file says, with the environment's and the flags' values in place */
	struct config_origin *origins;
	struct buf *problems;
	struct buf notes;
	size_t n_problems;
	struct err *e; /* the first problem */
};

/* Notes a problem with KEY ("server.port", "ingress.secure_access.keys[2].key") at the place that set it. */
void config_problem(struct config_loading *l, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Notes something about V, or about the whole file (NULL), that is no mistake. */
void config_note(struct config_loading *l, const struct json *v, const char *fmt,
		 ...) __attribute__((format(printf, 3, 4)));

/* config_env.c: put values from elsewhere into the tree. -1: out of memory. */
int config_apply_env(struct config_loading *l, const char *const *env);
int config_apply_flags(struct config_loading *l, const struct config_flag *flags);

/* config_notes.c: of a configuration without mistakes. */
void config_find_notes(struct config_loading *l, struct config *c);

/* config_rules.c: what one field alone cannot tell. */
void config_check_rules(struct config_loading *l, struct config *c);
