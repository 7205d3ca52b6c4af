// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/terminal.h"

#include "base/banned.h"

/* Both ends of a terminal. */
static void open_pair(int *ret_master, int *ret_slave)
{
	*ret_master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(*ret_master >= 0);
	assert_int_equal(unlockpt(*ret_master), 0);
	*ret_slave = open(ptsname(*ret_master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(*ret_slave >= 0);
}

static void raw_passes_every_key_and_restoring_brings_all_back(void **state)
{
	AUTO(terminal_restore) struct terminal t = TERMINAL_INIT;
	AUTO_FD master = -1;
	AUTO_FD slave = -1;
	struct termios before, now;
	struct err e = { 0 };
	char got[4];

	(void)state;
	open_pair(&master, &slave);
	assert_int_equal(tcgetattr(slave, &before), 0);
	assert_int_equal(terminal_raw(&t, slave, &e), 0);
	assert_int_equal(write(master, "\003\032\r", 3), 3); /* neither a signal nor a line */
	assert_int_equal(read(slave, got, sizeof(got)), 3);
	assert_memory_equal(got, "\003\032\r", 3);
	terminal_restore(&t);
	terminal_restore(&t);
	assert_int_equal(tcgetattr(slave, &now), 0);
	assert_int_equal(now.c_lflag, before.c_lflag);
	assert_int_equal(now.c_iflag, before.c_iflag);
	assert_int_equal(now.c_oflag, before.c_oflag);
	assert_memory_equal(now.c_cc, before.c_cc, sizeof(now.c_cc));
}

static void sizes_are_the_terminals_or_the_usual_ones(void **state)
{
	AUTO_FD master = -1;
	AUTO_FD slave = -1;
	AUTO_FD file = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct winsize w = { .ws_col = 132, .ws_row = 43 };
	unsigned columns, rows;

	(void)state;
	open_pair(&master, &slave);
	assert_false(terminal_size(slave, &columns, &rows)); /* 0 by 0: nobody has said */
	assert_int_equal(ioctl(master, TIOCSWINSZ, &w), 0);
	assert_true(terminal_size(slave, &columns, &rows));
	assert_int_equal(columns, 132);
	assert_int_equal(rows, 43);
	assert_false(terminal_size(file, &columns, &rows));
	assert_int_equal(columns, 80);
	assert_int_equal(rows, 24);
	assert_false(terminal_is(file));
	assert_true(terminal_is(slave));
}

static void what_is_no_terminal_cannot_be_raw(void **state)
{
	AUTO(terminal_restore) struct terminal t = TERMINAL_INIT;
	AUTO_FD file = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(terminal_raw(&t, file, &e), -1);
	assert_int_equal(t.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(raw_passes_every_key_and_restoring_brings_all_back),
		cmocka_unit_test(sizes_are_the_terminals_or_the_usual_ones),
		cmocka_unit_test(what_is_no_terminal_cannot_be_raw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
