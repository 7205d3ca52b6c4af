// SPDX-License-Identifier: Apache-2.0
/* cli/config_edit.h - the settings file as text: creates one, and changes one value while all comments stay.
 * Pure, except the last function. */
#pragma once
#include <sys/types.h>

#include "base/str.h"

struct buf;
struct err;

extern const char config_template[]; /* every key, commented out */

/* TEXT with FIELD of SECTION set to VALUE: the first line that sets it, also one that is commented out, is
 * replaced; else a line is added to the section, or the section to the end. true, false and numbers are
 * written as such, but for keys that are texts. */
void config_edit(struct str text, struct str section, struct str field, struct str value, struct buf *out);

/* Writes the file as a whole; folders on the way are made, a link stays. */
int config_write_file(const char *path, struct str text, mode_t mode, struct err *e);
