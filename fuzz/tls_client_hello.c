// SPDX-License-Identifier: Apache-2.0
/* TLS hellos: more bytes never change what was said of fewer, and a name is one that a policy can be asked about. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/tls_hello.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tls_hello h = { 0 }, part = { 0 };
	const char *why = NULL;
	char again[HOST_NAME_LEN_MAX + 1];
	struct err e = { 0 };
	int whole;

	if (size > 2 * TLS_HELLO_MAX)
		return 0;
	whole = tls_hello_parse((struct str){ (const char *)data, size }, &h, &why);
	require(whole >= 0 || why);
	if (whole == 1 && h.has_name)
		require(host_name(str_of(h.name), again, &e) == 0 && strcmp(again, h.name) == 0);
	for (size_t n = 0; n < size; n += 1 + n / 8) {
		int k = tls_hello_parse((struct str){ (const char *)data, n }, &part, &why);

		require(k == 0 || k == whole);
		require(k != 1 || (strcmp(part.name, h.name) == 0 && part.has_encrypted == h.has_encrypted));
	}
	return 0;
}
