// SPDX-License-Identifier: Apache-2.0
/* fetch/auth.h - answers to challenges: Basic, or a token from the realm of the challenge. */
#pragma once
#include "base/str.h"

struct err;
struct registry;

#define TOKEN_MAX ((size_t)16 * 1024)
#define TOKEN_ANSWER_MAX ((size_t)64 * 1024)

/* Sets r->authorization. ERR_DENIED: there are no credentials to answer with, they are not good, or they
 * would have to go to somebody else (I4). */
int auth_answer(struct registry *r, struct str challenge, struct err *e);

/* ---- for tests ---- */
/* Whether HOST may see the credentials that were given for the registry on HOME. */
bool auth_is_trusted(const char *home, const char *host, const char *named);
