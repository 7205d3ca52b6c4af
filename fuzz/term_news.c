// SPDX-License-Identifier: Apache-2.0
/* A message of a terminal's server: the first byte says whether it is text. What comes out lies inside of it. */
#include <stdint.h>
#include <stdlib.h>

#include "client/term_frame.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct term_news n;

	if (size < 1)
		return 0;
	term_news_parse(data[0] & 1, (struct str){ (const char *)data + 1, size - 1 }, &n);
	if (n.data.n >= size || (n.data.n > 0 && n.kind != TERM_OUTPUT && n.kind != TERM_REPLAY))
		abort();
	if (strlen(n.code) > TERM_CODE_MAX || strlen(n.message) > TERM_MESSAGE_MAX)
		abort();
	return 0;
}
