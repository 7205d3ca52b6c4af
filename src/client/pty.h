// SPDX-License-Identifier: Apache-2.0
/* client/pty.h - terminals of sandboxes, also for callers with a terminal of their own. */
#pragma once
struct osb_client;
struct osb_sandbox;

void ptys_free(struct osb_client *c, const struct osb_sandbox *s); /* those of S, or all; without callbacks */
