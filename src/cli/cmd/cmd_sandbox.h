// SPDX-License-Identifier: Apache-2.0
/* cli/cmd/cmd_sandbox.h - commands of 'osb sandbox' that have files of their own, or short names. */
#pragma once
#include "base/opt.h"

struct cli;
struct err;
struct osb_create;
struct osb_policy;

extern const struct opt sandbox_create_opts[], sandbox_list_opts[], sandbox_metrics_opts[];
int sandbox_create(int argc, char **argv, void *arg);
int sandbox_list(int argc, char **argv, void *arg);
int sandbox_kill(int argc, char **argv, void *arg);
int sandbox_metrics(int argc, char **argv, void *arg);

/* Files that creates name: what a sandbox may reach, and its volumes. */
int create_read_policy(struct cli *cli, const char *path, struct osb_policy *ret, struct err *e);
int create_read_volumes(struct cli *cli, const char *path, struct osb_create *create, struct err *e);
