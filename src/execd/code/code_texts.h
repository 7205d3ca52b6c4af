// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_texts.h - the programs of drivers/, embedded into execd by tools/embed-drivers.
 * Interpreters read them from a socket, so no file of the sandbox is needed. */
#pragma once
#include "base/str.h"

extern const struct str code_text_python, code_text_node, code_text_bash;
