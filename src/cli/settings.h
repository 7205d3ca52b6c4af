// SPDX-License-Identifier: Apache-2.0
/* cli/settings.h - the server's address and the output format, from four sources: options precede the
 * environment, then the settings file, then the defaults. An empty text or 0 counts as absent. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct arena;
struct err;

#define SETTINGS_FILE_MAX ((size_t)1024 * 1024)
#define SETTINGS_TIMEOUT_S 30

/* What the command line said: NULL, 0 and -1 where it said nothing. */
struct settings_flags {
	const char *api_key, *domain, *protocol, *config;
	int64_t request_timeout_s;
	int use_server_proxy; /* or 0, 1 */
};

struct settings {
	const char *api_key, *domain; /* or NULL */
	const char *protocol;
	int64_t request_timeout_s;
	bool use_server_proxy;
	bool color;
	const char *default_image, *default_timeout; /* or NULL */
	const char *path; /* of the file */
	bool file_exists, file_has_key;
};

/* Reads the file, if there is one. What *ret points to is in A or what the flags point to. */
int settings_load(const struct settings_flags *flags, const char *const *env, struct arena *a,
		  struct settings *ret, struct err *e);

/* Without the file. */
int settings_without_file(const struct settings_flags *flags, const char *const *env, struct arena *a,
			  struct settings *ret, struct err *e);

/* TEXT could be such a file. */
int settings_check(struct str text, struct arena *a, struct err *e);

/* The value of a variable, or NULL: not there, or empty. */
const char *settings_env(const char *const *env, const char *name);
