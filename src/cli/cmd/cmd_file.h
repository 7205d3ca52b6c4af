// SPDX-License-Identifier: Apache-2.0
/* cli/cmd/cmd_file.h - shared by the two files of 'osb file'. */
#pragma once
#include "base/opt.h"

struct cli;

#define FILE_MODE_DEFAULT 755 /* of what is made without a mode: octal digits, as the API has them */

/* TEXT may be NULL: the default. -1: it is no mode, return cli->status. */
int file_mode(struct cli *cli, const char *text, int *ret);

extern const struct opt file_cat_opts[], file_write_opts[];
int file_cat(int argc, char **argv, void *arg);
int file_write(int argc, char **argv, void *arg);
int file_upload(int argc, char **argv, void *arg);
int file_download(int argc, char **argv, void *arg);
