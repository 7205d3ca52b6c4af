// SPDX-License-Identifier: Apache-2.0
#include "cli/keys.h"

#include "base/buf.h"

#include "base/banned.h"

static enum keys_order order_of(char c)
{
	switch (c) {
	case '.':
		return KEYS_END;
	case 'd':
		return KEYS_DETACH;
	case '?':
		return KEYS_HELP;
	default:
		return KEYS_NONE;
	}
}

enum keys_order keys_feed(struct keys *k, const char *data, size_t n, struct buf *out, size_t *ret_used)
{
	size_t i = 0;

	if (k->is_off) {
		buf_add(out, data, n);
		i = n;
	}
	for (; i < n; i++) {
		char c = data[i];

		if (k->has_tilde) {
			enum keys_order order = order_of(c);

			k->has_tilde = false;
			if (order != KEYS_NONE) {
				*ret_used = i + 1;
				return order;
			}
			if (c != '~') /* "~~" is one */
				buf_add_char(out, '~');
		} else if (c == '~' && !k->is_mid_line) {
			k->has_tilde = true;
			continue;
		}
		buf_add_char(out, c);
		k->is_mid_line = c != '\r' && c != '\n';
	}
	*ret_used = n;
	return KEYS_NONE;
}
