// SPDX-License-Identifier: Apache-2.0
/* server/boot/image_command.h - `opensandbox-server image`: images of the server that runs, by its own API. */
#pragma once
#include "base/opt.h"

extern const struct opt_command image_commands[];

/* ARGV begins with "image". CONFIG is what stood before it, or NULL. The status to end with. */
int image_command(int argc, char **argv, const char *config, const char *const *env);
