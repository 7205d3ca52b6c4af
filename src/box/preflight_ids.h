// SPDX-License-Identifier: Apache-2.0
/* box/preflight_ids.h - accounts of the host that overlap the id range of boxes (N2): /etc/passwd,
 * /etc/group, /etc/subuid, /etc/subgid. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum id_file {
	ID_FILE_ACCOUNTS, /* "name:x:ID:..." */
	ID_FILE_RANGES,   /* "name:FIRST:COUNT" */
};

struct id_claim {
	struct str name;
	uint64_t first, last;
};

/* The first line of TEXT with ids from FIRST to LAST. Lines that are not of the format claim nothing. */
bool id_claim_find(struct str text, enum id_file kind, uint64_t first, uint64_t last, struct id_claim *ret);
