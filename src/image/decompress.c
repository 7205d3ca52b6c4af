// SPDX-License-Identifier: Apache-2.0
#include "image/decompress.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>

#include "base/err.h"
#include "base/escape.h"
#include "image/tar.h"

#include "base/banned.h"

#define BLOCK_BYTES ((size_t)256 * 1024)

/* The library's words may repeat the blob's. */
static int failed(const struct decompress *s, struct err *e)
{
	const char *why = archive_error_string(s->raw);

	return err_set(e, archive_errno(s->raw) == ENOMEM ? ERR_UNAVAILABLE : ERR_INVALID, "%s",
		       why ? SHOWN(str_of(why)) : "the archive is damaged");
}

/* A filter that this library does not have inside would be a program that it starts: ARCHIVE_WARN says so. */
static int choose_filters(const struct decompress *s, struct err *e)
{
	if (archive_read_support_filter_gzip(s->raw) != ARCHIVE_OK || archive_read_support_filter_zstd(s->raw) != ARCHIVE_OK ||
	    archive_read_support_filter_xz(s->raw) != ARCHIVE_OK)
		return err_set(e, ERR_UNAVAILABLE, "libarchive was built without a decompressor");
	return archive_read_support_format_raw(s->raw) != ARCHIVE_OK ? failed(s, e) : 0;
}

int decompress_open(struct decompress *s, const struct tar_source *source, uint64_t bytes_max, struct err *e)
{
	struct archive_entry *ae;
	int k;

	*s = (struct decompress){ .left = bytes_max, .is_hashed = source->ret_digest };
	if (s->is_hashed)
		hasher_init(&s->hasher, source->ret_digest->size);
	s->raw = archive_read_new();
	if (!s->raw)
		return err_no_memory(e);
	if (choose_filters(s, e) < 0)
		return -1;
	k = source->fd >= 0 ? archive_read_open_fd(s->raw, source->fd, BLOCK_BYTES) :
			      archive_read_open_memory(s->raw, source->bytes.p, source->bytes.n);
	if (k == ARCHIVE_OK)
		k = archive_read_next_header(s->raw, &ae); /* of the one entry that there is */
	return k != ARCHIVE_OK ? failed(s, e) : 0;
}

void decompress_done(struct decompress *s)
{
	if (s->raw)
		(void)archive_read_free(s->raw);
	s->raw = NULL;
}

ssize_t decompress_next(struct decompress *s, const void **ret, struct err *e)
{
	la_int64_t at = 0;
	size_t n = 0;
	int k;

	do
		k = archive_read_data_block(s->raw, ret, &n, &at);
	while (k == ARCHIVE_OK && n == 0);
	if (k == ARCHIVE_EOF)
		return 0;
	if (k < ARCHIVE_WARN)
		return failed(s, e);
	if (n > s->left)
		return err_set(e, ERR_LIMIT, "the archive holds more bytes than an image may have");
	s->left -= n;
	if (s->is_hashed)
		hasher_add(&s->hasher, *ret, n);
	return (ssize_t)n;
}

int decompress_drain(struct decompress *s, struct err *e)
{
	const void *bytes;
	ssize_t n;

	do
		n = decompress_next(s, &bytes, e);
	while (n > 0);
	return (int)n;
}

const char *decompress_kind(const struct decompress *s)
{
	static const char *const kinds[] = { "gzip", "zstd", "xz" };
	const char *name = archive_filter_name(s->raw, 0);

	for (size_t i = 0; name && i < ARRAY_LEN(kinds); i++)
		if (strcmp(name, kinds[i]) == 0)
			return kinds[i];
	return "";
}
