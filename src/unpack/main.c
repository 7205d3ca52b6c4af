// SPDX-License-Identifier: Apache-2.0
/* opensandbox-unpack: fills an empty directory with the files of a tar. It begins with host root's rights and the four
 * descriptors of image/unpack.h, and has none of the rights left when it reads the first byte of the tar (unpack/confine.h).
 * It never returns from main(): nothing that a library put off until then is wanted any more. */
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "image/layer.h"
#include "image/tar.h"
#include "image/unpack.h"
#include "unpack/confine.h"

#include "base/banned.h"

static int unpack(struct err *e)
{
	static struct layer layer; /* too large for the stack */
	const struct confine_spec spec = { .target = UNPACK_FD_TARGET, .userns = UNPACK_FD_USERNS };
	const struct tar_source tar = { .fd = UNPACK_FD_TAR };
	const struct tar_limits limits = TAR_LIMITS_DEFAULT;
	int root;

	if (tar_prepare(e) < 0)
		return -1;
	root = confine(&spec, e);
	if (root < 0)
		return err_wrap(e, "give up rights");
	layer_init(&layer, root, limits.entries);
	return tar_read(&tar, &limits, &layer_sink, &layer, e);
}

int main(int argc, char **argv)
{
	static const char usage[] = "opensandbox-unpack: started by opensandbox-warden; it is of no use on its own\n";
	struct err e = { 0 };

	(void)argv;
	if (argc > 1 || fcntl(UNPACK_FD_REPORT, F_GETFD) < 0) {
		(void)!write(STDERR_FILENO, usage, sizeof(usage) - 1);
		_exit(2);
	}
	if (unpack(&e) == 0)
		e = (struct err){ 0 };
	(void)!write(UNPACK_FD_REPORT, &e, sizeof(e)); /* fewer than PIPE_BUF bytes: all or nothing */
	_exit(e.code != ERR_NONE);
}
