// SPDX-License-Identifier: Apache-2.0
#include "base/kill_point.h"

#ifdef KILL_POINTS
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#endif

#include "base/banned.h"

#if defined(KILL_POINTS) && defined(__SANITIZE_ADDRESS__)
/* AddressSanitizer asks programs for this, also those that were started without an environment. It keeps freed memory back from
 * later use, 256 MiB by default, which the kernel provides page by page: half a second of each start of a warden, who reads
 * thousands of folders. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}
#endif

#ifdef KILL_POINTS
/* Of test builds only, set once at start: code that is to die anywhere cannot carry a context everywhere. */
static struct kill_switch *shared;
static pid_t owner;

void kill_point_open(int fd)
{
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	owner = getpid();
	if (p != MAP_FAILED)
		shared = p;
}

int kill_point_env(void)
{
	const char *text = getenv(KILL_POINT_FD_ENV);
	uint64_t fd;

	return text && str_to_u64(str_of(text), 3, 1 << 20, &fd) ? (int)fd : -1;
}

void kill_point(const char *name)
{
	uint32_t left = shared ? atomic_load(&shared->left) : 0;
	bool is_alone = left > 0 && shared->name[0] == KILL_POINT_ALONE;

	if (left == 0 || strncmp(shared->name + is_alone, name, sizeof(shared->name) - is_alone) != 0)
		return;
	/* Two may pass at once: whoever comes second must not take one from nothing. */
	while (!atomic_compare_exchange_weak(&shared->left, &left, left - 1))
		if (left == 0)
			return;
	if (left != 1)
		return;
	(void)kill(is_alone ? getpid() : owner, SIGKILL);
	for (;;)
		(void)pause(); /* a thread or a child: it ends together with its owner, and does nothing more until then */
}
#endif
