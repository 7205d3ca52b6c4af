// SPDX-License-Identifier: Apache-2.0
#include "client/upload.h"

#include <stdio.h>

#include "base/err.h"
#include "base/json_out.h"
#include "base/uuid.h"

#include "base/banned.h"

#define PATH_BYTES_MAX 8192
#define NAME_BYTES_MAX 256
#define HEAD_MAX ((size_t)64 * 1024) /* all of these escaped, six bytes for one, and what is around them */
#define TAIL_MAX 128

enum stage { STAGE_HEAD, STAGE_FILE, STAGE_TAIL, STAGE_END };

static void write_metadata(struct buf *b, const struct osb_entry *entry)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "path"), json_cstr(&o, entry->path);
	if (entry->owner)
		json_key(&o, "owner"), json_cstr(&o, entry->owner);
	if (entry->group)
		json_key(&o, "group"), json_cstr(&o, entry->group);
	if (entry->mode != 0)
		json_key(&o, "mode"), json_int(&o, entry->mode);
	json_close(&o, '}');
}

/* A path is in the metadata alone: as the name of a file it would have to be escaped in ways that readers disagree about. */
static void write_head(struct buf *b, const char *boundary, const struct osb_entry *entry)
{
	buf_addf(b, "--%s\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n", boundary);
	buf_addf(b, "Content-Type: application/json\r\n\r\n");
	write_metadata(b, entry);
	buf_addf(b, "\r\n--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n", boundary);
	buf_addf(b, "Content-Type: application/octet-stream\r\n\r\n");
}

int upload_init(struct upload *u, const struct osb_entry *entry, int64_t size, osb_read_fn *read, void *arg, struct err *e)
{
	char boundary[UUID_HEX_LEN + 1];

	if (strlen(entry->path) > PATH_BYTES_MAX || str_of(entry->owner).n > NAME_BYTES_MAX || str_of(entry->group).n > NAME_BYTES_MAX)
		return err_set(e, ERR_INVALID, "the path '%.64s', or a name that belongs to it, is too long", entry->path);
	if (uuid_hex32(NULL, boundary, e) < 0)
		return -1;
	*u = (struct upload){ .head = BUF_INIT(HEAD_MAX), .tail = BUF_INIT(TAIL_MAX), .size = size, .left = size, .read = read, .arg = arg };
	write_head(&u->head, boundary, entry);
	buf_addf(&u->tail, "\r\n--%s--\r\n", boundary);
	(void)snprintf(u->type, sizeof(u->type), "multipart/form-data; boundary=%s", boundary);
	if (!u->head.failed && !u->tail.failed)
		return 0;
	upload_done(u);
	return err_no_memory(e);
}

void upload_done(struct upload *u)
{
	buf_done(&u->head);
	buf_done(&u->tail);
}

int64_t upload_length(const struct upload *u)
{
	return u->size < 0 ? -1 : u->size + (int64_t)(u->head.n + u->tail.n);
}

static size_t take(struct upload *u, const struct buf *from, char *out, size_t max)
{
	size_t n = MIN(max, from->n - u->at);

	memcpy(out, from->p + u->at, n);
	u->at += n;
	if (u->at == from->n) {
		u->at = 0;
		u->stage++;
	}
	return n;
}

static long take_file(struct upload *u, char *out, size_t max)
{
	size_t want = u->left >= 0 ? (size_t)MIN((uint64_t)max, (uint64_t)u->left) : max;
	long n = want > 0 ? u->read(out, want, u->arg) : 0;

	if (n < 0 || (size_t)n > want) {
		u->problem = "the source of the file gave up";
		return -1;
	}
	if (n == 0 && u->left > 0) {
		u->problem = "the source of the file ended before the size that was told";
		return -1;
	}
	u->left -= u->left >= 0 ? n : 0;
	if (n == 0)
		u->stage++;
	return n;
}

long upload_read(char *out, size_t max, void *arg)
{
	struct upload *u = arg;
	size_t done = 0;

	while (done < max && u->stage != STAGE_END) {
		long n;

		if (u->stage == STAGE_HEAD)
			n = (long)take(u, &u->head, out + done, max - done);
		else if (u->stage == STAGE_TAIL)
			n = (long)take(u, &u->tail, out + done, max - done);
		else
			n = take_file(u, out + done, max - done);
		if (n < 0)
			return -1;
		done += (size_t)n;
		if (n > 0 && u->stage == STAGE_FILE)
			break; /* a source may wait for more: what there is goes out first */
	}
	return (long)done;
}
