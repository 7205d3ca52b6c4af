// SPDX-License-Identifier: Apache-2.0
/* sys/secret_file.h - what other users of the host can do to a file with a secret, in the words that every program has for it.
 *
 * Root's own group counts as root. A pipe, or whatever else is no regular file, is nobody else's matter. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum secret_file_fault {
	SECRET_FILE_FINE,
	SECRET_FILE_READABLE,
	SECRET_FILE_WRITABLE, /* whoever can write it needs to read nothing */
};

enum secret_file_kind {
	SECRET_FILE_PRIVATE, /* for its owner alone: chmod 600 */
	SECRET_FILE_SHARED,  /* its group may read it, as the accounts of services do: chmod 640 */
};

/* One that cannot be looked at is fine: whoever reads it says why. */
enum secret_file_fault secret_file_look(const char *path, enum secret_file_kind kind);

/* "holds a secret that other users can read: chmod 600 PATH"; a long path is cut. */
#define SECRET_FILE_TEXT_MAX 512
void secret_file_say(enum secret_file_fault fault, const char *path, enum secret_file_kind kind, char text[SECRET_FILE_TEXT_MAX]);
