// SPDX-License-Identifier: Apache-2.0
#include "sys/boot.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "base/uuid.h"
#include "sys/fd.h"

#include "base/banned.h"

int boot_id_read(char out[BOOT_ID_SIZE], struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(BOOT_ID_SIZE);
	struct str id;

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", BOOT_ID_SIZE - 1, &b, e) < 0)
		return -1;
	id = str_trim(buf_str(&b));
	if (!id_valid(id))
		return err_set(e, ERR_INTERNAL, "the kernel's boot id is none");
	(void)snprintf(out, BOOT_ID_SIZE, "%.*s", STR_ARG(id)); /* fits: it was read with this ceiling */
	return 0;
}
