// SPDX-License-Identifier: Apache-2.0
#include "net/http/proxy_header.h"

#include <stddef.h>

#include "base/banned.h"

static bool is_in(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq_nocase(name, str_of(*list)))
			return true;
	return false;
}

bool proxy_header_is_ours(struct str name)
{
	static const char *const list[] = {
		"Host", "Expect", "OPEN-SANDBOX-API-KEY", "OpenSandbox-Secure-Access", "OpenSandbox-Gateway", "OpenSandbox-Ingress-To",
		"OPEN-SANDBOX-INGRESS", "Forwarded", "X-Forwarded-Port", "X-Forwarded-Server", "X-Real-IP", NULL,
	};

	return is_in(name, list);
}

bool proxy_header_is_token(struct str name)
{
	static const char *const list[] = { "X-EXECD-ACCESS-TOKEN", "OPENSANDBOX-EGRESS-AUTH", NULL };

	return is_in(name, list);
}

bool proxy_header_is_for_origin(struct str name)
{
	static const char *const list[] = {
		"Date", "X-Request-ID", "Accept-CH", "Alt-Svc", "Clear-Site-Data", "Critical-CH", "Expect-CT", "NEL", "Origin-Agent-Cluster",
		"Public-Key-Pins", "Public-Key-Pins-Report-Only", "Report-To", "Service-Worker-Allowed", "Set-Cookie2", "Set-Login",
		"Strict-Transport-Security", "Use-As-Dictionary", NULL,
	};

	return is_in(name, list);
}
