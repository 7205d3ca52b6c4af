// SPDX-License-Identifier: Apache-2.0
/* The chunked coding, one byte at a time between the pieces of data. */
#include "base/own.h"
#include "net/http/http1.h"

#include "base/banned.h"

#define DIGITS_MAX 16
#define EXTENSION_MAX 256
#define TRAILER_MAX 8192

enum {
	AT_SIZE, /* the zero of a new struct http_chunked */
	AT_EXTENSION,
	AT_SIZE_LF,
	AT_DATA,
	AT_DATA_CR,
	AT_DATA_LF,
	AT_TRAILER_START,
	AT_TRAILER,
	AT_TRAILER_LF,
	AT_LAST_LF,
	AT_END,
};

static const char *on_size(struct http_chunked *c, char ch)
{
	uint64_t digit;

	if (ch == ';' || ch == '\r') {
		if (c->digits == 0)
			return "a chunk without a size";
		c->state = ch == ';' ? AT_EXTENSION : AT_SIZE_LF;
		return NULL;
	}
	if (!str_to_hex64((struct str){ &ch, 1 }, &digit))
		return "a chunk size that is not hexadecimal";
	if (++c->digits > DIGITS_MAX)
		return "a chunk size of more than 16 digits";
	c->left = c->left << 4 | digit;
	return NULL;
}

static bool is_text(char ch)
{
	return (unsigned char)ch >= 0x20 ? ch != 0x7f : ch == '\t';
}

static const char *on_extension(struct http_chunked *c, char ch)
{
	if (ch == '\r') {
		c->state = AT_SIZE_LF;
		return NULL;
	}
	if (++c->extension > EXTENSION_MAX)
		return "a chunk extension of more than 256 bytes";
	return is_text(ch) ? NULL : "a control byte in a chunk extension";
}

static const char *on_trailer(struct http_chunked *c, char ch)
{
	if (ch == '\r') {
		c->state = c->state == AT_TRAILER_START ? AT_LAST_LF : AT_TRAILER_LF;
		return NULL;
	}
	if (++c->trailer > TRAILER_MAX)
		return "trailers of more than 8 KiB";
	c->state = AT_TRAILER;
	return is_text(ch) ? NULL : "a control byte in a trailer";
}

static const char *expect(struct http_chunked *c, char ch, char want, int next)
{
	c->state = next;
	return ch == want ? NULL : "a chunk line that does not end with CRLF";
}

static const char *on_size_end(struct http_chunked *c, char ch)
{
	const char *why = expect(c, ch, '\n', c->left > 0 ? AT_DATA : AT_TRAILER_START);

	c->digits = 0;
	c->extension = 0;
	return why;
}

static const char *step(struct http_chunked *c, char ch)
{
	switch (c->state) {
	case AT_SIZE:
		return on_size(c, ch);
	case AT_EXTENSION:
		return on_extension(c, ch);
	case AT_SIZE_LF:
		return on_size_end(c, ch);
	case AT_DATA_CR:
		return expect(c, ch, '\r', AT_DATA_LF);
	case AT_DATA_LF:
		return expect(c, ch, '\n', AT_SIZE);
	case AT_TRAILER_START:
	case AT_TRAILER:
		return on_trailer(c, ch);
	case AT_TRAILER_LF:
		return expect(c, ch, '\n', AT_TRAILER_START);
	default:
		return expect(c, ch, '\n', AT_END);
	}
}

enum http_chunk http_chunk_next(struct http_chunked *c, struct str *in, struct str *ret_data, const char **ret_why)
{
	while (in->n > 0 && c->state != AT_END) {
		const char *why;

		if (c->state == AT_DATA) {
			*ret_data = str_first(*in, (size_t)MIN(c->left, (uint64_t)in->n));
			*in = str_skip(*in, ret_data->n);
			c->left -= ret_data->n;
			if (c->left == 0)
				c->state = AT_DATA_CR;
			return HTTP_CHUNK_DATA;
		}
		why = step(c, in->p[0]);
		if (why) {
			*ret_why = why;
			return HTTP_CHUNK_BAD;
		}
		*in = str_skip(*in, 1);
	}
	return c->state == AT_END ? HTTP_CHUNK_END : HTTP_CHUNK_MORE;
}
