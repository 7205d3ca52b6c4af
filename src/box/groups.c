// SPDX-License-Identifier: Apache-2.0
#include "box/groups.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/cgroup_layout.h"
#include "sys/fd.h"

#include "base/banned.h"

/* Without the file it is the root, as in versions that knew nothing else. */
static int read_last(int state, struct buf *b, struct err *e)
{
	struct err why = { 0 };

	if (fd_read_file(state, BOX_GROUPS_FILE, CGROUP_MOUNT_MAX, b, &why) == 0 || why.code == ERR_NOT_FOUND)
		return 0;
	*e = why;
	return err_wrap(e, "read where the groups of boxes are");
}

/* 1 with its layout when there are boxes in it, otherwise 0. A place that is gone has none. */
static int try_last(const char *root, const char *base, const char *prefix, struct cgroup_layout *ret)
{
	AUTO(cgroup_layout_done) struct cgroup_layout l = CGROUP_LAYOUT_INIT;

	if (cgroup_layout_find(&(struct cgroup_find){ .root = root, .base = base }, &l, &(struct err){ 0 }) < 0 ||
	    !cgroup_is_in_use(&l, prefix))
		return 0;
	*ret = l;
	l = CGROUP_LAYOUT_INIT;
	return 1;
}

int box_groups_find(const char *root, int state, const char *prefix, struct cgroup_layout *ret, struct err *e)
{
	AUTO(cgroup_layout_done) struct cgroup_layout l = CGROUP_LAYOUT_INIT;
	AUTO(buf_done) struct buf last = BUF_INIT(CGROUP_MOUNT_MAX);

	if (cgroup_layout_find(&(struct cgroup_find){ .root = root, .beside = BOX_UNIT_SUFFIX }, &l, e) < 0 ||
	    read_last(state, &last, e) < 0)
		return -1;
	if (strcmp(buf_z(&last), l.v2_base) != 0) {
		if (try_last(root, buf_z(&last), prefix, ret))
			return 0;
		if (file_replace(state, BOX_GROUPS_FILE, str_of(l.v2_base), 0600, e) < 0)
			return -1;
	}
	*ret = l;
	l = CGROUP_LAYOUT_INIT;
	return 0;
}
