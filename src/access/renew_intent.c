// SPDX-License-Identifier: Apache-2.0
#include "access/renew_intent.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/rfc3339.h"

#include "base/banned.h"

struct wire {
	struct str id, observed_at, request_uri;
	int64_t port;
};

static const struct field fields[] = {
	FIELD(struct wire, id, FIELD_TEXT, "sandbox_id", .required = true, .min = 1, .max = 256),
	FIELD(struct wire, observed_at, FIELD_TEXT, "observed_at", .required = true, .min = 1, .max = RFC3339_TEXT_MAX),
	FIELD(struct wire, port, FIELD_INT, "port", .min = 0, .max = 65535),
	FIELD(struct wire, request_uri, FIELD_TEXT, "request_uri"),
	{ 0 },
};

bool renew_intent_write(const struct renew_intent *in, struct buf *b)
{
	struct json_out o = json_out(b);
	char at[RFC3339_SIZE];

	(void)rfc3339_format_ns(timespec_from_us(in->observed_us), at);
	json_open(&o, '{');
	json_key(&o, "sandbox_id"), json_str(&o, in->id);
	json_key(&o, "observed_at"), json_cstr(&o, at);
	if (in->port != 0)
		json_key(&o, "port"), json_uint(&o, in->port);
	if (in->request_uri.n > 0)
		json_key(&o, "request_uri"), json_str(&o, in->request_uri);
	json_close(&o, '}');
	return !b->failed;
}

int renew_intent_read(struct str text, struct arena *a, struct renew_intent *ret, struct err *e)
{
	struct json_limits limits = { .bytes = RENEW_INTENT_MAX, .depth = 4, .values = 64 };
	struct decode d = { .arena = a };
	const struct json *v = json_parse(a, text, &limits, NULL, e);
	struct wire w = { 0 };
	struct timespec at;

	if (!v || decode(&d, v, fields, &w, e) < 0 || rfc3339_parse(w.observed_at, 0, &at, e) < 0)
		return -1;
	*ret = (struct renew_intent){ w.id, timespec_to_us(at), (unsigned)w.port, w.request_uri };
	return 0;
}
