// SPDX-License-Identifier: Apache-2.0
/* WWW-Authenticate as a registry may send it: what is taken is printable text, and a token has a place to come from. */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "image/challenge.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_text(const char *z)
{
	require(strlen(z) <= CHALLENGE_TEXT_MAX);
	for (; *z; z++)
		require((*z >= 0x20 && *z < 0x7f) || *z == '\t');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct challenge c;
	struct err e = { 0 };

	if (challenge_parse((struct str){ (const char *)data, size }, &c, &e) < 0) {
		require(e.code == ERR_INVALID && e.msg[0] != '\0');
		return 0;
	}
	require(!c.has_bearer || c.realm[0] != '\0');
	check_text(c.realm);
	check_text(c.service);
	check_text(c.scope);
	return 0;
}
