// SPDX-License-Identifier: Apache-2.0
/* Routes of a gateway, as labels, as paths and as lists of keys: what is read lies inside of what was given, and a signature
 * that is made for what was read is valid, and no other. */
#include <stdlib.h>

#include "access/route_token.h"
#include "base/err.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check(const struct route_keys *k, struct str in, const struct route_token *t)
{
	char signature[ROUTE_SIGNATURE_LEN + 1];
	struct route_token own = *t;

	require(t->id.n > 0 && t->id.p >= in.p && t->id.p + t->id.n <= in.p + in.n);
	require(t->port >= 1 && t->port <= 65535);
	require(t->rest.n <= t->plain_rest.n);
	if (!t->is_signed)
		return;
	(void)route_check(k, t, 0);
	if (!route_sign(k, 'a', t->id, t->port, t->expires, signature))
		return; /* an id that is too long */
	own.signature = str_of(signature);
	require(route_check(k, &own, t->expires) == ROUTE_VALID);
	signature[0] = signature[0] == '0' ? '1' : '0';
	require(route_check(k, &own, t->expires) == ROUTE_MISMATCH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(route_keys_done) struct route_keys k = { 0 };
	AUTO(route_keys_done) struct route_keys foreign = { 0 };
	struct str in = { (const char *)data, size };
	struct route_token t;
	struct err e = { 0 };

	(void)route_keys_parse(&foreign, in, &e);
	require(route_keys_add(&k, 'a', STR("c2VjcmV0"), &e) == 0);
	if (route_read_label(in, &t, &e) == 0)
		check(&k, in, &t);
	if (route_read_path(in, &t, &e) == 0)
		check(&k, in, &t);
	return 0;
}
