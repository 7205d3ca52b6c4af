// SPDX-License-Identifier: Apache-2.0
/* net/host_name.h - host names as queries, TLS hellos and policies contain them. Pure. */
#pragma once
#include "base/str.h"

struct err;

#define HOST_NAME_LEN_MAX 253

/* Lower case, letters, digits, '-' and '_' in labels of 1 to 63, without the last dot. ERR_INVALID. */
int host_name(struct str text, char out[HOST_NAME_LEN_MAX + 1], struct err *e);
