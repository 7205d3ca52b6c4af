// SPDX-License-Identifier: Apache-2.0
/* server/store/recover_impl.h - shared by recover.c (the files, the new database) and salvage.c (reading the
 * old one). */
#pragma once
#include "base/map.h"
#include "server/store/store_impl.h"

#define NAME_SIZE 48

struct recovery {
	const struct store_recover_spec *spec;
	int dir;
	char aside[NAME_SIZE];
	struct connection from, to;
	struct connection copy;          /* of the durable tables; copy.db is NULL: there is none */
	bool is_in_copy[DURABLE_TABLES]; /* they are read from there */
	int64_t seq;                     /* of the last durable transaction that is known */
	struct secret secret;
	struct map boxes; /* by id, of struct runtime_box */
	struct arena arena; /* of one row */
	struct store_recovered *report;
};

/* Takes TX. 1: it is in the new database, 0: it cannot be. -1: the new one does not take anything any
 * more. */
int recovery_put(struct recovery *r, struct store_tx *tx, struct err *e);
int salvage(struct recovery *r, struct err *e); /* everything that can be read */
