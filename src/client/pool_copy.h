// SPDX-License-Identifier: Apache-2.0
/* client/pool_copy.h - what sandboxes of a pool are made from, for as long as the pool lives. */
#pragma once
struct arena;
struct osb_create;

/* -1: no memory, or more than the arena may have. */
int create_copy(struct arena *a, const struct osb_create *from, struct osb_create *to);
