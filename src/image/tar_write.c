// SPDX-License-Identifier: Apache-2.0
#include "image/tar_write.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"

#include "base/banned.h"

/* Where the parts of a ustar record are. */
enum { NAME_AT = 0, MODE_AT = 100, UID_AT = 108, GID_AT = 116, SIZE_AT = 124, MTIME_AT = 136, SUM_AT = 148, TYPE_AT = 156, LINK_AT = 157,
       MAGIC_AT = 257 };
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

static void put_octal(unsigned char *at, size_t n, uint64_t v)
{
	char text[SIZE_LEN + 1];

	(void)snprintf(text, sizeof(text), "%0*llo", (int)n - 1, (unsigned long long)v);
	memcpy(at, text, n);
}

static void finish(unsigned char out[TAR_RECORD])
{
	char sum[8];

	memcpy(out + MAGIC_AT, "ustar\00000", 8);
	(void)snprintf(sum, sizeof(sum), "%06o", sum_of(out));
	memcpy(out + SUM_AT, sum, 7);
	out[SUM_AT + 7] = ' ';
}

bool tar_header(const char *name, uint64_t size, unsigned char out[TAR_RECORD])
{
	size_t n = strlen(name);

	if (n == 0 || n > NAME_LEN)
		return false;
	memset(out, 0, TAR_RECORD);
	memcpy(out + NAME_AT, name, n);
	put_octal(out + MODE_AT, 8, 0644);
	put_octal(out + UID_AT, 8, 0);
	put_octal(out + GID_AT, 8, 0);
	put_size(out + SIZE_AT, size);
	put_octal(out + MTIME_AT, SIZE_LEN, 0);
	out[TYPE_AT] = '0';
	finish(out);
	return true;
}

/* ---- entries of layers ---- */

#define ID_OCTAL_MAX 07777777
#define PAX_NAME "PaxHeaders/entry"

/* A record tells its own length, which counts itself. */
void tar_pax_add(struct buf *out, const char *key, struct str value)
{
	size_t n = strlen(key) + value.n + 3, digits = 1, power = 10; /* ' ', '=' and the end of the line */

	while (n + digits >= power) {
		digits++;
		power *= 10;
	}
	buf_addf(out, "%zu %s=", n + digits, key);
	buf_add_str(out, value);
	buf_add(out, "\n", 1);
}

/* Before 1970 readers do not agree about parts of a second: there are none then. */
static void add_time(struct buf *pax, int64_t s, long ns)
{
	char text[48];

	if (s >= 0 && (uint64_t)s < OCTAL_MAX && ns == 0)
		return;
	if (s < 0 || ns == 0)
		(void)snprintf(text, sizeof(text), "%lld", (long long)s);
	else
		(void)snprintf(text, sizeof(text), "%lld.%09ld", (long long)s, ns);
	tar_pax_add(pax, "mtime", str_of(text));
}

static void add_records(const struct tar_entry *t, struct buf *pax)
{
	struct str path = str_of(t->path), target = str_of(t->target ? t->target : "");
	bool has_path = path.n + (t->type == '5') > NAME_LEN, has_target = target.n > NAME_LEN;

	if ((has_path && !utf8_valid(path)) || (has_target && !utf8_valid(target)))
		tar_pax_add(pax, "hdrcharset", STR("BINARY"));
	if (has_path)
		tar_pax_add(pax, "path", path);
	if (has_target)
		tar_pax_add(pax, "linkpath", target);
	add_time(pax, t->mtime_s, t->mtime_ns);
	buf_add_str(pax, t->more);
}

static void add_padded(struct buf *out, struct str bytes)
{
	static const char zeros[TAR_RECORD];

	buf_add_str(out, bytes);
	buf_add(out, zeros, tar_padding(bytes.n));
}

static void add_pax(struct buf *out, struct str records)
{
	unsigned char header[TAR_RECORD];

	(void)tar_header(PAX_NAME, records.n, header);
	header[TYPE_AT] = 'x';
	finish(header);
	buf_add(out, (const char *)header, sizeof(header));
	add_padded(out, records);
}

void tar_entry_write(const struct tar_entry *t, struct buf *out)
{
	AUTO(buf_done) struct buf pax = BUF_INIT(out->max);
	unsigned char header[TAR_RECORD] = { 0 };
	size_t n = MIN(strlen(t->path), (size_t)NAME_LEN);

	add_records(t, &pax);
	if (pax.n > 0)
		add_pax(out, buf_str(&pax));
	out->failed |= pax.failed;
	memcpy(header + NAME_AT, t->path, n);
	if (t->type == '5' && n < NAME_LEN)
		header[NAME_AT + n] = '/';
	put_octal(header + MODE_AT, 8, t->mode & 07777);
	put_octal(header + UID_AT, 8, MIN(t->uid, (uint32_t)ID_OCTAL_MAX));
	put_octal(header + GID_AT, 8, MIN(t->gid, (uint32_t)ID_OCTAL_MAX));
	put_size(header + SIZE_AT, t->type == '0' ? t->size : 0);
	put_octal(header + MTIME_AT, SIZE_LEN, t->mtime_s >= 0 && (uint64_t)t->mtime_s < OCTAL_MAX ? (uint64_t)t->mtime_s : 0);
	header[TYPE_AT] = (unsigned char)t->type;
	if (t->target)
		memcpy(header + LINK_AT, t->target, MIN(strlen(t->target), (size_t)NAME_LEN));
	finish(header);
	buf_add(out, (const char *)header, sizeof(header));
}

/* ---- reading ---- */

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
