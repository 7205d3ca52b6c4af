// SPDX-License-Identifier: Apache-2.0
/* cli/keys.h - keyboard input for a sandbox's terminal, and the escape keys of osb: '~' at the beginning of a
 * line and one more key. Pure.
 *
 *     ~.   leave: the shell and what runs in it end        ~~   a '~'
 *     ~d   leave it running, to come back to               ~?   show these keys
 *
 * Everything else, a '~' with any other key included, is passed through unchanged. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;

enum keys_order { KEYS_NONE, KEYS_END, KEYS_DETACH, KEYS_HELP };

struct keys {
	bool is_off;      /* all goes through */
	bool is_mid_line; /* something was typed since the last end of line */
	bool has_tilde;   /* one is held back */
};

/* Appends to OUT what is for the sandbox, up to the first order; *ret_used: how many bytes of DATA were
 * taken. */
enum keys_order keys_feed(struct keys *k, const char *data, size_t n, struct buf *out, size_t *ret_used);
