// SPDX-License-Identifier: Apache-2.0
/* cli/copy/copy_fleet.h - transfers the files of a list, several at a time, because small files cost mainly a
 * round trip each. */
#pragma once
#include <stdbool.h>

#include "cli/copy/copy_job.h"
#include "cli/copy/file_transfer.h"

#define COPY_FLEET 8

struct copy_ship {
	struct copy_job *j;
	struct osb_call *call; /* for the operation that is begun */
	struct file_transfer transfer;
	const struct copy_entry *entry;
	const char *path; /* in the sandbox */
	bool is_under_way;
};

/* Begins to move the ship's entry, or ends it after it was moved: 0, or -1 after it was said why. */
typedef int copy_ship_fn(struct copy_ship *s, void *arg);

/* All files of the list, whose folder in the sandbox is TOP. The first that fails ends it, with all others
 * that are under way. */
int copy_fleet(struct copy_job *j, const struct copy_list *l, const char *top, copy_ship_fn *begin,
	       copy_ship_fn *end, void *arg);
