// SPDX-License-Identifier: Apache-2.0
/* execd/code_texts.h - the programs of drivers/, which tools/embed-drivers makes part of execd. They are handed to their interpreters as
 * arguments, and no file of a sandbox is needed. */
#pragma once

extern const char code_text_python[], code_text_node[], code_text_bash[];
