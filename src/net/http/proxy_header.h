// SPDX-License-Identifier: Apache-2.0
/* net/http/proxy_header.h - headers that our proxies do not forward. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

/* Of a request: for us, written by us, or trusted only by us. */
bool proxy_header_is_ours(struct str name);
/* The same: the tokens of ports of a sandbox that are ours. */
bool proxy_header_is_token(struct str name);
/* Of an answer: written by us, or speaking for the whole origin, which many sandboxes share. */
bool proxy_header_is_for_origin(struct str name);
