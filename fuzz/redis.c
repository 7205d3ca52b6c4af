// SPDX-License-Identifier: Apache-2.0
/* What a Redis server says, and DSNs: a reply that is read lies inside of what was given, and none comes out of less of it. */
#include <stdlib.h>

#include "base/err.h"
#include "net/redis.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void inside(struct str in, struct str s)
{
	require(!s.p || s.n == 0 || (s.p >= in.p && s.p + s.n <= in.p + in.n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };
	struct redis_reply r, less;
	struct redis_dsn d;
	size_t n, ignored;

	(void)redis_dsn_parse(in, &d, &(struct err){ 0 });
	while (redis_reply_parse(in, &r, &n) > 0) {
		require(n > 0 && n <= in.n && r.n <= REDIS_ITEMS_MAX);
		inside(in, r.text);
		for (size_t i = 0; i < r.n; i++)
			inside(in, r.items[i]);
		require(redis_reply_parse(str_first(in, n - 1), &less, &ignored) <= 0);
		in = str_skip(in, n);
	}
	return 0;
}
