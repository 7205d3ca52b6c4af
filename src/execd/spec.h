// SPDX-License-Identifier: Apache-2.0
/* execd/spec.h - what a sandbox runs: the sealed JSON of base/guest.h, or the same from a command line. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/str.h"

struct arena;
struct err;

#define SPEC_ARGS_MAX 1024
#define SPEC_ENV_MAX 1024

struct spec {
	const char *id;
	struct string_list entrypoint;
	struct string_map env;
	const char *cwd;
	const char *user;
	int64_t uid, gid;
	bool has_uid, has_gid;
	const char *token;
	bool stays; /* there is nothing to run */
};

/* Strings live in A or in TEXT. Unknown keys are refused: this comes from us. */
int spec_parse(struct str text, struct arena *a, struct spec *ret, struct err *e);

/* No command, or the one that does nothing but stay. */
bool spec_stays(const struct string_list *argv);
