// SPDX-License-Identifier: Apache-2.0
/* server/boot/snapshot_command.h - `opensandbox-server snapshot`: snapshots of the server that runs, by its own API. */
#pragma once
#include "base/opt.h"

extern const struct opt_command snapshot_commands[];

/* ARGV begins with "snapshot". CONFIG is what stood before it, or NULL. The status to end with. */
int snapshot_command(int argc, char **argv, const char *config, const char *const *env);
