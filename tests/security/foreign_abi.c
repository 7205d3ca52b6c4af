// SPDX-License-Identifier: Apache-2.0
/* foreign_abi i386|x32|x32-high|bare: makes one system call through another ABI and tells if it lived. */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

#define X32 0x40000000L

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	long r = 0;

	if (strcmp(how, "i386") == 0)
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "cc", "r8", "r9", "r10", "r11");
	else if (strcmp(how, "x32") == 0)
		r = syscall(X32 | SYS_getpid);
	else if (strcmp(how, "x32-high") == 0)
		r = syscall(X32 | 520); /* execve of that ABI */
	else
		r = syscall(SYS_getpid);
	(void)printf("lived %d\n", r > 0);
	return 0;
}
