// SPDX-License-Identifier: Apache-2.0
#include "fetch/proxy.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/escape.h"
#include "fetch/http.h"
#include "net/reserved.h"

#include "base/banned.h"

bool proxy_entry_has(const char *entry, const char *host)
{
	struct str want = str_of(entry), name = str_of(host);

	if (str_is(want, "*"))
		return true;
	if (str_starts(want, STR("*.")))
		want = str_skip(want, 1);
	if (!str_starts(want, STR(".")))
		return str_eq_nocase(want, name);
	if (name.n <= want.n)
		return false;
	return str_eq_nocase(str_skip(name, name.n - want.n), want);
}

bool proxy_is_for(const struct order *o, const struct target *t)
{
	if (!o->proxy)
		return false;
	for (size_t i = 0; i < o->no_proxy.n; i++)
		if (proxy_entry_has(o->no_proxy.items[i], t->host))
			return false;
	return true;
}

/* An address as a URL has it: IPv6 in brackets. */
static bool parse_address(const char *host, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	char text[INET6_ADDRSTRLEN];
	size_t n = strlen(host);

	*ret = (struct sockaddr_storage){ 0 };
	v4->sin_family = AF_INET;
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
		return true;
	if (n < 2 || host[0] != '[' || host[n - 1] != ']' || n - 2 >= sizeof(text))
		return false;
	memcpy(text, host + 1, n - 2);
	text[n - 2] = '\0';
	v6->sin6_family = AF_INET6;
	return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

int proxy_check(const struct order *o, const struct target *t, const struct registry_rule *rule, struct err *e)
{
	const struct registry_rule *own = target_rule(o, t);
	struct sockaddr_storage a;
	bool is_local = strcmp(t->host, "localhost") == 0 || proxy_entry_has(".localhost", t->host);

	if ((rule && rule->is_private) || (own && own->is_private))
		return 0;
	if (!is_local && (!parse_address(t->host, &a) || !address_is_reserved((const struct sockaddr *)&a)))
		return 0;
	return err_set(e, ERR_DENIED, "'%s' is a private address, or one of this host, which only the operator can allow "
		       "(images.registries, private)", SHOWN(str_of(t->host)));
}
