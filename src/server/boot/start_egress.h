// SPDX-License-Identifier: Apache-2.0
/* server/boot/start_egress.h - starts opensandbox-egress for the supervisor: as its own user, with what box/egress_start.h names. */
#pragma once
#include <stdbool.h>

struct config;
struct err;
struct native;

bool egress_is_installed(const struct native *n);
/* Its pidfd. It ends with this process. PULSE: where its signs of life go (net/pulse.h). */
int egress_start(const struct config *c, const struct native *n, int pulse, struct err *e);
