// SPDX-License-Identifier: Apache-2.0
#include "warden/box_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/uuid.h"
#include "sys/fd.h"

#include "base/banned.h"

#define MAGIC 0x31786f42U /* "Box1" */
#define VERSION 2
#define VERSION_UNCHECKED 1 /* zeroes in the place of the check: of a program before it */

/* As it is in the file: the file never leaves its host, so the order of bytes is the host's. */
struct stored {
	uint32_t magic;
	uint16_t version;
	uint16_t stage;
	char id[WIRE_ID_SIZE];
	char boot[BOOT_ID_SIZE];
	uint64_t pid_start;
	int32_t pid;
	struct wire_ending ending;
	char layer[SLOT_LAYER_NAME_MAX + 1];
	uint32_t network; /* enum wire_network */
	unsigned char check[16]; /* of SHA-256 of the rest */
	char reserved[4]; /* 0 */
	uint32_t end_magic;
};
_Static_assert(sizeof(struct stored) == BOX_FILE_BYTES, "the file has no gaps");

/* ---- the bytes ---- */

static void check_of(const struct stored *s, unsigned char out[sizeof(s->check)])
{
	unsigned char sum[SHA256_SIZE];
	struct stored blank = *s;

	memset(blank.check, 0, sizeof(blank.check));
	sha256((struct str){ (const char *)&blank, sizeof(blank) }, sum);
	memcpy(out, sum, sizeof(s->check));
}

/* A bit that has changed could name another process, which has ended: the box would be taken for dead, and removed. */
static bool is_whole(const struct stored *s)
{
	unsigned char want[sizeof(s->check)] = { 0 };

	if (s->version == VERSION)
		check_of(s, want);
	return (s->version == VERSION || s->version == VERSION_UNCHECKED) && memcmp(s->check, want, sizeof(want)) == 0;
}

void box_file_encode(const struct box_file *f, unsigned char out[BOX_FILE_BYTES])
{
	struct stored s = { .magic = MAGIC, .version = VERSION, .stage = (uint16_t)f->stage, .pid_start = f->pid_start,
			    .pid = f->pid, .ending = f->ending, .network = f->network, .end_magic = MAGIC };

	(void)snprintf(s.id, sizeof(s.id), "%s", f->id); /* as long as what they are copied from */
	(void)snprintf(s.boot, sizeof(s.boot), "%s", f->boot);
	(void)snprintf(s.layer, sizeof(s.layer), "%s", f->layer);
	check_of(&s, s.check);
	memcpy(out, &s, sizeof(s));
}

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the file of a box: %s", what);
}

/* Text up to its NUL, and nothing but NULs behind it. */
static bool is_text(const char *p, size_t size)
{
	size_t n = strnlen(p, size);

	if (n == size)
		return false;
	for (size_t i = n; i < size; i++)
		if (p[i])
			return false;
	return true;
}

static bool is_layer(const char *name)
{
	return name[0] != '-' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static int check_texts(const struct stored *s, struct err *e)
{
	static const char nothing[sizeof(s->reserved)];

	if (!is_text(s->id, sizeof(s->id)) || !is_text(s->boot, sizeof(s->boot)) || !is_text(s->layer, sizeof(s->layer)))
		return bad(e, "text without an end");
	if (!id_valid(str_of(s->id)) || !s->boot[0] || !is_layer(s->layer))
		return bad(e, "a name that is none");
	return memcmp(s->reserved, nothing, sizeof(nothing)) != 0 ? bad(e, "more than we know") : 0;
}

int box_file_decode(struct str bytes, struct box_file *ret, struct err *e)
{
	struct stored s;

	if (bytes.n != sizeof(s))
		return bad(e, "another size");
	memcpy(&s, bytes.p, sizeof(s));
	if (s.magic != MAGIC || s.end_magic != MAGIC)
		return bad(e, "another kind");
	if (!is_whole(&s))
		return bad(e, "another version, or damaged");
	if (s.stage < BOX_STARTING || s.stage > BOX_REMOVING || s.pid <= 1 || s.ending.reason > WIRE_END_LOST || s.ending.oom > 1 ||
	    s.network > WIRE_NET_POLICY)
		return bad(e, "a value out of range");
	if (check_texts(&s, e) < 0)
		return -1;
	*ret = (struct box_file){ .stage = s.stage, .pid = s.pid, .pid_start = s.pid_start, .ending = s.ending,
				  .network = s.network };
	memcpy(ret->id, s.id, sizeof(ret->id));
	memcpy(ret->boot, s.boot, sizeof(ret->boot));
	memcpy(ret->layer, s.layer, sizeof(ret->layer));
	return 0;
}

/* ---- the file ---- */

/* In place: fewer bytes than a page are there all or not at all, whenever we are killed, and the file need not outlive more
 * than that. Its size never changes after the first time, so that a full disk is no matter either. */
int box_file_write(int dir, const struct box_file *f, struct err *e)
{
	AUTO_FD fd = openat(dir, BOX_FILE_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	unsigned char bytes[BOX_FILE_BYTES];
	ssize_t n;

	box_file_encode(f, bytes);
	KILL_POINT("warden.file.opened");
	n = fd < 0 ? -1 : pwrite(fd, bytes, sizeof(bytes), 0);
	if (n == (ssize_t)sizeof(bytes))
		return 0;
	return err_sys(e, n < 0 ? errno : ENOSPC, "note the state of box '%s'", f->id);
}

int box_file_read(int dir, struct box_file *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(BOX_FILE_BYTES);

	return fd_read_file(dir, BOX_FILE_NAME, BOX_FILE_BYTES, &b, e) < 0 ? -1 : box_file_decode(buf_str(&b), ret, e);
}
