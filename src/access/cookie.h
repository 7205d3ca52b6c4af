// SPDX-License-Identifier: Apache-2.0
/* access/cookie.h - confines cookies of sandboxes that share an origin. Pure.
 *
 * A browser stores cookies by host and path. Where all sandboxes are behind one host, a cookie with `Path=/`
 * would be sent to all of them, and any sandbox could set it for all (RFC 6265 section 8.6). So each cookie
 * is rewritten to the path that leads to its sandbox. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct buf;

/* The first N segments of PATH, "/a/b" of "/a/b/c" for 2; all of it when it has fewer. */
struct str cookie_prefix(struct str path, size_t n);

/* Appends the value of a Set-Cookie header to OUT so that the cookie counts for this host alone, and below
 * PREFIX: what VALUE has for its Path is put behind it, and without one the folder of TARGET is, as the
 * sandbox sees it. Without a PREFIX paths stay as they are. False: such a cookie cannot be (`__Host-` needs
 * Path=/), and the header is left out. */
bool cookie_confine(struct str value, struct str prefix, struct str target, struct buf *out);
