// SPDX-License-Identifier: Apache-2.0
/* cli/hint.h - advice for errors. Pure. */
#pragma once
struct osb_error;

/* A sentence, or NULL. */
const char *hint_for(const struct osb_error *e);
