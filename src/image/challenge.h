// SPDX-License-Identifier: Apache-2.0
/* image/challenge.h - the challenge in a registry's 401 response (RFC 9110 section 11, and the token scheme
 * of registries). */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;

#define CHALLENGE_TEXT_MAX 2048 /* of one parameter */
#define CHALLENGE_MAX 16384     /* of all headers together */
#define CHALLENGE_SCHEMES_MAX 16
#define CHALLENGE_PARAMS_MAX 64

struct challenge {
	bool has_basic, has_bearer;
	/* of Bearer: where tokens come from; never empty then, and no more than text */
	char realm[CHALLENGE_TEXT_MAX + 1];
	char service[CHALLENGE_TEXT_MAX + 1], scope[CHALLENGE_TEXT_MAX + 1]; /* "": not said */
};

/* VALUE is that of WWW-Authenticate, or of several joined by ", ". Other schemes are passed over; of several
 * Bearer challenges the first counts. ERR_INVALID for what does not follow the grammar, for control
 * characters of any kind, and for a Bearer challenge without a realm. */
int challenge_parse(struct str value, struct challenge *ret, struct err *e);
