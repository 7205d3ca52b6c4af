// SPDX-License-Identifier: Apache-2.0
/* cli/skills.h - operating guides for coding assistants, and the place where each assistant reads them.
 *
 * Some assistants read one file per skill, others one file for everything: there a skill is a block between
 * two marks, and the rest of the file stays. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;

struct skill {
	const char *slug, *title, *summary, *trigger_hint;
	const char *body;    /* without front matter and title */
	const char *content; /* the whole file */
};
/* made from skills/ by tools/embed-skills; the slug of the last one is NULL */
extern const struct skill skills[];

#define SKILL_DEFAULT "sandbox-troubleshooting"
#define SKILL_FILE_MAX ((size_t)4 * 1024 * 1024) /* of a file that blocks are put into */

const struct skill *skill_at(size_t i); /* in the order of the list, the default first; NULL at the end */
const struct skill *skill_find(const char *slug);
const char *skill_area(const struct skill *s);
/* The text below a heading of the second level ("Quick start"), trimmed; empty if there is none. */
struct str skill_section(const struct skill *s, const char *heading);

enum skill_scope { SKILL_PROJECT, SKILL_GLOBAL, SKILL_SCOPES };
extern const char *const skill_scopes[];

struct skill_target {
	const char *name, *label;
	/* below the scope's folder; "%s" is the slug. Without it the file has all of them */
	const char *path;
	const char *shown; /* the same for people */
	bool keeps_front_matter;
	bool has_folder;   /* of its own for each skill */
};
const struct skill_target *skill_target_at(size_t i);
bool skill_target_is_shared(const struct skill_target *t); /* one file for all skills */

/* ROOT is "." or the home folder. The path as it is told, in A; NULL: no memory. */
const char *skill_path(struct arena *a, const char *root, const struct skill_target *t, const char *slug);

enum skill_status { SKILL_INSTALLED, SKILL_UPDATED, SKILL_ALREADY_PRESENT, SKILL_REMOVED,
		    SKILL_NOT_INSTALLED };
const char *skill_status_name(enum skill_status status);

bool skill_is_installed(const char *path, const struct skill_target *t, const struct skill *s);
int skill_install(const char *path, const struct skill_target *t, const struct skill *s,
		  enum skill_status *ret, struct err *e);
int skill_uninstall(const char *path, const struct skill_target *t, const struct skill *s,
		    enum skill_status *ret, struct err *e);
