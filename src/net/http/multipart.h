// SPDX-License-Identifier: Apache-2.0
/* net/http/multipart.h - a streaming multipart/form-data parser (RFC 7578, RFC 2046).
 *
 * Bytes come in pieces of any size; the content of parts goes out in slices of those pieces, without being
 * copied. Besides the parser itself nothing is allocated. Taken as clients send it: quoted boundaries,
 * unquoted disposition parameters, filename*, raw UTF-8, part headers in any order, blanks after a delimiter,
 * a preamble and an epilogue (both ignored). Refused: bare LF, folded or repeated disposition headers, a part
 * without a name, transfer encodings. A delimiter never shows up in content: a line that begins with one and
 * goes on otherwise is an error. The size of the whole body is the caller's to limit. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"

struct err;
struct multipart;

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_PARTS_MAX 20000
#define MULTIPART_HEAD_MAX 8192   /* bytes of one part's header block */
#define MULTIPART_PADDING_MAX 256 /* blanks after a delimiter */

struct multipart_part {
	struct str name;         /* UTF-8 without control bytes, as are the two others; may be empty */
	struct str filename;     /* filename* if there is a usable one, else filename */
	struct str content_type; /* as written; empty when there was none */
	bool has_filename;
};

/* Called from multipart_feed(). 0 to go on; -1 with an error to refuse, which is what feed then returns.
 * Views are valid during the call only. Data slices are never empty. */
struct multipart_ops {
	int (*part_begin)(void *arg, const struct multipart_part *part, struct err *e);
	int (*part_data)(void *arg, struct str data, struct err *e);
	int (*part_end)(void *arg, struct err *e);
};

/* CONTENT_TYPE is the request's header value: multipart/form-data with a boundary, or ERR_INVALID. */
struct multipart *multipart_new(struct str content_type, const struct multipart_ops *ops, void *arg,
				struct err *e);
void multipart_free(struct multipart *m);
DEFINE_AUTO(struct multipart *, multipart_free)

/* ERR_INVALID for malformed input, ERR_LIMIT beyond a ceiling. After an error every later call fails too. */
int multipart_feed(struct multipart *m, struct str data, struct err *e);
int multipart_finish(struct multipart *m, struct err *e); /* -1 unless the closing delimiter was seen */
