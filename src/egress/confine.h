// SPDX-License-Identifier: Apache-2.0
/* egress/confine.h - the confinement of egress (P1): it keeps its sockets, its folder, and files for TLS and
 * the operator's lists. */
#pragma once
struct err;

/* STATE is the folder of policies, or -1; RULES_DIR, or NULL, where the operator's lists are. Of this
 * process, with one thread, for good. Started as root (by tests, or as a sidecar) it keeps its user. */
int confine_egress(int state, const char *rules_dir, struct err *e);
