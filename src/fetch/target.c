// SPDX-License-Identifier: Apache-2.0
/* URLs, by libcurl's own parser: what is checked here is what it will connect to. */
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/own.h"
#include "fetch/http.h"

#include "base/banned.h"

DEFINE_AUTO(CURLU *, curl_url_cleanup)
DEFINE_AUTO(char *, curl_free)

static int get(CURLU *u, CURLUPart part, unsigned flags, char *out, size_t size, struct err *e)
{
	AUTO(curl_free) char *text = NULL;

	if (curl_url_get(u, part, &text, flags) != CURLUE_OK || !text)
		return err_set(e, ERR_INVALID, "a URL without all that it needs");
	if (snprintf(out, size, "%s", text) >= (int)size)
		return err_set(e, ERR_LIMIT, "a URL of more than %zu bytes", size - 1);
	return 0;
}

static bool has(CURLU *u, CURLUPart part)
{
	AUTO(curl_free) char *text = NULL;

	return curl_url_get(u, part, &text, 0) == CURLUE_OK;
}

static int split(CURLU *u, struct target *t, struct err *e)
{
	char scheme[16], port[8];

	if (has(u, CURLUPART_USER) || has(u, CURLUPART_PASSWORD))
		return err_set(e, ERR_INVALID, "a URL with a user in it");
	if (get(u, CURLUPART_SCHEME, 0, scheme, sizeof(scheme), e) < 0 ||
	    get(u, CURLUPART_HOST, 0, t->host, sizeof(t->host), e) < 0 ||
	    get(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, port, sizeof(port), e) < 0)
		return -1;
	t->is_https = strcmp(scheme, "https") == 0;
	if (!t->is_https && strcmp(scheme, "http") != 0)
		return err_set(e, ERR_INVALID, "a URL with the scheme '%s'", scheme);
	for (char *p = t->host; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	(void)snprintf(t->place, sizeof(t->place), "%s:%s", t->host, port);
	if (curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) != CURLUE_OK)
		return err_no_memory(e);
	return get(u, CURLUPART_URL, 0, t->url, sizeof(t->url), e);
}

int target_parse(const char *base, const char *text, struct target *ret, struct err *e)
{
	AUTO(curl_url_cleanup) CURLU *u = curl_url();
	struct target t = { 0 };

	if (!u)
		return err_no_memory(e);
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f)
			return err_set(e, ERR_INVALID, "a URL with blanks or control characters");
	if ((base && curl_url_set(u, CURLUPART_URL, base, 0) != CURLUE_OK) ||
	    curl_url_set(u, CURLUPART_URL, text, 0) != CURLUE_OK)
		return err_set(e, ERR_INVALID, "'%s' is no URL of a registry", SHOWN(str_of(text)));
	if (split(u, &t, e) < 0)
		return -1;
	*ret = t;
	return 0;
}

const struct registry_rule *target_rule(const struct order *o, const struct target *t)
{
	struct str place = str_of(t->place), usual = t->is_https ? STR(":443") : STR(":80");
	const struct registry_rule *rule = order_rule(o, place);

	if (!rule && str_ends(place, usual))
		rule = order_rule(o, str_first(place, place.n - usual.n));
	return rule;
}
