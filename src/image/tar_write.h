// SPDX-License-Identifier: Apache-2.0
/* image/tar_write.h - plain tars, for archives of images that leave this house: files and nothing else. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define TAR_RECORD 512
#define TAR_END_BYTES ((size_t)2 * TAR_RECORD) /* of zeros, after the last file */

/* The record before a file of SIZE bytes. False: NAME has more than 100. */
bool tar_header(const char *name, uint64_t size, unsigned char out[TAR_RECORD]);

/* How many zeros follow a file. */
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_RECORD - size % TAR_RECORD) % TAR_RECORD);
}

/* The other way, for records of the above kind alone: 1 and a file, 0 for one of zeros, -1 for anything else. */
int tar_header_read(const unsigned char in[TAR_RECORD], char ret_name[101], uint64_t *ret_size);
