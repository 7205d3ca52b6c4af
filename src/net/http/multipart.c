// SPDX-License-Identifier: Apache-2.0
#include "net/http/multipart.h"

#include "base/err.h"
#include "net/http/header.h"
#include "net/http/http1.h"

#include "base/banned.h"

#define DELIMITER_MAX (4 + MULTIPART_BOUNDARY_MAX)

enum multipart_state {
	MULTIPART_PREAMBLE,
	MULTIPART_AFTER,   /* a delimiter is complete: "--", or blanks and CRLF, must follow */
	MULTIPART_HEAD,
	MULTIPART_DATA,
	MULTIPART_EPILOGUE,
	MULTIPART_FAILED,
};

/* The delimiter is CRLF "--" boundary, and CR occurs at its front only. So when a partial match of `matched`
 * bytes turns out to be content, those bytes are the front of the delimiter itself (nothing has to be kept)
 * and the next match cannot begin inside them. */
struct multipart {
	const struct multipart_ops *ops;
	void *arg;
	enum multipart_state state;
	size_t parts;

	char delimiter[DELIMITER_MAX];
	size_t delimiter_n;
	size_t matched;  /* bytes of the delimiter at the end of the input so far */
	size_t borrowed; /* of these, how many belong to the line before and are not content */

	char after[2];   /* MULTIPART_AFTER: a '-' or CR that waits for its second byte */
	size_t after_n, padding;

	char head[MULTIPART_HEAD_MAX];
	size_t head_n, line; /* bytes in head; where its last line begins */
	bool has_disposition, has_type, has_name, has_plain_filename, has_ext_filename;
	struct multipart_part part; /* views of head */
};

/* ---- the boundary ------------------------------------------------------------------------------------------ */

static int check_boundary(struct str s, struct err *e)
{
	if (s.n == 0 || s.n > MULTIPART_BOUNDARY_MAX)
		return err_set(e, ERR_INVALID, "multipart boundary must have 1 to %d bytes", MULTIPART_BOUNDARY_MAX);
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~')
			return err_set(e, ERR_INVALID, "bad character in the multipart boundary");
	if (s.p[s.n - 1] == ' ')
		return err_set(e, ERR_INVALID, "multipart boundary ends with a blank");
	return 0;
}

static int set_boundary(struct multipart *m, const struct header_param *param, struct err *e)
{
	char text[4 * MULTIPART_BOUNDARY_MAX];
	struct str boundary = param->value;

	if (m->delimiter_n > 0)
		return err_set(e, ERR_INVALID, "two multipart boundaries");
	if (boundary.n <= sizeof(text))
		boundary = header_param_text(param, text);
	if (check_boundary(boundary, e) < 0)
		return -1;
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary.p, boundary.n);
	m->delimiter_n = 4 + boundary.n;
	return 0;
}

static int read_content_type(struct multipart *m, struct str content_type, struct err *e)
{
	struct header_param param;
	struct str params;
	int got;

	if (!str_eq_nocase(header_value(content_type, &params), STR("multipart/form-data")))
		return err_set(e, ERR_INVALID, "content type is not multipart/form-data");
	while ((got = header_param_next(&params, &param, e)) > 0)
		if (str_eq_nocase(param.name, STR("boundary")) && set_boundary(m, &param, e) < 0)
			return -1;
	if (got < 0)
		return err_wrap(e, "content type");
	if (m->delimiter_n == 0)
		return err_set(e, ERR_INVALID, "content type has no multipart boundary");
	return 0;
}

struct multipart *multipart_new(struct str content_type, const struct multipart_ops *ops, void *arg, struct err *e)
{
	AUTO(multipart_free) struct multipart *m = calloc(1, sizeof(*m));

	if (!m) {
		(void)err_no_memory(e);
		return NULL;
	}
	m->ops = ops;
	m->arg = arg;
	m->matched = 2; /* the first delimiter may stand at the very front, without a CRLF */
	if (read_content_type(m, content_type, e) < 0)
		return NULL;
	return take_ptr(&m);
}

void multipart_free(struct multipart *m)
{
	free(m);
}

/* ---- part headers ------------------------------------------------------------------------------------------ */

/* The same bytes of the header block, as a place to write to. */
static char *head_place(struct multipart *m, struct str view)
{
	return m->head + (view.p - m->head);
}

static int set_name(struct multipart *m, struct str text, struct err *e)
{
	if (m->has_name)
		return err_set(e, ERR_INVALID, "two names");
	m->has_name = true;
	m->part.name = text;
	return 0;
}

static int set_filename(struct multipart *m, struct str text, bool is_ext, struct err *e)
{
	bool *seen = is_ext ? &m->has_ext_filename : &m->has_plain_filename;

	if (*seen)
		return err_set(e, ERR_INVALID, "two file names");
	*seen = true;
	if (is_ext || !m->has_ext_filename)
		m->part.filename = text;
	m->part.has_filename = true;
	return 0;
}

static int read_disposition_param(struct multipart *m, const struct header_param *param, struct err *e)
{
	struct str text;

	if (str_eq_nocase(param->name, STR("filename*"))) {
		/* An unusable one is left out: a sender that knows of it sends a plain filename too. */
		if (header_ext_value(param->value, head_place(m, param->value), &text))
			return set_filename(m, text, true, e);
		return 0;
	}
	if (!str_eq_nocase(param->name, STR("name")) && !str_eq_nocase(param->name, STR("filename")))
		return 0;
	text = header_param_text(param, head_place(m, param->value));
	if (!utf8_valid(text))
		return err_set(e, ERR_INVALID, "'%.*s' is not UTF-8", STR_ARG(param->name));
	return param->name.n == 4 ? set_name(m, text, e) : set_filename(m, text, false, e);
}

static int read_disposition(struct multipart *m, struct str value, struct err *e)
{
	struct header_param param;
	struct str params;
	int got;

	if (m->has_disposition)
		return err_set(e, ERR_INVALID, "two Content-Disposition headers");
	m->has_disposition = true;
	if (!str_eq_nocase(header_value(value, &params), STR("form-data")))
		return err_set(e, ERR_INVALID, "content disposition is not form-data");
	while ((got = header_param_next(&params, &param, e)) > 0)
		if (read_disposition_param(m, &param, e) < 0)
			return -1;
	return got;
}

/* Content is handed on as it is, so only the codings that change nothing are right. */
static int check_transfer_encoding(struct str value, struct err *e)
{
	if (str_eq_nocase(value, STR("binary")) || str_eq_nocase(value, STR("8bit")) ||
	    str_eq_nocase(value, STR("7bit")))
		return 0;
	return err_set(e, ERR_INVALID, "content transfer encoding is not supported");
}

static int read_header(struct multipart *m, struct str line, struct err *e)
{
	struct str name, value;

	if (!str_cut(line, ':', &name, &value))
		return err_set(e, ERR_INVALID, "malformed header line");
	value = header_trim(value);
	if (!http_is_token(name) || !http_is_field_value(value))
		return err_set(e, ERR_INVALID, "malformed header line");
	if (str_eq_nocase(name, STR("Content-Disposition")))
		return read_disposition(m, value, e);
	if (str_eq_nocase(name, STR("Content-Transfer-Encoding")))
		return check_transfer_encoding(value, e);
	if (str_eq_nocase(name, STR("Content-Type"))) {
		if (m->has_type)
			return err_set(e, ERR_INVALID, "two Content-Type headers");
		m->has_type = true;
		if (!utf8_valid(value))
			return err_set(e, ERR_INVALID, "content type is not UTF-8");
		m->part.content_type = value;
	}
	return 0;
}

static int begin_head(struct multipart *m, struct err *e)
{
	if (m->parts == MULTIPART_PARTS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d parts", MULTIPART_PARTS_MAX);
	m->parts++;
	m->state = MULTIPART_HEAD;
	m->head_n = m->line = 0;
	m->has_disposition = m->has_type = m->has_name = false;
	m->has_plain_filename = m->has_ext_filename = false;
	m->part = (struct multipart_part){ 0 };
	return 0;
}

static int end_head(struct multipart *m, struct err *e)
{
	if (!m->has_name)
		return err_set(e, ERR_INVALID, "no name");
	m->state = MULTIPART_DATA;
	m->matched = m->borrowed = 2; /* a part without content: its delimiter shares the CRLF of the blank line */
	return 1;
}

/* Takes one line, or what there is of it. 1: the header block is complete. */
static int take_head(struct multipart *m, struct str *in, struct err *e)
{
	const char *lf = memchr(in->p, '\n', in->n);
	struct str line, piece = lf ? str_first(*in, (size_t)(lf - in->p) + 1) : *in;

	if (piece.n > sizeof(m->head) - m->head_n)
		return err_set(e, ERR_LIMIT, "header block larger than %d bytes", MULTIPART_HEAD_MAX);
	memcpy(m->head + m->head_n, piece.p, piece.n);
	m->head_n += piece.n;
	*in = str_skip(*in, piece.n);
	if (!lf)
		return 0;
	line = (struct str){ m->head + m->line, m->head_n - m->line };
	if (!str_ends(line, STR("\r\n")))
		return err_set(e, ERR_INVALID, "header line ends with a bare LF");
	line.n -= 2;
	m->line = m->head_n;
	return line.n > 0 ? read_header(m, line, e) : end_head(m, e);
}

/* ---- delimiters and content -------------------------------------------------------------------------------- */

static int give_data(struct multipart *m, const char *p, size_t n, struct err *e)
{
	if (m->state != MULTIPART_DATA || n == 0)
		return 0;
	return m->ops->part_data(m->arg, (struct str){ p, n }, e);
}

static int end_content(struct multipart *m, struct err *e)
{
	bool in_part = m->state == MULTIPART_DATA;

	m->state = MULTIPART_AFTER;
	m->matched = m->borrowed = 0;
	m->after_n = m->padding = 0;
	return in_part ? m->ops->part_end(m->arg, e) : 0;
}

/* Goes on with a match that began in an earlier piece. */
static int continue_match(struct multipart *m, struct str *in, struct err *e)
{
	size_t n = MIN(in->n, m->delimiter_n - m->matched);
	size_t before = m->matched - m->borrowed;

	if (memcmp(in->p, m->delimiter + m->matched, n) == 0) {
		m->matched += n;
		*in = str_skip(*in, n);
		return m->matched == m->delimiter_n ? end_content(m, e) : 0;
	}
	n = 0;
	while (in->p[n] == m->delimiter[m->matched + n])
		n++;
	if (give_data(m, m->delimiter + m->borrowed, before + n, e) < 0)
		return -1;
	m->matched = m->borrowed = 0;
	*in = str_skip(*in, n);
	return 0;
}

/* Gives out content up to the next delimiter, or to one that may begin at the end of the input. */
static int take_content(struct multipart *m, struct str *in, struct err *e)
{
	struct str s = *in;
	size_t at = 0;

	if (m->matched > 0)
		return continue_match(m, in, e);
	for (;;) {
		const char *cr = memchr(s.p + at, '\r', s.n - at);
		size_t n, found;

		if (!cr) {
			*in = str_skip(s, s.n);
			return give_data(m, s.p, s.n, e);
		}
		found = (size_t)(cr - s.p);
		n = MIN(s.n - found, m->delimiter_n);
		if (memcmp(cr, m->delimiter, n) == 0) {
			if (give_data(m, s.p, found, e) < 0)
				return -1;
			*in = str_skip(s, found + n);
			m->matched = n;
			return n == m->delimiter_n ? end_content(m, e) : 0;
		}
		at = found + 1;
	}
}

static int take_after(struct multipart *m, struct str *in, struct err *e)
{
	char c = in->p[0];

	*in = str_skip(*in, 1);
	if (m->after_n == 0 && (c == ' ' || c == '\t')) {
		if (++m->padding > MULTIPART_PADDING_MAX)
			return err_set(e, ERR_LIMIT, "more than %d blanks after a delimiter", MULTIPART_PADDING_MAX);
		return 0;
	}
	m->after[m->after_n++] = c;
	if (c == '\r' && m->after_n == 1)
		return 0;
	if (c == '-' && m->padding == 0 && m->after_n == 1)
		return 0;
	if (c == '\n' && m->after_n == 2 && m->after[0] == '\r')
		return begin_head(m, e);
	if (c == '-' && m->after_n == 2 && m->after[0] == '-') {
		m->state = MULTIPART_EPILOGUE;
		return 0;
	}
	return err_set(e, ERR_INVALID, "delimiter is not followed by CRLF or '--'");
}

static int take_some(struct multipart *m, struct str *in, struct err *e)
{
	int got;

	switch (m->state) {
	case MULTIPART_PREAMBLE:
	case MULTIPART_DATA:
		return take_content(m, in, e);
	case MULTIPART_AFTER:
		return take_after(m, in, e);
	case MULTIPART_HEAD:
		got = take_head(m, in, e);
		if (got < 0)
			return err_wrap(e, "part %zu", m->parts);
		return got > 0 ? m->ops->part_begin(m->arg, &m->part, e) : 0;
	case MULTIPART_EPILOGUE:
		*in = (struct str){ 0 };
		return 0;
	case MULTIPART_FAILED:
		break;
	}
	return err_set(e, ERR_INVALID, "multipart body was refused before");
}

int multipart_feed(struct multipart *m, struct str data, struct err *e)
{
	while (data.n > 0) {
		if (take_some(m, &data, e) < 0) {
			m->state = MULTIPART_FAILED;
			return -1;
		}
	}
	return 0;
}

int multipart_finish(struct multipart *m, struct err *e)
{
	if (m->state == MULTIPART_EPILOGUE)
		return 0;
	if (m->state == MULTIPART_FAILED)
		return err_set(e, ERR_INVALID, "multipart body was refused before");
	m->state = MULTIPART_FAILED;
	return err_set(e, ERR_INVALID, "multipart body ends before its last delimiter");
}
