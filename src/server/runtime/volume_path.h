// SPDX-License-Identifier: Apache-2.0
/* server/runtime/volume_path.h - the paths of volumes: which are well formed, and which folder that the operator has listed one is in. */
#pragma once
#include <stdbool.h>

#include "base/decode.h"

struct arena;

#define VOLUME_PATH_MAX 1023

/* PATH from its first '/' on, which is added, without "//", "." and one at the end; "/" is "". NULL: too long, or no memory. */
const char *volume_path_clean(const char *path, struct arena *a);
/* Of all listed folders that PATH, which is clean, is in the deepest; -1: it is in none. *ret_rest is what follows it. */
int volume_path_find(const struct string_list *listed, const char *path, struct arena *a, const char **ret_rest);

/* Relative: words with one '/' between them, none "." or "..", none too long for a file system; "" is one. */
bool volume_path_valid(const char *path);
/* Where a volume may be in a sandbox: absolute, and not in what the kernel keeps there. */
bool volume_mount_path_valid(const char *path);
