// SPDX-License-Identifier: Apache-2.0
/* egress/change.h - one policy change until it is in force (see sandbox.h). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;
struct policy;
struct sandbox;

struct change_spec {
	/* taken in any case; NULL: what `make` makes, or the one that is in force, anew */
	struct policy *policy;
	/* When its turn has come, from the one that is in force then: 1 and a policy, 0: nothing is to be
	 * done, -1. Or NULL. */
	int (*make)(const struct policy *now, struct policy **ret, void *arg, struct err *e);
	bool is_new;           /* to be written down, once it is in force */
	uint64_t bind_serial;  /* 0, or whose answer is to be BOUND */
	void (*done)(const struct err *e, void *arg); /* possibly before change_add() returns; or NULL */
	void *arg;
};

/* Behind those of the sandbox that wait. -1: no memory; FN is not called. */
int change_add(struct sandbox *s, const struct change_spec *spec, struct err *e);
void changes_drop(struct sandbox *s); /* the sandbox goes */
