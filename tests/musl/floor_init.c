// SPDX-License-Identifier: Apache-2.0
/* The smallest PID 1 for bench/create: says that it runs, and waits to be killed. Descriptor 5 is the ready pipe of
 * base/guest.h, and the one that the floor hands over too. */
#include <unistd.h>

#include "base/guest.h"

#include "base/banned.h"

int main(void)
{
	if (write(GUEST_FD_READY, "R", 1) != 1)
		return 1;
	for (;;)
		(void)pause();
}
