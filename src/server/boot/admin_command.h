// SPDX-License-Identifier: Apache-2.0
/* server/boot/admin_command.h - commands that ask the server that runs: `opensandbox-server image` and the like. */
#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "base/opt.h"
#include "server/boot/admin.h"

#define ADMIN_ANSWER_MAX ((size_t)64 * 1024 * 1024)

struct admin_job {
	char **operands;
	size_t n;
	struct admin admin;
};

struct admin_group {
	const char *name, *summary;
	const struct opt_command *commands;
	int (*const *runs)(struct admin_job *j, void *options, struct err *e); /* one for each of them */
};

/* ARGV begins with the group's name. CONFIG is a member of OPTIONS, and has what stood before. The status to end with. */
int admin_command(const struct admin_group *g, int argc, char **argv, void *options, const char *const *config,
		  const char *const *env);

int admin_take_all(struct str piece, void *buf, struct err *e); /* an admin_take_fn */
/* TARGET with "?NAME=VALUE", or without it if VALUE is NULL. */
int admin_target(struct buf *out, const char *target, const char *name, const char *value, struct err *e);
/* The archive at PATH (see server/images/image_archive.h) is the body of a POST; and the answer to CALL is written to one. */
int admin_upload(struct admin_job *j, const char *target, const char *path, struct buf *answer, struct err *e);
int admin_download(struct admin_job *j, const struct admin_call *call, const char *path, struct err *e);
