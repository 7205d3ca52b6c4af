// SPDX-License-Identifier: Apache-2.0
/* cli/yaml/yaml_plain.h - decides whether a string can be plain in YAML, or needs quotes. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum yaml_form {
	YAML_PLAIN,
	YAML_SINGLE, /* 'it''s' */
	YAML_DOUBLE, /* "a\tb" */
};

/* IS_KEY: it must stay on one line. */
enum yaml_form yaml_form(struct str s, bool is_key);

/* May stand in YAML without an escape. */
bool yaml_is_printable(uint32_t rune);
