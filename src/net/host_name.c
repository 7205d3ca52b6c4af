// SPDX-License-Identifier: Apache-2.0
#include "net/host_name.h"

#include <string.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define LABEL_MAX 63

static int name_char(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A' + 'a';
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ? c : -1;
}

static int bad(struct str text, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, "'%.*s' is no name: %s", (int)MIN(text.n, (size_t)64), text.n ? text.p : "", why);
}

int host_name(struct str text, char out[HOST_NAME_LEN_MAX + 1], struct err *e)
{
	char name[HOST_NAME_LEN_MAX + 1];
	size_t label = 0;

	if (text.n > 0 && text.p[text.n - 1] == '.')
		text.n--;
	if (text.n == 0 || text.n > HOST_NAME_LEN_MAX)
		return bad(text, "it has 1 to 253 characters", e);
	for (size_t i = 0; i < text.n; i++) {
		int c = text.p[i] == '.' ? '.' : name_char(text.p[i]);

		if (c < 0)
			return bad(text, "only letters, digits, '-' and '_' are in one, others in their xn-- form", e);
		label = c == '.' ? 0 : label + 1;
		if (label > LABEL_MAX || (c == '.' && (i == 0 || name[i - 1] == '.')))
			return bad(text, "what is between two dots has 1 to 63 characters", e);
		name[i] = (char)c;
	}
	if (name[text.n - 1] == '.')
		return bad(text, "what is between two dots has 1 to 63 characters", e);
	memcpy(out, name, text.n);
	out[text.n] = '\0';
	return 0;
}
