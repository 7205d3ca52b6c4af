// SPDX-License-Identifier: Apache-2.0
/* client/pool_copy.h - a copy of the pool's create options, for the life of the pool. */
#pragma once
struct arena;
struct osb_create;

/* -1: no memory, or more than the arena may have. */
int create_copy(struct arena *a, const struct osb_create *from, struct osb_create *to);
