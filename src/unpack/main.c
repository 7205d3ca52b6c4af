// SPDX-License-Identifier: Apache-2.0
/* opensandbox-unpack: fills an empty directory with the files of a tar, or makes a tar of a directory. It begins with host root's rights and the
 * descriptors of image/unpack.h, and has none of the rights left when it reads the first byte of either (unpack/confine.h).
 * It never returns from main(): nothing that a library put off until then is wanted any more. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/str.h"
#include "image/layer.h"
#include "image/pack.h"
#include "image/tar.h"
#include "image/unpack.h"
#include "sys/passing.h"
#include "sys/path.h"
#include "sys/signals.h"
#include "unpack/confine.h"

#include "base/banned.h"

/* One at a time is on its way: there is a ceiling on those of a user without rights. Returns what is answered. */
static int ask(int dir, struct err *e)
{
	char byte = '?';
	ssize_t n;

	if (passing_send(UNPACK_FD_MARKS, &byte, 1, &dir, 1, e) != 1)
		return err_set(e, ERR_UNAVAILABLE, "a directory cannot be handed out");
	do
		n = read(UNPACK_FD_MARKS, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 ? (unsigned char)byte : err_set(e, ERR_UNAVAILABLE, "no answer about a directory");
}

static int mark(int dir, void *arg, struct err *e)
{
	(void)arg;
	return ask(dir, e) < 0 ? -1 : 0;
}

static int read_all(const struct tar_source *tar, int root, struct err *e)
{
	static struct layer layer; /* too large for the stack */
	const struct tar_limits limits = TAR_LIMITS_DEFAULT;
	int r;

	layer_init(&layer, root, limits.entries, mark, NULL);
	r = tar_read(tar, &limits, &layer_sink, &layer, e) < 0 ? -1 : layer_finish(&layer, e);
	layer_done(&layer);
	return r;
}

/* WANT: what a layer's digest must be; NULL: it is no layer. */
static int unpack(const struct digest *want, struct err *e)
{
	const struct confine_spec spec = { .target = UNPACK_FD_TARGET, .userns = UNPACK_FD_USERNS, .map = -1 };
	struct digest digest = want ? *want : (struct digest){ 0 };
	const struct tar_source tar = { .fd = UNPACK_FD_TAR, .form = want ? ENTRY_LAYER : ENTRY_TAR,
					.ret_digest = want ? &digest : NULL };
	int root;

	if (tar_prepare(e) < 0)
		return -1;
	root = confine(&spec, e);
	if (root < 0)
		return err_wrap(e, "give up rights");
	if (read_all(&tar, root, e) < 0)
		return -1;
	if (want && !digest_eq(&digest, want))
		return err_set(e, ERR_INVALID, "its content has another digest than its image says");
	return 0;
}

/* ---- the other way ---- */

static int is_opaque(int dir, void *arg, struct err *e)
{
	int k = ask(dir, e);

	(void)arg;
	return k < 0 ? -1 : k == PACK_OPAQUE;
}

struct order {
	bool packs, has_want;
	uint64_t max[2];
	const char *const *left_out;
	struct digest want;
};

static int pack(const struct order *o, unsigned char digest[SHA256_SIZE], struct err *e)
{
	const struct confine_spec spec = { .target = UNPACK_FD_TARGET, .userns = UNPACK_FD_USERNS, .map = UNPACK_FD_MAP, .reads = true };
	struct pack_spec ps = { .out = UNPACK_FD_TAR, .bytes_max = o->max[0], .disk_max = o->max[1], .entries_max = TAR_ENTRIES_MAX,
				.left_out = o->left_out, .is_opaque = is_opaque };
	int place = confine(&spec, e);

	if (place < 0)
		return err_wrap(e, "give up rights");
	ps.root = root_open_beneath(place, ".", O_RDONLY | O_DIRECTORY, 0, e);
	return ps.root < 0 ? -1 : pack_tree(&ps, digest, e);
}

static bool parse(int argc, char **argv, struct order *o)
{
	if (argc >= 4 && strcmp(argv[1], "pack") == 0) {
		o->packs = true;
		o->left_out = (const char *const *)argv + 4;
		return str_to_u64(str_of(argv[2]), 0, INT64_MAX, &o->max[0]) && str_to_u64(str_of(argv[3]), 0, INT64_MAX, &o->max[1]) &&
		       fcntl(UNPACK_FD_MAP, F_GETFD) >= 0;
	}
	o->has_want = argc == 2 && digest_parse(str_of(argv[1]), &o->want);
	return argc == 1 || o->has_want;
}

int main(int argc, char **argv)
{
	static const char usage[] = "opensandbox-unpack: started by opensandbox-warden; it is of no use on its own\n";
	struct unpack_report r = { 0 };
	struct order o = { 0 };
	int rc;

	if (!parse(argc, argv, &o) || fcntl(UNPACK_FD_REPORT, F_GETFD) < 0) {
		(void)!write(STDERR_FILENO, usage, sizeof(usage) - 1);
		_exit(2);
	}
	signals_prepare_daemon();
	rc = o.packs ? pack(&o, r.digest, &r.err) : unpack(o.has_want ? &o.want : NULL, &r.err);
	if (rc == 0)
		r.err = (struct err){ 0 };
	(void)!write(UNPACK_FD_REPORT, &r, sizeof(r)); /* fewer than PIPE_BUF bytes: all or nothing */
	_exit(r.err.code != ERR_NONE);
}
