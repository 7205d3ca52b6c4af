// SPDX-License-Identifier: Apache-2.0
/* server/config/init_config.h - writes a commented configuration with a random key, for the operator to
 * edit. */
#pragma once
#include <stdbool.h>

struct err;

/* PATH is made with its folders, readable by its owner alone; one that exists is replaced only with FORCE.
 * KIND as for config_write_example(). */
int init_config(const char *path, const char *kind, bool force, struct err *e);
