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

/* Of NAME as much as there is room for. */
static void put_record(unsigned char out[TAR_RECORD], char type, const char *name, uint64_t size)
{
	memset(out, 0, TAR_RECORD);
	memcpy(out + NAME_AT, name, MIN(strlen(name), (size_t)NAME_LEN));
	put_octal(out + MODE_AT, 8, 0644);
	put_octal(out + UID_AT, 8, 0);
	put_octal(out + GID_AT, 8, 0);
	put_size(out + SIZE_AT, size);
	put_octal(out + MTIME_AT, SIZE_LEN, 0);
	out[TYPE_AT] = (unsigned char)type;
	finish(out);
}

/* A record of pax tells its own length, which counts itself, and what follows KEY. */
static size_t pax_length(size_t key, size_t value)
{
	size_t n = key + value + 3, digits = 1; /* ' ', '=' and the end of the line */

	for (size_t power = 10; n + digits >= power; power *= 10)
		digits++;
	return n + digits;
}

#define PAX_NAME "PaxHeaders/entry"
#define PAX_PATH "path"

size_t tar_head_size(const char *name)
{
	return strlen(name) > NAME_LEN ? TAR_HEAD_MAX : TAR_RECORD;
}

size_t tar_head(const char *name, uint64_t size, unsigned char out[TAR_HEAD_MAX])
{
	size_t n = strlen(name), length = pax_length(strlen(PAX_PATH), n);

	if (n == 0 || n > TAR_NAME_MAX)
		return 0;
	if (n <= NAME_LEN) {
		put_record(out, '0', name, size);
		return TAR_RECORD;
	}
	put_record(out, 'x', PAX_NAME, length);
	memset(out + TAR_RECORD, 0, TAR_RECORD);
	(void)snprintf((char *)out + TAR_RECORD, TAR_RECORD, "%zu " PAX_PATH "=%s\n", length, name);
	put_record(out + (size_t)2 * TAR_RECORD, '0', name, size);
	return TAR_HEAD_MAX;
}

/* ---- entries of layers ---- */

#define ID_OCTAL_MAX 07777777

void tar_pax_add(struct buf *out, const char *key, struct str value)
{
	buf_addf(out, "%zu %s=", pax_length(strlen(key), value.n), key);
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
		tar_pax_add(pax, PAX_PATH, path);
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

	put_record(header, 'x', PAX_NAME, records.n);
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

/* "LENGTH path=NAME\n", and zeros up to the end of the record. */
static bool read_path(const unsigned char in[TAR_RECORD], char ret[TAR_NAME_MAX + 1])
{
	static const unsigned char zeros[TAR_RECORD];
	struct str text = { (const char *)in, strnlen((const char *)in, TAR_RECORD) }, number, rest;
	uint64_t length;

	if (!str_cut(text, ' ', &number, &rest) || !str_to_u64(number, 1, TAR_RECORD, &length) || length != text.n ||
	    memcmp(in + text.n, zeros, TAR_RECORD - text.n) != 0 || !str_starts(rest, STR(PAX_PATH "=")) || !str_ends(rest, STR("\n")))
		return false;
	rest = str_first(str_skip(rest, strlen(PAX_PATH "=")), rest.n - strlen(PAX_PATH "=\n"));
	if (rest.n <= NAME_LEN || rest.n > TAR_NAME_MAX)
		return false;
	memcpy(ret, rest.p, rest.n);
	ret[rest.n] = '\0';
	return true;
}

static enum tar_step read_record(struct tar_reader *r, const unsigned char in[TAR_RECORD], char ret_name[TAR_NAME_MAX + 1],
				 uint64_t *ret_size)
{
	uint64_t sum, size;

	if (!get_number(in + SUM_AT, 7, &sum) || sum != sum_of(in) || !get_number(in + SIZE_AT, SIZE_LEN, &size) || !in[NAME_AT])
		return TAR_BROKEN;
	if (in[TYPE_AT] == 'x' && !r->name[0] && size <= TAR_RECORD) {
		r->has_more = true;
		return TAR_MORE;
	}
	if (in[TYPE_AT] != '0')
		return TAR_BROKEN;
	memcpy(ret_name, r->name, sizeof(r->name));
	if (!r->name[0]) {
		memcpy(ret_name, in + NAME_AT, NAME_LEN);
		ret_name[NAME_LEN] = '\0';
	}
	r->name[0] = '\0';
	*ret_size = size;
	return TAR_FILE;
}

enum tar_step tar_head_read(struct tar_reader *r, const unsigned char in[TAR_RECORD], char ret_name[TAR_NAME_MAX + 1],
			    uint64_t *ret_size)
{
	static const unsigned char zeros[TAR_RECORD];

	if (r->has_more) {
		r->has_more = false;
		return read_path(in, r->name) ? TAR_MORE : TAR_BROKEN;
	}
	if (memcmp(in, zeros, TAR_RECORD) == 0)
		return r->name[0] ? TAR_BROKEN : TAR_ZEROS;
	return read_record(r, in, ret_name, ret_size);
}
