// SPDX-License-Identifier: Apache-2.0
/* ingress/confine.h - the confinement of the gateway (P1): it keeps its sockets, and files that its own user
 * can read. */
#pragma once
struct err;

/* As root: becomes USER, or, where there is no such account, an id that nobody has. Then, for everybody: no
 * capabilities, no new privileges, no cores, no programs, nothing of other processes. */
int confine_gateway(const char *user, struct err *e);
