// SPDX-License-Identifier: Apache-2.0
#include "warden/blob_layer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "image/tar.h"
#include "warden/layer_dir.h"
#include "warden/unpacker.h"

#include "base/banned.h"

#define TEMP "new-blob-"
#define STEP_BYTES ((size_t)1024 * 1024)

/* ---- hashing ---- */

int blob_digest_begin(struct blob_digest *d, int fd, uint32_t kind, struct err *e)
{
	*d = (struct blob_digest){ .fd = fd, .bytes = malloc(STEP_BYTES) };
	hasher_init(&d->hasher, kind);
	return d->bytes ? 0 : err_no_memory(e);
}

int blob_digest_step(struct blob_digest *d, struct err *e)
{
	ssize_t n;

	do
		n = pread(d->fd, d->bytes, STEP_BYTES, (off_t)d->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "read the blob");
	if (n == 0) {
		hasher_end(&d->hasher, &d->digest);
		return 0;
	}
	hasher_add(&d->hasher, d->bytes, (size_t)n);
	d->at += (uint64_t)n;
	return 1;
}

void blob_digest_done(struct blob_digest *d)
{
	free(d->bytes);
	*d = BLOB_DIGEST_INIT;
}

static int hash_meanwhile(void *arg, struct err *e)
{
	return blob_digest_step(arg, e);
}

/* ---- making ---- */

int blob_check(int fd, struct stat *ret, struct err *e)
{
	if (fstat(fd, ret) < 0)
		return err_sys(e, errno, "look at the blob");
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERR_INVALID, "the blob is not a file");
	if ((uint64_t)ret->st_size > TAR_FILE_MAX)
		return err_set(e, ERR_INVALID, "the blob is larger than %llu bytes", (unsigned long long)TAR_FILE_MAX);
	return 0;
}

/* What was hashed is what was unpacked: one descriptor, and no change in between. */
static int check_unchanged(int fd, const struct stat *before, struct err *e)
{
	struct stat now;

	if (fstat(fd, &now) < 0)
		return err_sys(e, errno, "look at the blob");
	if (now.st_size != before->st_size || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != before->st_mtim.tv_nsec || now.st_ctim.tv_sec != before->st_ctim.tv_sec ||
	    now.st_ctim.tv_nsec != before->st_ctim.tv_nsec)
		return err_set(e, ERR_INVALID, "the blob changes while it is read");
	return 0;
}

static int unpack(const struct blob_layer_spec *spec, const struct layer_draft *draft, struct err *e)
{
	AUTO(blob_digest_done) struct blob_digest d = BLOB_DIGEST_INIT;
	const struct unpacker_spec run = {
		.program = spec->unpack, .id_base = spec->id_base, .blob = spec->blob, .target = draft->target,
		.store = spec->store,
		.diff_id = &spec->diff_id, .meanwhile = hash_meanwhile, .arg = &d,
	};
	struct stat st;

	if (blob_check(spec->blob, &st, e) < 0 || blob_digest_begin(&d, spec->blob, spec->digest.size, e) < 0)
		return -1;
	if (lseek(spec->blob, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "read the blob");
	if (unpacker_run(&run, e) < 0 || check_unchanged(spec->blob, &st, e) < 0)
		return -1;
	if (!digest_eq(&d.digest, &spec->digest))
		return err_set(e, ERR_INVALID, "the blob has another digest than its image says");
	return 0;
}

int blob_layer_make(const struct blob_layer_spec *spec, struct err *e)
{
	AUTO_FD layers = layer_dir_open(spec->layers_path, e);
	AUTO(layer_draft_done) struct layer_draft draft = LAYER_DRAFT_INIT;

	if (layers < 0)
		return -1;
	if (layer_dir_has(layers, spec->name))
		return 0;
	KILL_POINT("warden.layer.begun");
	if (layer_draft_make(&draft, layers, TEMP, e) < 0 || unpack(spec, &draft, e) < 0)
		return -1;
	KILL_POINT("warden.layer.unpacked");
	if (layer_draft_publish(&draft, spec->name, e) < 0)
		return -1;
	KILL_POINT("warden.layer.named");
	return 0;
}
