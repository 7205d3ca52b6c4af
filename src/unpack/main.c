// SPDX-License-Identifier: Apache-2.0
/* opensandbox-unpack: fills an empty directory with the files of a tar. It begins with host root's rights and the
 * descriptors of image/unpack.h, and has none of the rights left when it reads the first byte of the tar (unpack/confine.h).
 * It never returns from main(): nothing that a library put off until then is wanted any more. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "image/layer.h"
#include "image/tar.h"
#include "image/unpack.h"
#include "sys/passing.h"
#include "unpack/confine.h"

#include "base/banned.h"

/* One at a time is on its way: there is a ceiling on those of a user without rights. */
static int mark(int dir, void *arg, struct err *e)
{
	char byte = 'o';
	ssize_t n;

	(void)arg;
	if (passing_send(UNPACK_FD_MARKS, &byte, 1, &dir, 1, e) != 1)
		return err_set(e, ERR_UNAVAILABLE, "a directory cannot be handed out");
	do
		n = read(UNPACK_FD_MARKS, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 ? 0 : err_set(e, ERR_UNAVAILABLE, "a directory is not marked");
}

static int read_all(const struct tar_source *tar, int root, struct err *e)
{
	static struct layer layer; /* too large for the stack */
	const struct tar_limits limits = TAR_LIMITS_DEFAULT;

	layer_init(&layer, root, limits.entries, mark, NULL);
	return tar_read(tar, &limits, &layer_sink, &layer, e) < 0 ? -1 : layer_finish(&layer, e);
}

/* WANT: what a layer's digest must be; NULL: it is no layer. */
static int unpack(const unsigned char *want, struct err *e)
{
	const struct confine_spec spec = { .target = UNPACK_FD_TARGET, .userns = UNPACK_FD_USERNS };
	unsigned char digest[SHA256_SIZE];
	const struct tar_source tar = { .fd = UNPACK_FD_TAR, .form = want ? ENTRY_LAYER : ENTRY_TAR,
					.ret_digest = want ? digest : NULL };
	int root;

	if (tar_prepare(e) < 0)
		return -1;
	root = confine(&spec, e);
	if (root < 0)
		return err_wrap(e, "give up rights");
	if (read_all(&tar, root, e) < 0)
		return -1;
	if (want && memcmp(digest, want, sizeof(digest)) != 0)
		return err_set(e, ERR_INVALID, "its content has another digest than its image says");
	return 0;
}

int main(int argc, char **argv)
{
	static const char usage[] = "opensandbox-unpack: started by opensandbox-warden; it is of no use on its own\n";
	unsigned char want[SHA256_SIZE];
	struct err e = { 0 };

	if (argc > 2 || (argc == 2 && !hex_decode(str_of(argv[1]), want, sizeof(want))) ||
	    fcntl(UNPACK_FD_REPORT, F_GETFD) < 0) {
		(void)!write(STDERR_FILENO, usage, sizeof(usage) - 1);
		_exit(2);
	}
	if (unpack(argc == 2 ? want : NULL, &e) == 0)
		e = (struct err){ 0 };
	(void)!write(UNPACK_FD_REPORT, &e, sizeof(e)); /* fewer than PIPE_BUF bytes: all or nothing */
	_exit(e.code != ERR_NONE);
}
