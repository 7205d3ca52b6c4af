// SPDX-License-Identifier: Apache-2.0
/* Eight bytes of body size, then a Range header: a range that is given out lies inside the body, and asking for
 * exactly that range gives it again. Header lists and parameters are read from the same bytes. */
#include <inttypes.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/http/header.h"
#include "net/http/http1.h"
#include "net/http/range.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_params(struct str in)
{
	AUTO(buf_done) struct buf out = BUF_INIT(1 << 20);
	struct str params, text;
	struct header_param p;
	char *place = buf_reserve(&out, in.n);

	(void)header_value(in, &params);
	while (place && header_param_next(&params, &p, &(struct err){ 0 }) > 0) {
		require(http_is_token(p.name) && http_is_field_value(header_trim(p.value)));
		require(header_param_text(&p, place).n <= p.value.n);
		if (header_ext_value(p.value, place, &text))
			require(utf8_valid(text) && http_is_field_value(header_trim(text)));
	}
}

static void check_disposition(struct str name)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct str params;
	struct header_param p;

	require(header_disposition_write(&b, name) && http_is_field_value(buf_str(&b)));
	require(str_is(header_value(buf_str(&b), &params), "attachment"));
	while (header_param_next(&params, &p, &(struct err){ 0 }) > 0)
		require(http_is_token(p.name) && (!p.quoted || !p.value.n || !memchr(p.value.p, '\\', p.value.n)));
	require(params.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1000);
	struct range r, again;
	struct str in, written;
	uint64_t body;

	if (size < sizeof(body) || size > 8192)
		return 0;
	memcpy(&body, data, sizeof(body));
	in = (struct str){ (const char *)data + sizeof(body), size - sizeof(body) };
	check_params(in);
	check_disposition(in);
	if (range_parse(in, body, &r) != RANGE_OK)
		return 0;
	require(r.length > 0 && r.length <= body && r.first <= body - r.length);
	require(range_write(&b, r, body));
	require(str_cut(buf_str(&b), '/', &written, &in));
	b.p[5] = '=';
	require(range_parse(written, body, &again) == RANGE_OK && again.first == r.first && again.length == r.length);
	return 0;
}
