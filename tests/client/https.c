// SPDX-License-Identifier: Apache-2.0
/* The library over TLS: whom it trusts, and what it says of those that it does not.
 *
 *     https DOMAIN KEY CERTIFICATE
 *
 * DOMAIN has no scheme. */
#include "trying.h"

#include "base/banned.h"

static void connect_with(struct osb_options options)
{
	struct osb_error e;

	osb_client_free(client);
	client = osb_client_new(&options, &e);
	if (!client)
		errx(1, "%s", e.message);
}

int main(int argc, char **argv)
{
	struct osb_options o = OSB_OPTIONS;
	struct osb_sandbox *s = NULL;

	if (argc != 4)
		errx(2, "usage: https DOMAIN KEY CERTIFICATE");
	o.domain = argv[1];
	o.api_key = argv[2];
	o.protocol = "https";
	connect_with(o);
	FAILS(osb_server_health(client, call), OSB_NETWORK, 0);
	CHECK(strstr(error()->message, "certificate verify failed"));
	o.ca_file = argv[3];
	connect_with(o);
	for (int i = 0; i < 3; i++)
		MUST(osb_server_health(client, call));
	o.use_server_proxy = true;
	connect_with(o);
	MUST(osb_sandbox_create(client, &(struct osb_create){ .image = "host" }, &s, call));
	MUST(osb_sandbox_kill(client, osb_sandbox_id(s), call));
	o.ca_file = NULL;
	o.is_insecure = true;
	connect_with(o);
	MUST(osb_server_health(client, call));
	o.protocol = "http"; /* what a TLS port makes of that is no answer */
	connect_with(o);
	FAILS(osb_server_health(client, call), OSB_NETWORK, 0);
	osb_client_free(client);
	printf("ok\n");
	return 0;
}
