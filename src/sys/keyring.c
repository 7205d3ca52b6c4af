// SPDX-License-Identifier: Apache-2.0
#include "sys/keyring.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

#include "base/banned.h"

int keyring_join_fresh(struct err *e)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) >= 0 || errno == ENOSYS)
		return 0;
	return err_sys(e, errno, "join a fresh session key ring");
}
