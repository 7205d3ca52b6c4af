// SPDX-License-Identifier: Apache-2.0
/* The secret, which stands in three places: a file, the database and its copy. Each has a checksum behind it, so that damage to one
 * is mended from another one, and never the other way round. */
#include <fcntl.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/random.h"
#include "server/store/store_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define CHECK_SIZE 8
#define BOOT_NAME "boot_id" /* written once the server knows its sandboxes */

static const char *const names[SECRET_PLACES] = { [SECRET_FILE] = "file", [SECRET_DATABASE] = "database", [SECRET_COPY] = "copy" };

static void check_of(const unsigned char *secret, unsigned char out[CHECK_SIZE])
{
	unsigned char sum[SHA256_SIZE];

	sha256((struct str){ (const char *)secret, STORE_SECRET_SIZE }, sum);
	memcpy(out, sum, CHECK_SIZE);
}

static void grade(struct secret_found *f, struct str secret, struct str check)
{
	unsigned char expected[CHECK_SIZE];

	f->grade = secret.n == 0 ? SECRET_NONE : SECRET_BAD;
	if (secret.n != STORE_SECRET_SIZE)
		return;
	memcpy(f->bytes, secret.p, secret.n);
	check_of(f->bytes, expected);
	if (check.n == 0)
		f->grade = SECRET_UNCHECKED;
	else if (check.n == CHECK_SIZE && memcmp(check.p, expected, CHECK_SIZE) == 0)
		f->grade = SECRET_GOOD;
}

/* ---- reading ---- */

static int read_file(const char *dir, struct secret_found *f, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STORE_META_MAX + 1);
	AUTO_FD fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err why = { 0 };

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	if (fd_read_file(fd, SECRET_NAME, STORE_META_MAX, &b, &why) < 0 && why.code != ERR_NOT_FOUND) {
		if (why.code != ERR_LIMIT && why.code != ERR_INVALID) { /* too long, or no file */
			*e = why;
			return -1;
		}
		f->grade = SECRET_BAD;
		return 0;
	}
	grade(f, str_first(buf_str(&b), STORE_SECRET_SIZE), str_skip(buf_str(&b), MIN(b.n, (size_t)STORE_SECRET_SIZE)));
	if (b.p)
		secret_wipe(b.p, b.n);
	return 0;
}

/* What cannot be read is not there. */
static void read_meta(struct connection *c, struct secret_found *f)
{
	char secret[STORE_META_MAX], check[STORE_META_MAX];
	size_t n, n_check;
	struct err why = { 0 };

	if (!c->db)
		return;
	if (connection_meta(c, SECRET_NAME, secret, &n, &why) < 0 || connection_meta(c, SECRET_CHECK_NAME, check, &n_check, &why) < 0) {
		log_warn("the secret cannot be read from a database", LOG_S("file", c->path), LOG_ERR(&why));
		return;
	}
	grade(f, (struct str){ secret, n }, (struct str){ check, n_check });
	secret_wipe(secret, sizeof(secret));
}

static void choose(struct secret *s)
{
	enum secret_place best = SECRET_FILE;

	for (enum secret_place p = SECRET_DATABASE; p < SECRET_PLACES; p++)
		if (s->found[p].grade > s->found[best].grade)
			best = p;
	s->is_known = s->found[best].grade >= SECRET_UNCHECKED;
	if (s->is_known)
		memcpy(s->bytes, s->found[best].bytes, sizeof(s->bytes));
}

/* There never was one, and there is no sandbox that would know it. */
static bool is_fresh(const struct secret *s, struct connection *c)
{
	char value[STORE_META_MAX];
	size_t n = 0;

	for (enum secret_place p = SECRET_FILE; p < SECRET_PLACES; p++)
		if (s->found[p].grade != SECRET_NONE)
			return false;
	return c->db && connection_meta(c, BOOT_NAME, value, &n, &(struct err){ 0 }) == 0 && n == 0;
}

int secret_find(struct secret *ret, const char *dir, struct connection *c, struct connection *copy, struct err *e)
{
	*ret = (struct secret){ .dir = dir };
	if (read_file(dir, &ret->found[SECRET_FILE], e) < 0)
		return -1;
	read_meta(c, &ret->found[SECRET_DATABASE]);
	read_meta(copy, &ret->found[SECRET_COPY]);
	choose(ret);
	ret->is_fresh = is_fresh(ret, c);
	return 0;
}

int secret_make(struct secret *s, struct err *e)
{
	s->is_new = true;
	return random_bytes(s->bytes, sizeof(s->bytes), e);
}

/* ---- writing ---- */

static int write_file(const char *dir, const unsigned char *secret, struct err *e)
{
	unsigned char bytes[STORE_SECRET_SIZE + CHECK_SIZE];
	AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	memcpy(bytes, secret, STORE_SECRET_SIZE);
	check_of(secret, bytes + STORE_SECRET_SIZE);
	r = file_replace(fd, SECRET_NAME, (struct str){ (const char *)bytes, sizeof(bytes) }, 0600, e);
	secret_wipe(bytes, sizeof(bytes));
	return r;
}

static int write_meta(struct connection *c, struct connection *copy, const unsigned char *secret, struct err *e)
{
	AUTO(store_tx_free) struct store_tx *tx = store_tx_new();
	unsigned char check[CHECK_SIZE];

	check_of(secret, check);
	store_tx_durable(tx);
	store_tx_meta(tx, SECRET_NAME, (struct str){ (const char *)secret, STORE_SECRET_SIZE });
	store_tx_meta(tx, SECRET_CHECK_NAME, (struct str){ (const char *)check, CHECK_SIZE });
	if (!tx || tx->failed)
		return err_no_memory(e);
	return copy ? copy_run(c, copy, tx, e) : connection_run(c, tx, e);
}

static bool is_right(const struct secret *s, enum secret_place p)
{
	return s->found[p].grade == SECRET_GOOD && memcmp(s->found[p].bytes, s->bytes, sizeof(s->bytes)) == 0;
}

static void say_mended(const struct secret *s, enum secret_place p)
{
	const struct secret_found *f = &s->found[p];

	if (f->grade == SECRET_NONE && p != SECRET_COPY) /* a copy may have just been made */
		log_warn("the secret was missing in one place and is written there again", LOG_S("place", names[p]));
	else if (f->grade == SECRET_BAD || (f->grade != SECRET_NONE && memcmp(f->bytes, s->bytes, sizeof(s->bytes)) != 0))
		log_warn("the secret was damaged in one place and is written there again", LOG_S("place", names[p]));
}

int secret_mend(const struct secret *s, struct connection *c, struct connection *copy, struct err *e)
{
	for (enum secret_place p = SECRET_FILE; p < SECRET_PLACES && !s->is_new; p++)
		say_mended(s, p);
	if (!is_right(s, SECRET_FILE) && write_file(s->dir, s->bytes, e) < 0)
		return -1;
	if (copy && is_right(s, SECRET_DATABASE) && is_right(s, SECRET_COPY))
		return 0;
	return write_meta(c, copy, s->bytes, e);
}
