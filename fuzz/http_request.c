// SPDX-License-Identifier: Apache-2.0
/* Request heads: the verdict does not depend on how the bytes arrive, and what is accepted keeps its promises. */
#include "base/own.h"
#include "net/http/http1.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_view(struct str in, struct str view)
{
	check(view.n == 0 || (view.p >= in.p && view.p + view.n <= in.p + in.n));
}

static void check_head(const struct http_head *h, struct str in)
{
	check(h->size <= in.n && h->size >= 4 && memcmp(in.p + h->size - 4, "\r\n\r\n", 4) == 0);
	check(h->n_headers <= HTTP_HEADERS_MAX && h->host.n > 0 && http_is_token(h->method));
	check(h->framing != HTTP_LENGTH || (h->length > 0 && h->length <= HTTP_LENGTH_MAX));
	check(h->framing != HTTP_UNTIL_CLOSE);
	check_view(in, h->method);
	check_view(in, h->target);
	for (size_t i = 0; i < h->n_headers; i++) {
		check_view(in, h->headers[i].name);
		check_view(in, h->headers[i].value);
		check(http_is_token(h->headers[i].name) && http_is_field_value(h->headers[i].value));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };
	struct http_scan whole_scan = { 0 }, scan = { 0 };
	struct http_fault whole_fault = { 0 }, f = { 0 };
	struct http_head whole, h;
	int want = http_request_head(&whole_scan, in, &whole, &whole_fault);
	int got = 0;

	for (size_t n = 0; got == 0 && n <= size; n++)
		got = http_request_head(&scan, str_first(in, n), &h, &f);
	check(got == want);
	if (want > 0) {
		check_head(&whole, in);
		check(h.size == whole.size && h.framing == whole.framing && h.length == whole.length);
	} else if (want < 0) {
		check(f.status == whole_fault.status && f.status >= 400);
	}
	return 0;
}
