// SPDX-License-Identifier: Apache-2.0
#include "warden/box_record.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/sha256.h"
#include "sys/fd.h"

#include "base/banned.h"

#define MAGIC 0x31636552U /* "Rec1" */
#define NEW_NAME BOX_RECORD_NAME ".new"
#define LAYERS_BYTES_MAX (WIRE_LAYERS_MAX * sizeof(struct slot_layer))
#define RECORD_BYTES_MAX (sizeof(struct head) + LAYERS_BYTES_MAX + WIRE_RECORD_MAX)

/* The file never leaves its host: numbers are in the host's order of bytes. The layers follow, then the server's part. */
struct head {
	uint32_t magic, n_layers;
	uint64_t n_text;
	unsigned char file[BOX_FILE_BYTES];
	unsigned char sum[SHA256_SIZE]; /* of the whole file, with zeroes here */
};

static void sum_of(const struct head *head, struct str layers, struct str text, unsigned char out[SHA256_SIZE])
{
	struct head blank = *head;
	struct sha256 s;

	memset(blank.sum, 0, sizeof(blank.sum));
	sha256_init(&s);
	sha256_add(&s, &blank, sizeof(blank));
	sha256_add(&s, layers.p, layers.n);
	sha256_add(&s, text.p, text.n);
	sha256_end(&s, out);
}

/* ---- writing ---- */

static int read_sealed(int fd, char **ret, size_t *ret_n, struct err *e)
{
	AUTO(free) char *p = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size < 0 || (size_t)st.st_size > WIRE_RECORD_MAX)
		return err_set(e, ERR_INVALID, "a record of another size");
	p = malloc((size_t)st.st_size + 1);
	if (!p)
		return err_no_memory(e);
	if (pread(fd, p, (size_t)st.st_size, 0) != st.st_size)
		return err_set(e, ERR_IO, "a record that cannot be read");
	*ret_n = (size_t)st.st_size;
	*ret = take_ptr(&p);
	return 0;
}

static int write_as(int dir, const char *name, const struct box_file *f, const struct stack *s, int sealed, struct err *e)
{
	struct head head = { .magic = MAGIC, .n_layers = (uint32_t)s->n };
	struct str layers = { (const char *)s->layers, s->n * sizeof(*s->layers) };
	AUTO(free) char *text = NULL;
	AUTO_FD fd = -1;
	struct iovec parts[3];
	size_t n = 0;

	if (read_sealed(sealed, &text, &n, e) < 0)
		return -1;
	head.n_text = n;
	box_file_encode(f, head.file);
	sum_of(&head, layers, (struct str){ text, n }, head.sum);
	parts[0] = (struct iovec){ &head, sizeof(head) };
	parts[1] = (struct iovec){ s->layers, layers.n };
	parts[2] = (struct iovec){ text, n };
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && writev(fd, parts, ARRAY_LEN(parts)) == (ssize_t)(sizeof(head) + layers.n + n))
		return 0;
	return err_sys(e, fd < 0 ? errno : ENOSPC, "write the record of box '%s'", f->id);
}

int box_record_write(int dir, const struct box_file *f, const struct stack *s, int sealed, struct err *e)
{
	return write_as(dir, BOX_RECORD_NAME, f, s, sealed, e);
}

int box_record_replace(int dir, const struct box_file *f, const struct stack *s, int sealed, struct err *e)
{
	if (write_as(dir, NEW_NAME, f, s, sealed, e) < 0)
		return -1;
	KILL_POINT("warden.record.written");
	if (renameat(dir, NEW_NAME, dir, BOX_RECORD_NAME) == 0)
		return 0;
	return err_sys(e, errno, "replace the record of box '%s'", f->id);
}

/* ---- reading ---- */

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the record of a box: %s", what);
}

/* Splits BYTES; 0 when the sum is right. */
static int split(struct str bytes, struct head *head, struct str *layers, struct str *text, struct err *e)
{
	unsigned char sum[SHA256_SIZE];

	if (bytes.n < sizeof(*head))
		return bad(e, "another size");
	memcpy(head, bytes.p, sizeof(*head));
	if (head->magic != MAGIC || head->n_layers > WIRE_LAYERS_MAX || head->n_text > WIRE_RECORD_MAX)
		return bad(e, "another kind");
	layers->n = head->n_layers * sizeof(struct slot_layer);
	text->n = head->n_text;
	if (bytes.n != sizeof(*head) + layers->n + text->n)
		return bad(e, "another size");
	layers->p = bytes.p + sizeof(*head);
	text->p = layers->p + layers->n;
	sum_of(head, *layers, *text, sum);
	return memcmp(sum, head->sum, sizeof(sum)) == 0 ? 0 : bad(e, "another sum");
}

int box_record_read(int dir, struct box_file *ret_file, struct stack *ret_stack, struct buf *text, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(RECORD_BYTES_MAX);
	struct str layers, mine;
	struct head head;

	if (fd_read_file(dir, BOX_RECORD_NAME, RECORD_BYTES_MAX, &b, e) < 0)
		return e->code == ERR_LIMIT ? bad(e, "another size") : -1;
	if (split(buf_str(&b), &head, &layers, &mine, e) < 0)
		return -1;
	if (text && !buf_add(text, mine.p, mine.n))
		return err_no_memory(e);
	if (!ret_file)
		return 0;
	if (box_file_decode((struct str){ (const char *)head.file, sizeof(head.file) }, ret_file, e) < 0)
		return -1;
	return stack_decode(layers, ret_stack, e);
}
