// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/str.h"

#include "base/banned.h"

int random_bytes(void *p, size_t n, struct err *e)
{
	unsigned char *at = p;

	/* Up to 256 bytes come whole; longer reads can be cut short by a signal. */
	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, errno, "read random bytes");
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

int random_pool_take(struct random_pool *pool, void *p, size_t n, struct err *e)
{
	unsigned char *from;

	if (n > sizeof(pool->bytes) / 2)
		return random_bytes(p, n, e);
	if (pool->left < n) {
		if (random_bytes(pool->bytes, sizeof(pool->bytes), e) < 0)
			return -1;
		pool->left = sizeof(pool->bytes);
	}
	from = pool->bytes + sizeof(pool->bytes) - pool->left;
	memcpy(p, from, n);
	secret_wipe(from, n);
	pool->left -= n;
	return 0;
}

void random_pool_done(struct random_pool *pool)
{
	secret_wipe(pool, sizeof(*pool));
}
