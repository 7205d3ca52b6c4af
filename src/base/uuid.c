// SPDX-License-Identifier: Apache-2.0
#include "base/uuid.h"

#include <stddef.h>

#include "base/hex.h"
#include "base/own.h"
#include "base/random.h"

#include "base/banned.h"

int uuid_hex32(struct random_pool *pool, char out[UUID_HEX_LEN + 1], struct err *e)
{
	unsigned char b[16];
	int r = pool ? random_pool_take(pool, b, sizeof(b), e) : random_bytes(b, sizeof(b), e);

	if (r < 0)
		return -1;
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* version 4 */
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); /* the variant of RFC 9562 */
	hex_encode(out, b, sizeof(b));
	return 0;
}

int uuid_text(struct random_pool *pool, char out[UUID_LEN + 1], struct err *e)
{
	static const unsigned char groups[] = { 8, 4, 4, 4, 12 };
	char hex[UUID_HEX_LEN + 1];
	const char *from = hex;

	if (uuid_hex32(pool, hex, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		memcpy(out, from, groups[i]);
		out += groups[i];
		from += groups[i];
		*out++ = i + 1 < ARRAY_LEN(groups) ? '-' : '\0';
	}
	return 0;
}

bool id_valid(struct str id)
{
	if (id.n == 0 || id.n > ID_MAX || id.p[0] == '-')
		return false;
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
			return false;
	}
	return true;
}
