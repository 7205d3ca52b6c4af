// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_texts.h - the programs of drivers/, which tools/embed-drivers makes part of execd. They reach their interpreters by a socket:
 * no file of a sandbox is needed. */
#pragma once
#include "base/str.h"

extern const struct str code_text_python, code_text_node, code_text_bash;
