// SPDX-License-Identifier: Apache-2.0
#include "image/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/decompress.h"
#include "image/entry.h"

#include "base/banned.h"

#define RECORD_BYTES 512 /* of a tar; one or more of zeros end it */

struct reader {
	struct archive *a;
	struct decompress stream;
	struct err stream_err; /* why it ended */
	enum entry_form form;
	uint64_t bytes_left, entries_left;
	const struct tar_sink *sink;
	void *arg;
};

static void reader_done(struct reader *r)
{
	if (r->a)
		(void)archive_read_free(r->a);
	decompress_done(&r->stream);
}
DEFINE_AUTO_DONE(struct reader, reader_done)

/* The library's words may repeat the archive's. */
static int failed(struct reader *r, struct err *e)
{
	const char *why = archive_error_string(r->a);

	if (r->stream_err.code != ERR_NONE) {
		*e = r->stream_err;
		return -1;
	}
	return err_set(e, archive_errno(r->a) == ENOMEM ? ERR_UNAVAILABLE : ERR_INVALID, "%s",
		       why ? SHOWN(str_of(why)) : "the archive is damaged");
}

/* ---- opening ---- */

static la_ssize_t read_stream(struct archive *a, void *arg, const void **ret)
{
	struct reader *r = arg;
	ssize_t n = decompress_next(&r->stream, ret, &r->stream_err);

	if (n < 0)
		archive_set_error(a, EIO, "%s", "the blob cannot be read");
	return n;
}

static int open_source(struct reader *r, const struct tar_source *s, const struct tar_limits *limits, struct err *e)
{
	if (decompress_open(&r->stream, s, limits->bytes + limits->entries * TAR_HEADERS_BYTES, e) < 0)
		return -1;
	r->a = archive_read_new();
	if (!r->a)
		return err_no_memory(e);
	if (archive_read_support_format_tar(r->a) != ARCHIVE_OK ||
	    archive_read_open2(r->a, r, NULL, read_stream, NULL, NULL) != ARCHIVE_OK)
		return failed(r, e);
	return 0;
}

/* ---- what is inside, as bytes ---- */

int tar_plain_digest(int fd, struct digest *ret, const char **ret_kind, struct err *e)
{
	AUTO(decompress_done) struct decompress d = { 0 };
	struct digest plain = { .size = SHA256_SIZE };
	const struct tar_source source = { .fd = fd, .ret_digest = &plain };

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "read the archive from its start");
	if (decompress_open(&d, &source, TAR_BYTES_MAX, e) < 0 || decompress_drain(&d, e) < 0)
		return -1;
	hasher_end(&d.hasher, ret);
	*ret_kind = decompress_kind(&d);
	return 0;
}

/* The built-in UTF-8 locale needs no file, and from UTF-8 to UTF-8 nothing is converted. */
int tar_prepare(struct err *e)
{
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : err_set(e, ERR_UNAVAILABLE, "there is no locale 'C.UTF-8'");
}

/* ---- one entry ---- */

static enum entry_kind kind_of(struct archive_entry *ae)
{
	if (archive_entry_hardlink(ae))
		return ENTRY_HARDLINK;
	switch (archive_entry_filetype(ae)) {
	case AE_IFREG: return ENTRY_FILE;
	case AE_IFDIR: return ENTRY_DIR;
	case AE_IFLNK: return ENTRY_SYMLINK;
	case AE_IFIFO: return ENTRY_FIFO;
	case AE_IFCHR:
	case AE_IFBLK: return ENTRY_DEVICE;
	default: return ENTRY_UNKNOWN;
	}
}

static struct entry_claim claim_of(struct archive_entry *ae)
{
	struct entry_claim c = {
		.path = archive_entry_pathname(ae), .kind = kind_of(ae), .mode = archive_entry_perm(ae),
		.uid = archive_entry_uid(ae),       .gid = archive_entry_gid(ae), .size = archive_entry_size(ae),
		.major = archive_entry_rdevmajor(ae), .minor = archive_entry_rdevminor(ae),
		.mtime_s = archive_entry_mtime(ae), .mtime_ns = archive_entry_mtime_nsec(ae),
	};

	if (c.kind == ENTRY_HARDLINK)
		c.target = archive_entry_hardlink(ae);
	else if (c.kind == ENTRY_SYMLINK)
		c.target = archive_entry_symlink(ae);
	return c;
}

static int charge(struct reader *r, const struct entry *en, struct err *e)
{
	if (en->size > r->bytes_left)
		return err_set(e, ERR_LIMIT, "the archive holds more bytes than an image may have");
	r->bytes_left -= en->size;
	return 0;
}

static int read_attrs(struct reader *r, struct archive_entry *ae, struct err *e)
{
	const char *name;
	const void *value;
	size_t n;

	(void)archive_entry_xattr_reset(ae);
	while (archive_entry_xattr_next(ae, &name, &value, &n) == ARCHIVE_OK) {
		int k = name ? entry_check_attr(name, e) : 0;

		if (k < 0 || (k > 0 && r->sink->attr(r->arg, name, value, n, e) < 0))
			return -1;
	}
	return 0;
}

/* What comes must fit into what was announced, and fill it unless the rest is a hole. */
static int read_data(struct reader *r, struct archive_entry *ae, const struct entry *en, struct err *e)
{
	uint64_t end = 0;

	for (;;) {
		const void *p = NULL;
		la_int64_t at = 0;
		size_t n = 0;
		int k = archive_read_data_block(r->a, &p, &n, &at);

		if (k == ARCHIVE_EOF)
			break;
		if (k < ARCHIVE_WARN)
			return failed(r, e);
		if (at < 0 || (uint64_t)at < end || (uint64_t)at > en->size || n > en->size - (uint64_t)at)
			return err_set(e, ERR_INVALID, "more data than it says");
		end = (uint64_t)at + n;
		if (n > 0 && r->sink->data(r->arg, p, n, (uint64_t)at, e) < 0)
			return -1;
	}
	if (end != en->size && archive_entry_sparse_count(ae) == 0)
		return err_set(e, ERR_INVALID, "less data than it says");
	return 0;
}

static int take_content(struct reader *r, struct archive_entry *ae, const struct entry *en, struct err *e)
{
	if (r->sink->make(r->arg, en, e) < 0 || read_attrs(r, ae, e) < 0 ||
	    (en->kind == ENTRY_FILE && read_data(r, ae, en, e) < 0))
		return -1;
	return r->sink->end(r->arg, e);
}

static int take_entry(struct reader *r, struct archive_entry *ae, struct err *e)
{
	struct entry_claim claim = claim_of(ae);
	struct entry en;
	int k = entry_check(&claim, r->form, &en, e);

	if (k < 0)
		return -1;
	if (r->entries_left-- == 0)
		return err_set(e, ERR_LIMIT, "the archive has more entries than an image may have");
	if (k == 0)
		return 0;
	if (charge(r, &en, e) < 0 || take_content(r, ae, &en, e) < 0)
		return err_wrap(e, "entry '%s'", SHOWN(str_of(en.path)));
	return 0;
}

/* ---- all of them ---- */

/* The reader takes the end of the input for the end of the archive, and an archive that was cut between two entries would
 * pass for a whole one. Its last record is of zeros, and it has been consumed. */
static int check_end(struct reader *r, struct err *e)
{
	la_int64_t from = archive_read_header_position(r->a), to = archive_filter_bytes(r->a, 0);

	return to - from < RECORD_BYTES ? err_set(e, ERR_INVALID, "the archive is cut short") : 0;
}

/* What follows the end mark is no part of the archive, but of what its digest is of. */
static int finish(struct reader *r, const struct tar_source *source, struct err *e)
{
	if (check_end(r, e) < 0 || decompress_drain(&r->stream, e) < 0)
		return -1;
	if (source->ret_digest)
		hasher_end(&r->stream.hasher, source->ret_digest);
	return 0;
}

int tar_read(const struct tar_source *source, const struct tar_limits *limits, const struct tar_sink *sink, void *arg,
	     struct err *e)
{
	AUTO(reader_done) struct reader r = { .bytes_left = limits->bytes, .entries_left = limits->entries, .sink = sink,
					      .arg = arg, .form = source->form };

	if (open_source(&r, source, limits, e) < 0)
		return -1;
	for (;;) {
		struct archive_entry *ae;
		int k = archive_read_next_header(r.a, &ae);

		if (k == ARCHIVE_EOF)
			return finish(&r, source, e);
		if (k < ARCHIVE_WARN) /* a warning: about a name's characters, and what we then get is checked as any other */
			return failed(&r, e);
		if (take_entry(&r, ae, e) < 0)
			return -1;
	}
}
