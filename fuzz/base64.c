// SPDX-License-Identifier: Apache-2.0
/* Strict base64: one value has one spelling, so what decodes encodes to the very same text; and any bytes
 * survive encoding and decoding. The first byte chooses alphabet and padding. */
#include <stdlib.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf a = BUF_INIT(1 << 20);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct err e = { 0 };
	struct str in;
	unsigned flags;

	if (size == 0)
		return 0;
	flags = data[0] & (BASE64_URL | BASE64_UNPADDED);
	in = (struct str){ (const char *)data + 1, size - 1 };
	if (base64_decode(&a, in, flags, &e) == 0) {
		if (!base64_encode(&b, a.p, a.n, flags) || !str_eq(buf_str(&b), in))
			abort();
	} else if (a.n > 0 || (e.code != ERR_INVALID && e.code != ERR_LIMIT)) {
		abort();
	}
	buf_clear(&a);
	buf_clear(&b);
	if (base64_encode(&a, in.p, in.n, flags) &&
	    (base64_decode(&b, buf_str(&a), flags, &e) < 0 || !str_eq(buf_str(&b), in)))
		abort();
	return 0;
}
