// SPDX-License-Identifier: Apache-2.0
/* The name of an image: what is taken has one spelling, which is taken again and means the same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/reference.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	AUTO(buf_done) struct buf c = BUF_INIT(4096);
	struct reference r, again;
	struct err e = { 0 };

	if (reference_parse((struct str){ (const char *)data, size }, &r, &e) < 0) {
		require(e.code == ERR_INVALID && e.msg[0] != '\0');
		return 0;
	}
	require(registry_valid(str_of(r.registry)) && reference_write(&r, &b));
	require(reference_parse(buf_str(&b), &again, &e) == 0 && reference_write(&again, &c) && str_eq(buf_str(&b), buf_str(&c)));
	for (size_t i = 0; i < b.n; i++)
		require(b.p[i] > 0x20 && b.p[i] < 0x7f && !memchr("\"'<>?#%\\", b.p[i], 8));
	return 0;
}
