// SPDX-License-Identifier: Apache-2.0
/* box/groups.h - the place of the boxes' control groups.
 *
 * As a systemd service, they are in a unit of their own beside the server's unit (deploy/systemd), so that
 * the unit's limits apply to boxes and systemd does not touch their groups. Otherwise they are at the root of
 * the tree. */
#pragma once

struct cgroup_layout;
struct err;

#define BOX_UNIT_SUFFIX "-boxes" /* of opensandbox.service: opensandbox-boxes.service */
#define BOX_GROUPS_FILE "groups" /* in the state directory: the v2 group that the one of all boxes was made in last */

/* STATE is the state directory, where the answer is kept: groups PREFIX with boxes in them stay in use where
 * they are, also when the program is started another way than before. ROOT: of the files that are read, NULL
 * for "/". */
int box_groups_find(const char *root, int state, const char *prefix, struct cgroup_layout *ret,
		    struct err *e);
