// SPDX-License-Identifier: Apache-2.0
/* server/config/port_range.h - ranges of host ports in the configuration: "40000-49999". Pure. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

#define PORT_RANGE_MIN 1024

/* False unless it is FIRST-LAST, of PORT_RANGE_MIN to 65535. */
bool port_range_parse(struct str text, unsigned *ret_first, unsigned *ret_last);
