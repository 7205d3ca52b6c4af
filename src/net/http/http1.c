// SPDX-License-Identifier: Apache-2.0
#include "net/http/http1.h"

#include "base/own.h"
#include "net/http/header.h"

#include "base/banned.h"

enum {
	C_TOKEN = 1,  /* RFC 9110 tchar */
	C_FIELD = 2,  /* in a field value: visible, obs-text, SP and HTAB */
	C_TARGET = 4, /* visible ASCII */
	C_HOST = 8,   /* reg-name, IP literal, port */
};

/* clang-format off */
#define A_ (C_TOKEN | C_FIELD | C_TARGET | C_HOST) /* letters, digits and marks that may stand everywhere */
#define T_ (C_TOKEN | C_FIELD | C_TARGET)
#define H_ (C_FIELD | C_TARGET | C_HOST)
#define V_ (C_FIELD | C_TARGET)
#define F_ C_FIELD
static const uint8_t class[256] = {
	0,0,0,0,0,0,0,0,0,F_,0,0,0,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
	/* sp  !   "   #   $   %   &   '   (   )   *   +   ,   -   .   / */
	F_,A_,V_,T_,A_,A_,A_,A_,H_,H_,A_,A_,H_,A_,A_,V_,
	/* 0-9 :   ;   <   =   >   ? */
	A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,H_,H_,V_,H_,V_,V_,
	/* @ A-O */
	V_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,
	/* P-Z [ \ ] ^ _ */
	A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,H_,V_,H_,T_,A_,
	/* ` a-o */
	T_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,
	/* p-z { | } ~ DEL */
	A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,A_,V_,T_,V_,A_,0,
	F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_, F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,
	F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_, F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,
	F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_, F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,
	F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_, F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,F_,
};
/* clang-format on */

static bool all_of(struct str s, uint8_t bit)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(class[(uint8_t)s.p[i]] & bit))
			return false;
	return true;
}

/* all_of(s, C_FIELD), eight bytes at a time until one of them is a control byte (a tab is one that may stay). */
static bool is_field_text(struct str s)
{
	const uint64_t ones = 0x0101010101010101, highs = ones << 7;

	while (s.n >= sizeof(uint64_t)) {
		uint64_t w, del;

		memcpy(&w, s.p, sizeof(w));
		del = w ^ ones * 0x7f;
		if ((((w - ones * 0x20) & ~w) | ((del - ones) & ~del)) & highs)
			break;
		s = str_skip(s, sizeof(w));
	}
	return all_of(s, C_FIELD);
}

bool http_is_token(struct str s)
{
	return s.n > 0 && all_of(s, C_TOKEN);
}

static bool is_ows(char c)
{
	return c == ' ' || c == '\t';
}

bool http_is_request_id(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return s.n > 0 && s.n <= HTTP_REQUEST_ID_MAX;
}

bool http_is_field_value(struct str s)
{
	return is_field_text(s) && (s.n == 0 || (!is_ows(s.p[0]) && !is_ows(s.p[s.n - 1])));
}

static int fault(struct http_fault *f, unsigned status, const char *why)
{
	*f = (struct http_fault){ status, why };
	return -1;
}

/* ---- finding the end of a head ---- */

static int check_sizes(const struct http_scan *s, size_t seen, struct http_fault *f)
{
	if (s->first_line == 0 && seen > HTTP_LINE_MAX)
		return fault(f, 414, "request line too long");
	if (s->first_line > 0 && seen - s->first_line > HTTP_BLOCK_MAX)
		return fault(f, 431, "header fields too large");
	return 0;
}

/* When the empty line is in IN, s->at is the size of the head. */
int http_scan(struct http_scan *s, struct str in, struct http_fault *f)
{
	while (!s->is_complete && s->at < in.n) {
		const char *lf = memchr(in.p + s->at, '\n', in.n - s->at);
		size_t end = lf ? (size_t)(lf - in.p) : in.n;

		if (check_sizes(s, end, f) < 0)
			return -1;
		if (!lf) {
			s->at = in.n;
			return 0;
		}
		if (end == s->line_start || in.p[end - 1] != '\r')
			return fault(f, 400, "a line that does not end with CRLF");
		s->at = end + 1;
		if (end - s->line_start == 1 && s->first_line == 0)
			return fault(f, 400, "an empty line where a request should begin");
		s->is_complete = end - s->line_start == 1;
		if (s->first_line == 0)
			s->first_line = s->at;
		s->line_start = s->at;
	}
	return s->is_complete;
}

/* ---- header fields ---- */

struct fields {
	bool has_length, has_coding, has_upgrade, says_upgrade, says_close, says_keep_alive;
};

static int take_length(struct http_head *h, struct fields *fs, struct str v, struct http_fault *f)
{
	if (fs->has_length)
		return fault(f, 400, "Content-Length given twice");
	fs->has_length = true;
	if (!str_to_u64(v, 0, HTTP_LENGTH_MAX, &h->length))
		return fault(f, 400, "Content-Length is not a number of at most 2^53");
	return 0;
}

static int take_coding(struct fields *fs, struct str v, struct http_fault *f)
{
	if (fs->has_coding || !str_eq_nocase(v, STR("chunked")))
		return fault(f, 400, "Transfer-Encoding is not a single 'chunked'");
	fs->has_coding = true;
	return 0;
}

static int take_host(struct http_head *h, struct str v, struct http_fault *f)
{
	if (h->host.n > 0)
		return fault(f, 400, "Host given twice");
	if (v.n == 0 || !all_of(v, C_HOST))
		return fault(f, 400, "Host is not a host");
	h->host = v;
	return 0;
}

static int take_connection(struct fields *fs, struct str v)
{
	struct str item;

	while (header_list_next(&v, &item)) {
		fs->says_close |= str_eq_nocase(item, STR("close"));
		fs->says_keep_alive |= str_eq_nocase(item, STR("keep-alive"));
		fs->says_upgrade |= str_eq_nocase(item, STR("upgrade"));
	}
	return 0;
}

static int take_expect(struct http_head *h, struct str v, struct http_fault *f)
{
	if (!str_eq_nocase(v, STR("100-continue")))
		return fault(f, 417, "an expectation other than 100-continue");
	h->expects_continue = true;
	return 0;
}

/* The fields that decide how the message is framed; all others are for the layers above. */
static int take_field(struct http_head *h, struct fields *fs, struct str name, struct str v, struct http_fault *f)
{
	switch (name.n) {
	case 4:
		return str_eq_nocase(name, STR("host")) ? take_host(h, v, f) : 0;
	case 6:
		return str_eq_nocase(name, STR("expect")) ? take_expect(h, v, f) : 0;
	case 7:
		fs->has_upgrade |= v.n > 0 && str_eq_nocase(name, STR("upgrade"));
		return 0;
	case 10:
		return str_eq_nocase(name, STR("connection")) ? take_connection(fs, v) : 0;
	case 14:
		return str_eq_nocase(name, STR("content-length")) ? take_length(h, fs, v, f) : 0;
	case 17:
		return str_eq_nocase(name, STR("transfer-encoding")) ? take_coding(fs, v, f) : 0;
	default:
		return 0;
	}
}

/* LINE is without its CRLF. */
static int parse_field(struct http_head *h, struct fields *fs, struct str line, struct http_fault *f)
{
	struct str name, value;
	size_t i = 0;

	while (i < line.n && class[(uint8_t)line.p[i]] & C_TOKEN)
		i++;
	if (i == 0)
		return fault(f, 400, is_ows(line.p[0]) ? "a folded header line" : "a header without a name");
	if (i == line.n || line.p[i] != ':')
		return fault(f, 400, "a header name that is not followed by a colon");
	name = str_first(line, i);
	value = header_trim(str_skip(line, i + 1));
	if (!is_field_text(value))
		return fault(f, 400, "a control byte in a header");
	if (h->n_headers == HTTP_HEADERS_MAX)
		return fault(f, 431, "too many header fields");
	h->headers[h->n_headers++] = (struct http_header){ name, value };
	return take_field(h, fs, name, value, f);
}

static int parse_fields(struct http_head *h, struct fields *fs, struct str block, struct http_fault *f)
{
	while (block.n > 2) { /* the empty line is left */
		const char *lf = memchr(block.p, '\n', block.n);
		size_t n = (size_t)(lf - block.p);

		if (parse_field(h, fs, str_first(block, n - 1), f) < 0)
			return -1;
		block = str_skip(block, n + 1);
	}
	return 0;
}

static int decide_framing(struct http_head *h, const struct fields *fs, struct http_fault *f)
{
	if (fs->has_coding && fs->has_length)
		return fault(f, 400, "both Content-Length and Transfer-Encoding");
	if (fs->has_coding && h->minor == 0)
		return fault(f, 400, "Transfer-Encoding in HTTP/1.0");
	if (fs->has_coding)
		h->framing = HTTP_CHUNKED;
	else if (fs->has_length)
		h->framing = h->length > 0 ? HTTP_LENGTH : HTTP_NO_BODY;
	h->keep_alive = h->minor == 1 ? !fs->says_close : fs->says_keep_alive && !fs->says_close;
	h->has_upgrade = fs->says_upgrade && fs->has_upgrade && h->minor == 1;
	return 0;
}

/* ---- requests ---- */

static int parse_version(struct http_head *h, struct str v, struct http_fault *f)
{
	if (str_eq(v, STR("HTTP/1.1")))
		h->minor = 1;
	else if (str_eq(v, STR("HTTP/1.0")))
		h->minor = 0;
	else if (v.n == 8 && str_starts(v, STR("HTTP/")) && v.p[5] >= '0' && v.p[5] <= '9' && v.p[6] == '.')
		return fault(f, 505, "a version of HTTP that is not spoken here");
	else
		return fault(f, 400, "a request line without an HTTP version");
	return 0;
}

static int parse_request_line(struct http_head *h, struct str line, struct http_fault *f)
{
	struct str version;

	if (!str_cut(line, ' ', &h->method, &line) || !http_is_token(h->method) || h->method.n > 32)
		return fault(f, 400, "a request line without a method");
	if (!str_cut(line, ' ', &h->target, &version))
		return fault(f, 400, "a request line without a version");
	if (h->target.n == 0 || !all_of(h->target, C_TARGET))
		return fault(f, 400, "a request target with bytes that have to be escaped");
	if (h->target.p[0] != '/' && !str_eq(h->target, STR("*")))
		return fault(f, 400, "a request target that is not a path");
	return parse_version(h, version, f);
}

static void head_clear(struct http_head *h)
{
	memset(h, 0, offsetof(struct http_head, headers)); /* only headers[0..n_headers) are ever looked at */
}

int http_request_head(struct http_scan *s, struct str in, struct http_head *h, struct http_fault *f)
{
	struct fields fs = { 0 };
	int r = http_scan(s, in, f);

	if (r <= 0)
		return r;
	head_clear(h);
	h->size = s->at;
	in = str_first(in, s->at);
	if (parse_request_line(h, str_first(in, s->first_line - 2), f) < 0 ||
	    parse_fields(h, &fs, str_skip(in, s->first_line), f) < 0 || decide_framing(h, &fs, f) < 0)
		return -1;
	if (h->host.n == 0)
		return fault(f, 400, "Host is missing");
	if (h->minor == 0)
		h->expects_continue = false;
	return 1;
}

/* ---- responses ---- */

static int parse_status_line(struct http_head *h, struct str line, struct http_fault *f)
{
	struct str version, code, reason;
	uint64_t status;
	bool has_reason;

	if (!str_cut(line, ' ', &version, &line) || parse_version(h, version, f) < 0)
		return fault(f, 502, "a status line without an HTTP version");
	has_reason = str_cut(line, ' ', &code, &reason);
	if (code.n != 3 || !str_to_u64(code, 100, 599, &status))
		return fault(f, 502, "a status line without a status");
	if (has_reason && !all_of(reason, C_FIELD))
		return fault(f, 502, "a control byte in a status line");
	h->status = (unsigned)status;
	return 0;
}

static void response_framing(struct http_head *h, const struct fields *fs, bool is_head_request)
{
	if (is_head_request || h->status < 200 || h->status == 204 || h->status == 304)
		h->framing = HTTP_NO_BODY;
	else if (!fs->has_length && !fs->has_coding)
		h->framing = HTTP_UNTIL_CLOSE;
	if (h->framing == HTTP_UNTIL_CLOSE)
		h->keep_alive = false;
}

int http_response_head(struct http_scan *s, struct str in, bool is_head_request, struct http_head *h,
		       struct http_fault *f)
{
	struct fields fs = { 0 };
	int r = http_scan(s, in, f);

	if (r > 0) {
		head_clear(h);
		h->size = s->at;
		in = str_first(in, s->at);
		r = parse_status_line(h, str_first(in, s->first_line - 2), f) < 0 ||
				    parse_fields(h, &fs, str_skip(in, s->first_line), f) < 0 ||
				    decide_framing(h, &fs, f) < 0
			    ? -1
			    : 1;
	}
	if (r < 0)
		f->status = 502; /* it is the other side that is at fault */
	if (r > 0)
		response_framing(h, &fs, is_head_request);
	return r;
}

/* ---- looking things up ---- */

const struct http_header *http_find(const struct http_head *h, const char *name)
{
	struct str want = str_of(name);

	for (size_t i = 0; i < h->n_headers; i++)
		if (str_eq_nocase(h->headers[i].name, want))
			return &h->headers[i];
	return NULL;
}

struct str http_value(const struct http_head *h, const char *name)
{
	const struct http_header *found = http_find(h, name);

	return found ? found->value : (struct str){ "", 0 };
}

bool http_list_has(struct str list, const char *token)
{
	struct str want = str_of(token), item;

	while (header_list_next(&list, &item))
		if (str_eq_nocase(item, want))
			return true;
	return false;
}

static bool connection_names(const struct http_head *h, struct str name)
{
	for (size_t i = 0; i < h->n_headers; i++) {
		struct str rest = h->headers[i].value, item;
		bool more = str_eq_nocase(h->headers[i].name, STR("Connection"));

		while (more) {
			more = str_cut(rest, ',', &item, &rest);
			if (str_eq_nocase(header_trim(item), name))
				return true;
		}
	}
	return false;
}

bool http_is_hop_by_hop(const struct http_head *h, struct str name)
{
	static const char *const names[] = {
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Length",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_nocase(name, str_of(names[i])))
			return true;
	return connection_names(h, name);
}

const char *http_reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *reason;
	} reasons[] = {
		{ 100, "Continue" }, { 101, "Switching Protocols" }, { 200, "OK" }, { 201, "Created" },
		{ 202, "Accepted" }, { 204, "No Content" }, { 206, "Partial Content" }, { 301, "Moved Permanently" },
		{ 302, "Found" }, { 303, "See Other" }, { 304, "Not Modified" }, { 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
		{ 404, "Not Found" }, { 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 409, "Conflict" },
		{ 410, "Gone" }, { 411, "Length Required" }, { 412, "Precondition Failed" },
		{ 413, "Content Too Large" }, { 414, "URI Too Long" }, { 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" }, { 417, "Expectation Failed" }, { 422, "Unprocessable Content" },
		{ 426, "Upgrade Required" }, { 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 502, "Bad Gateway" },
		{ 503, "Service Unavailable" }, { 504, "Gateway Timeout" }, { 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}
