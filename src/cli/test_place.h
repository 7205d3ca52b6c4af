// SPDX-License-Identifier: Apache-2.0
/* cli/test_place.h - for tests: a temporary folder. Needs <cmocka.h> before it. */
#pragma once
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/tree.h"

struct place {
	char path[64];
	int fd;
};

static inline int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	memcpy(p->path, "/tmp/osb-unit-XXXXXX", sizeof("/tmp/osb-unit-XXXXXX"));
	assert_non_null(mkdtemp(p->path));
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(p->fd >= 0);
	*state = p;
	return 0;
}

static inline int remove_place(void **state)
{
	struct place *p = *state;

	(void)close(p->fd);
	assert_int_equal(tree_remove(AT_FDCWD, p->path, &(struct err){ 0 }), 0);
	free(p);
	return 0;
}
