// SPDX-License-Identifier: Apache-2.0
/* server/boot/doctor.h - `opensandbox-server doctor`: what this host and this configuration lack for the native runtime. */
#pragma once
#include <stdbool.h>

struct buf;
struct config;
struct preflight_report;

/* All checks: those of box/preflight.h, then what the configuration says. */
void doctor_examine(const struct config *c, struct preflight_report *ret);

/* True when nothing that is needed is missing, or was left untried for want of root. */
bool doctor_is_well(const struct preflight_report *r);

/* For people, a line for each check, with escape sequences when COLOUR; and for programs, one JSON object. */
void doctor_page(const struct preflight_report *r, bool colour, struct buf *out);
void doctor_json(const struct preflight_report *r, struct buf *out);
