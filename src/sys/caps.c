// SPDX-License-Identifier: Apache-2.0
#include "sys/caps.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"

#include "base/banned.h"

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif
#define CAPS_MAX 64
#define STATUS_BYTES_MAX 65536

/* What is gone already is dropped without a look: only who may not drop any has to look. */
int caps_bound(uint64_t mask, struct err *e)
{
	for (unsigned long cap = 0; cap < CAPS_MAX; cap++) {
		if ((mask >> cap & 1) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)
			return 0; /* beyond the last one */
		if (errno != EPERM || prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			return err_sys(e, errno, "drop capability %lu from the bounding set", cap);
	}
	return 0;
}

int caps_set(uint64_t mask, struct err *e)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	const uint32_t low = (uint32_t)mask, high = (uint32_t)(mask >> 32);
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{ .effective = low, .permitted = low, .inheritable = 0 },
		{ .effective = high, .permitted = high, .inheritable = 0 },
	};

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, errno, "clear ambient capabilities");
	if (syscall(SYS_capset, &header, data) < 0)
		return err_sys(e, errno, "set capabilities to 0x%llx", (unsigned long long)mask);
	return 0;
}

int caps_regain(struct err *e)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return err_sys(e, errno, "read capabilities");
	for (size_t i = 0; i < ARRAY_LEN(data); i++)
		data[i].effective = data[i].permitted;
	return syscall(SYS_capset, &header, data) < 0 ? err_sys(e, errno, "regain capabilities") : 0;
}

int caps_limit(uint64_t mask, struct err *e)
{
	return caps_bound(mask, e) < 0 ? -1 : caps_set(mask, e);
}

/* "CapPrm:\t00000000800405fb" */
static bool find_set(struct str status, const char *name, uint64_t *ret)
{
	struct str line, key, value;

	while (str_cut(status, '\n', &line, &status))
		if (str_cut(line, ':', &key, &value) && str_is(key, name))
			return str_to_hex64(str_trim(value), ret);
	return false;
}

int caps_read(pid_t pid, struct caps *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STATUS_BYTES_MAX);
	char path[64] = "/proc/thread-self/status";
	struct caps c;

	if (pid != 0)
		(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_read_file(AT_FDCWD, path, STATUS_BYTES_MAX, &b, e) < 0)
		return -1;
	if (!find_set(buf_str(&b), "CapInh", &c.inheritable) || !find_set(buf_str(&b), "CapPrm", &c.permitted) ||
	    !find_set(buf_str(&b), "CapEff", &c.effective) || !find_set(buf_str(&b), "CapBnd", &c.bounding) ||
	    !find_set(buf_str(&b), "CapAmb", &c.ambient))
		return err_set(e, ERR_UNAVAILABLE, "'%s' has no capability sets", path);
	*ret = c;
	return 0;
}
