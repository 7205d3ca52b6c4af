// SPDX-License-Identifier: Apache-2.0
#include "image/tar_write.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

/* Where the parts of a ustar record are. */
enum { NAME_AT = 0, MODE_AT = 100, UID_AT = 108, GID_AT = 116, SIZE_AT = 124, MTIME_AT = 136, SUM_AT = 148, TYPE_AT = 156, MAGIC_AT = 257 };
#define NAME_LEN 100
#define SIZE_LEN 12
#define OCTAL_MAX (UINT64_C(1) << 33) /* eleven digits */

static unsigned sum_of(const unsigned char record[TAR_RECORD])
{
	unsigned sum = 0;

	for (size_t i = 0; i < TAR_RECORD; i++)
		sum += i >= SUM_AT && i < SUM_AT + 8 ? ' ' : record[i];
	return sum;
}

/* What eleven octal digits cannot say is told in base 256, as all readers know it. */
static void put_size(unsigned char *at, uint64_t size)
{
	char text[SIZE_LEN + 1];

	if (size < OCTAL_MAX) {
		(void)snprintf(text, sizeof(text), "%011llo", (unsigned long long)size);
		memcpy(at, text, SIZE_LEN);
		return;
	}
	at[0] = 0x80;
	for (size_t i = SIZE_LEN - 1; i > 0; i--, size >>= 8)
		at[i] = (unsigned char)size;
}

bool tar_header(const char *name, uint64_t size, unsigned char out[TAR_RECORD])
{
	char sum[8];
	size_t n = strlen(name);

	if (n == 0 || n > NAME_LEN)
		return false;
	memset(out, 0, TAR_RECORD);
	memcpy(out + NAME_AT, name, n);
	memcpy(out + MODE_AT, "0000644", 8);
	memcpy(out + UID_AT, "0000000", 8);
	memcpy(out + GID_AT, "0000000", 8);
	put_size(out + SIZE_AT, size);
	memcpy(out + MTIME_AT, "00000000000", 12);
	out[TYPE_AT] = '0';
	memcpy(out + MAGIC_AT, "ustar\00000", 8);
	(void)snprintf(sum, sizeof(sum), "%06o", sum_of(out));
	memcpy(out + SUM_AT, sum, 7);
	out[SUM_AT + 7] = ' ';
	return true;
}

static bool get_number(const unsigned char *at, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (at[0] & 0x80) {
		for (size_t i = 1; i < n; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | at[i];
		}
		*ret = v;
		return at[0] == 0x80;
	}
	for (size_t i = 0; i < n && at[i] != '\0' && at[i] != ' '; i++) {
		if (at[i] < '0' || at[i] > '7')
			return false;
		v = v << 3 | (uint64_t)(at[i] - '0');
	}
	*ret = v;
	return true;
}

int tar_header_read(const unsigned char in[TAR_RECORD], char ret_name[101], uint64_t *ret_size)
{
	static const unsigned char zeros[TAR_RECORD];
	uint64_t sum;

	if (memcmp(in, zeros, TAR_RECORD) == 0)
		return 0;
	if (!get_number(in + SUM_AT, 7, &sum) || sum != sum_of(in) || in[TYPE_AT] != '0' || !get_number(in + SIZE_AT, SIZE_LEN, ret_size))
		return -1;
	memcpy(ret_name, in + NAME_AT, NAME_LEN);
	ret_name[NAME_LEN] = '\0';
	return ret_name[0] ? 1 : -1;
}
