// SPDX-License-Identifier: Apache-2.0
/* Response heads: the first byte says whether the request was a HEAD. */
#include "base/own.h"
#include "net/http/http1.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_scan whole_scan = { 0 }, scan = { 0 };
	struct http_fault f = { 0 };
	struct http_head whole, h;
	bool is_head = size > 0 && data[0] & 1;
	struct str in = str_skip((struct str){ (const char *)data, size }, 1);
	int want = http_response_head(&whole_scan, in, is_head, &whole, &f);
	int got = 0;

	for (size_t n = 0; got == 0 && n <= in.n; n++)
		got = http_response_head(&scan, str_first(in, n), is_head, &h, &f);
	if (got != want || (got < 0 && f.status != 502))
		abort();
	if (want > 0 && (h.size != whole.size || h.framing != whole.framing || whole.status < 100 ||
			 (is_head && whole.framing != HTTP_NO_BODY)))
		abort();
	return 0;
}
