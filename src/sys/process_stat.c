// SPDX-License-Identifier: Apache-2.0
#include "sys/process_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"

#include "base/banned.h"

#define STAT_BYTES_MAX 4096

/* Of those after the name, which may have blanks and is the second of all. */
enum { WORD_CHILDREN_USER = 14, WORD_CHILDREN_KERNEL = 15, WORD_START = 20 };

int process_stat_parse(struct str text, struct process_stat *ret, struct err *e)
{
	const char *name_end = text.n > 0 ? memrchr(text.p, ')', text.n) : NULL;
	uint64_t in_user, in_kernel, a_second = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t *const wanted[] = { [WORD_CHILDREN_USER] = &in_user, [WORD_CHILDREN_KERNEL] = &in_kernel, [WORD_START] = &ret->start };
	struct str rest, word;

	if (!name_end)
		return err_set(e, ERR_INTERNAL, "the state of a process without its name");
	rest = str_skip(text, (size_t)(name_end + 1 - text.p));
	for (size_t i = 1; i < ARRAY_LEN(wanted); i++) {
		if (!str_take_word(&rest, &word, 32))
			return err_set(e, ERR_INTERNAL, "the state of a process is cut short");
		if (wanted[i] && !str_to_u64(word, 0, UINT64_MAX, wanted[i]))
			return err_set(e, ERR_INTERNAL, "the state of a process: word %zu is no number", i);
	}
	ret->collected_us = (in_user + in_kernel) * (uint64_t)US_PER_S / a_second;
	return 0;
}

int process_stat_read(pid_t pid, struct process_stat *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STAT_BYTES_MAX);
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return fd_read_file(AT_FDCWD, path, STAT_BYTES_MAX, &b, e) < 0 ? -1 : process_stat_parse(buf_str(&b), ret, e);
}
