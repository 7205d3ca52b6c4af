// SPDX-License-Identifier: Apache-2.0
#include "execd/command/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

static struct command_record *add(struct history *h, unsigned number, uint64_t now_ms)
{
	char id[UUID_HEX_LEN + 1];
	struct err e = { 0 };
	struct command_record *p;

	(void)snprintf(id, sizeof(id), "%032x", number);
	p = history_add(h, str_of(id), STR("true"), now_ms, &e);
	assert_non_null(p);
	return p;
}

static bool has(struct history *h, unsigned number, uint64_t now_ms)
{
	char id[UUID_HEX_LEN + 1];

	(void)snprintf(id, sizeof(id), "%032x", number);
	return history_find(h, str_of(id), now_ms) != NULL;
}

static void the_oldest_ended_ones_go_first(void **state)
{
	struct history h = { .dir = "/tmp" };

	(void)state;
	(void)add(&h, 0, 0); /* runs for ever */
	for (unsigned i = 1; i <= HISTORY_MAX + 5; i++)
		history_end(add(&h, i, i), 0, "", i);
	assert_int_equal(h.n, HISTORY_MAX);
	assert_true(has(&h, 0, HISTORY_MAX + 5));
	assert_false(has(&h, 1, HISTORY_MAX + 5));
	assert_false(has(&h, 6, HISTORY_MAX + 5));
	assert_true(has(&h, 7, HISTORY_MAX + 5));
	assert_true(has(&h, HISTORY_MAX + 5, HISTORY_MAX + 5));
	history_done(&h);
	assert_int_equal(h.n, 0);
}

static void a_record_has_a_lifetime_after_its_end(void **state)
{
	struct history h = { .dir = "/tmp" };
	struct command_record *runs = add(&h, 1, 0);

	(void)state;
	history_end(add(&h, 2, 0), 0, "", 1000);
	assert_true(has(&h, 2, 1000 + HISTORY_KEEP_MS));
	assert_false(has(&h, 2, 1001 + HISTORY_KEEP_MS));
	assert_true(has(&h, 1, 10 * HISTORY_KEEP_MS));
	history_end(runs, 0, "", 10 * HISTORY_KEEP_MS);
	(void)add(&h, 3, 12 * HISTORY_KEEP_MS);
	assert_int_equal(h.n, 1);
	history_done(&h);
}

static void outputs_have_a_bound_together(void **state)
{
	struct history h = { .dir = "/tmp" };
	char *piece = calloc(1, (size_t)TAIL_FILE_MAX);

	(void)state;
	assert_non_null(piece);
	for (unsigned i = 0; i < 5; i++) {
		struct command_record *p = add(&h, i, i);

		tail_file_add(&p->output, (struct str){ piece, (size_t)TAIL_FILE_MAX });
		history_end(p, 0, "", i);
	}
	(void)add(&h, 9, 9);
	assert_false(has(&h, 0, 9));
	assert_true(has(&h, 1, 9) && has(&h, 4, 9));
	history_done(&h);
	free(piece);
}

static void forget_once(struct command_record *p)
{
	*(int *)p->user += 1;
	p->user = NULL;
}

static void who_still_writes_is_told(void **state)
{
	struct history h = { .dir = "/tmp" };
	struct command_record *p = add(&h, 1, 0);
	int told = 0;

	(void)state;
	p->user = &told;
	p->forget = forget_once;
	history_done(&h);
	assert_int_equal(told, 1);
}

static void a_status_says_what_is_known(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	struct history h = { .dir = "/tmp" };
	struct command_record *p = add(&h, 1, 0);

	(void)state;
	p->started = (struct timespec){ 0 };
	command_record_write(p, &b);
	assert_string_equal(buf_z(&b), "{\"id\":\"00000000000000000000000000000001\",\"content\":\"true\",\"running\":true,"
				       "\"started_at\":\"1970-01-01T00:00:00Z\"}");
	history_end(p, 1, "exit status 1", 0);
	p->finished = (struct timespec){ .tv_sec = 1, .tv_nsec = 500000000 };
	buf_clear(&b);
	command_record_write(p, &b);
	assert_string_equal(buf_z(&b), "{\"id\":\"00000000000000000000000000000001\",\"content\":\"true\",\"running\":false,"
				       "\"exit_code\":1,\"error\":\"exit status 1\",\"started_at\":\"1970-01-01T00:00:00Z\","
				       "\"finished_at\":\"1970-01-01T00:00:01.5Z\"}");
	history_done(&h);
}

static void long_commands_are_cut_between_characters(void **state)
{
	struct history h = { .dir = "/tmp" };
	char text[COMMAND_RECORD_CONTENT_MAX + 2];
	struct err e = { 0 };
	struct command_record *p;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text + COMMAND_RECORD_CONTENT_MAX - 1, "\xc3\xa9", 2);
	p = history_add(&h, STR("a"), (struct str){ text, sizeof(text) }, 0, &e);
	assert_int_equal(strlen(p->content), COMMAND_RECORD_CONTENT_MAX - 1);
	history_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_ended_ones_go_first),
		cmocka_unit_test(a_record_has_a_lifetime_after_its_end),
		cmocka_unit_test(outputs_have_a_bound_together),
		cmocka_unit_test(who_still_writes_is_told),
		cmocka_unit_test(a_status_says_what_is_known),
		cmocka_unit_test(long_commands_are_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
