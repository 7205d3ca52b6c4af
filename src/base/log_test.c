// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"

#include "base/banned.h"

#define TS_LEN 24 /* "2026-06-15T09:46:58.120Z" */

static char line[2 * LOG_LINE_MAX];
static int out[2];

/* Gives what has been logged since the last call, without the timestamp in front. */
static const char *logged(void)
{
	ssize_t n = read(out[0], line, sizeof(line) - 1);

	line[n > 0 ? n : 0] = '\0';
	return n > TS_LEN ? line + TS_LEN : "";
}

static const char *logged_json(void)
{
	const char *rest = logged();

	assert_memory_equal(line, "{\"ts\":\"", 7);
	return strchr(rest, ',') + 1;
}

static int set_up(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_INFO);
	log_set_format(LOG_FORMAT_TEXT);
	return pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0 ? (log_set_fd(out[1]), 0) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	log_set_fd(STDERR_FILENO);
	(void)close(out[0]);
	(void)close(out[1]);
	return 0;
}

static void an_event_is_one_line_of_text(void **state)
{
	(void)state;
	log_info("sandbox started", LOG_S("id", "ab12"), LOG_U("n", 18446744073709551615U), LOG_D("delta", -3),
		 LOG_B("paused", false), LOG_MS("took", 41), LOG_STR("image", STR("alpine:3")));
	assert_string_equal(logged(), " info sandbox started id=ab12 n=18446744073709551615 delta=-3 paused=false "
				      "took_ms=41 image=alpine:3\n");
	assert_int_equal(strspn(line, "0123456789-:.TZ"), TS_LEN);
	log_error("no fields");
	assert_string_equal(logged(), " error no fields\n");
}

static void an_event_is_one_object_of_json(void **state)
{
	(void)state;
	log_set_format(LOG_FORMAT_JSON);
	log_warn("slow \"disk\"", LOG_S("id", "ab12"), LOG_U("n", 7), LOG_D("delta", -3), LOG_B("paused", true),
		 LOG_S("none", NULL), LOG_SECRET("key", "hunter2"));
	assert_string_equal(logged_json(), "\"level\":\"warn\",\"msg\":\"slow \\\"disk\\\"\",\"id\":\"ab12\",\"n\":7,"
					   "\"delta\":-3,\"paused\":true,\"none\":null,\"key\":\"****\"}\n");
}

static void levels_that_are_off_cost_no_evaluation(void **state)
{
	int evaluated = 0;

	(void)state;
	log_debug("unseen", LOG_D("n", ++evaluated));
	assert_string_equal(logged(), "");
	assert_int_equal(evaluated, 0);
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("seen", LOG_D("n", ++evaluated));
	assert_string_equal(logged(), " debug seen n=1\n");
	log_set_level(LOG_LEVEL_ERROR);
	log_warn("unseen");
	assert_string_equal(logged(), "");
	assert_true(log_enabled(LOG_LEVEL_ERROR));
	assert_false(log_enabled(LOG_LEVEL_WARN));
}

static void peers_cannot_forge_lines_or_drive_terminals(void **state) /* A9 */
{
	static const struct {
		struct str in;
		const char *text, *json;
	} cases[] = {
		{ { "two words", 9 }, "\"two words\"", "two words" },
		{ { "", 0 }, "\"\"", "" },
		{ { "null", 4 }, "\"null\"", "null" },
		{ { "a=b", 3 }, "\"a=b\"", "a=b" },
		{ { "q\"q", 3 }, "\"q\\\"q\"", "q\\\"q" },
		{ { "b\\b", 3 }, "\"b\\\\b\"", "b\\\\b" },
		{ { "x\ny\r\t", 5 }, "\"x\\ny\\r\\t\"", "x\\ny\\r\\t" },
		{ { "\x1b[2J", 4 }, "\"\\u001b[2J\"", "\\u001b[2J" },
		{ { "nul\0nul", 7 }, "\"nul\\u0000nul\"", "nul\\u0000nul" },
		{ { "\x7f", 1 }, "\"\\u007f\"", "\\u007f" },
		{ { "\xc2\x9b", 2 }, "\"\\u009b\"", "\\u009b" },
		{ { "\xff" "a", 2 }, "\"\\xffa\"", "\\ufffda" },
		{ { "\xe2\x82", 2 }, "\"\\xe2\\x82\"", "\\ufffd\\ufffd" },
		{ { "\xe2\x80\xae" "evil", 7 }, "\"\\u202eevil\"", "\\u202eevil" },
		{ { "\xe2\x80\xa8", 3 }, "\"\\u2028\"", "\\u2028" },
		{ { "gr\xc3\xbc\xc3\x9f", 6 }, "\"gr\xc3\xbc\xc3\x9f\"", "gr\xc3\xbc\xc3\x9f" },
		{ { "\xf0\x9f\x98\x80", 4 }, "\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char want[256];

		log_set_format(LOG_FORMAT_TEXT);
		log_info("got", LOG_STR("v", cases[i].in));
		(void)snprintf(want, sizeof(want), " info got v=%s\n", cases[i].text);
		assert_string_equal(logged(), want);
		log_set_format(LOG_FORMAT_JSON);
		log_info("got", LOG_STR("v", cases[i].in));
		(void)snprintf(want, sizeof(want), "\"level\":\"info\",\"msg\":\"got\",\"v\":\"%s\"}\n", cases[i].json);
		assert_string_equal(logged_json(), want);
	}
}

static void secrets_are_not_written(void **state) /* A9 */
{
	(void)state;
	log_info("login", LOG_SECRET("api_key", "hunter2hunter2hunter2"), LOG_S("user", NULL));
	assert_string_equal(logged(), " info login api_key=**** user=null\n");
}

static void errors_are_written_with_their_code(void **state)
{
	struct err e = { 0 };

	(void)state;
	(void)err_set(&e, ERR_DENIED, "mount '/proc': no");
	log_error("start failed", LOG_S("id", "ab12"), LOG_ERR(&e));
	assert_string_equal(logged(), " error start failed id=ab12 code=denied error=\"mount '/proc': no\"\n");
	log_set_format(LOG_FORMAT_JSON);
	memset(&e, 'x', sizeof(e)); /* as a broken child may send it */
	log_error("start failed", LOG_ERR(&e));
	assert_non_null(strstr(logged_json(), "\"msg\":\"start failed\",\"code\":\"unknown\",\"error\":\"xxx"));
}

static bool ends_with(const char *end)
{
	return str_ends(str_of(line), str_of(end));
}

static void a_cut_line_is_marked_and_stays_well_formed(void **state)
{
	static char text[LOG_LINE_MAX + 100];

	(void)state;
	for (size_t n = 3900; n < sizeof(text); n++) {
		size_t len;

		memset(text, n % 2 ? 'x' : '\n', n);
		for (int format = LOG_FORMAT_TEXT; format <= LOG_FORMAT_JSON; format++) {
			log_set_format((enum log_format)format);
			log_info("long", LOG_STR("v", ((struct str){ text, n })), LOG_U("after", 123456789),
				 LOG_S("none", NULL));
			(void)logged();
			len = strlen(line);
			assert_true(len > 0 && len <= LOG_LINE_MAX);
			assert_ptr_equal(strchr(line, '\n'), line + len - 1);
			if (format == LOG_FORMAT_TEXT)
				assert_true(ends_with(" cut=true\n") || ends_with(" none=null\n"));
			else
				assert_true(ends_with(",\"cut\":true}\n") || ends_with(",\"none\":null}\n"));
			assert_null(strstr(line, "after=,"));
			assert_null(strstr(line, "\"after\":,"));
			assert_null(strstr(line, "\"after\":}"));
		}
	}
	log_info("x", LOG_S("ok", "y"));
	assert_non_null(strstr(logged(), "ok"));
}

static void a_long_message_is_cut_too(void **state)
{
	static char text[LOG_LINE_MAX * 2];

	(void)state;
	memset(text, 'm', sizeof(text) - 1);
	log_info(text, LOG_S("v", "x"));
	(void)logged();
	assert_true(strlen(line) <= LOG_LINE_MAX);
	assert_string_equal(line + strlen(line) - 11, "m cut=true\n");
}

static void errno_is_preserved_and_failures_are_silent(void **state)
{
	(void)state;
	log_set_fd(-1);
	errno = EXDEV;
	log_info("lost");
	assert_int_equal(errno, EXDEV);
	log_set_fd(out[1]);
	log_info("found");
	assert_string_equal(logged(), " info found dropped=1\n");
}

static size_t count_lines(void)
{
	size_t lines = 0;

	for (ssize_t n; (n = read(out[0], line, sizeof(line))) > 0;)
		for (ssize_t i = 0; i < n; i++)
			lines += line[i] == '\n';
	return lines;
}

static void a_reader_that_stalls_costs_lines_and_not_time(void **state)
{
	const size_t all = 3000;
	char want[64];
	size_t read_back;

	(void)state;
	assert_int_equal(fcntl(out[1], F_SETFL, 0), 0); /* as standard error is: a write would block */
	(void)alarm(20);
	for (size_t i = 0; i < all; i++)
		log_info("a line that is long enough to fill a pipe soon", LOG_U("i", i));
	(void)alarm(0);
	read_back = count_lines();
	assert_true(read_back > 100 && read_back < all);
	(void)snprintf(want, sizeof(want), " info again v=x dropped=%zu\n", all - read_back);
	log_info("again", LOG_S("v", "x"));
	assert_string_equal(logged(), want);
	log_info("as ever");
	assert_string_equal(logged(), " info as ever\n");
	log_set_format(LOG_FORMAT_JSON);
	log_set_fd(-1);
	log_info("lost");
	log_set_fd(out[1]);
	log_info("again");
	assert_string_equal(logged_json(), "\"level\":\"info\",\"msg\":\"again\",\"dropped\":1}\n");
}

/* The disk is full in the middle of a line. */
static void what_was_written_in_part_ends_before_the_next_event(void **state)
{
	FILE *f = tmpfile();
	struct rlimit before, small;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	char text[512];
	ssize_t n;

	(void)state;
	assert_non_null(f);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ 60, before.rlim_max };
	log_set_fd(fileno(f));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	log_info("first event", LOG_S("user", "mallory"), LOG_S("v", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	log_info("second event");
	log_info("third event");
	n = pread(fileno(f), text, sizeof(text) - 1, 0);
	assert_true(n > 60);
	text[n] = '\0';
	assert_int_equal(text[60], '\n');
	assert_string_equal(text + 61 + TS_LEN + strlen(" info second event dropped=1\n") + TS_LEN, " info third event\n");
	(void)fclose(f);
	(void)signal(SIGXFSZ, handler);
}

static void names_of_levels_and_formats_are_known(void **state)
{
	static const struct {
		const char *name;
		enum log_level want;
	} cases[] = {
		{ "INFO", LOG_LEVEL_INFO },	{ "info", LOG_LEVEL_INFO },	{ "warning", LOG_LEVEL_WARN },
		{ "Warn", LOG_LEVEL_WARN },	{ "ERROR", LOG_LEVEL_ERROR },	{ "DEBUG", LOG_LEVEL_DEBUG },
		{ "CRITICAL", LOG_LEVEL_ERROR },
	};
	enum log_level level = LOG_LEVEL_DEBUG;
	enum log_format format = LOG_FORMAT_TEXT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_true(log_level_parse(str_of(cases[i].name), &level));
		assert_int_equal(level, cases[i].want);
	}
	assert_false(log_level_parse(STR("trace"), &level));
	assert_false(log_level_parse(STR(""), &level));
	assert_true(log_format_parse(STR("JSON"), &format));
	assert_int_equal(format, LOG_FORMAT_JSON);
	assert_true(log_format_parse(STR("text"), &format));
	assert_int_equal(format, LOG_FORMAT_TEXT);
	assert_false(log_format_parse(STR("xml"), &format));
}

static void *log_often(void *arg)
{
	for (int i = 0; i < 200; i++)
		log_info("thread", LOG_S("who", arg));
	return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
	static char all[200 * 2 * 64];
	char a[] = "aaaaaaaa", b[] = "bbbbbbbb";
	pthread_t ta, tb;
	ssize_t n;
	int count = 0;

	(void)state;
	assert_int_equal(pthread_create(&ta, NULL, log_often, a), 0);
	assert_int_equal(pthread_create(&tb, NULL, log_often, b), 0);
	(void)pthread_join(ta, NULL);
	(void)pthread_join(tb, NULL);
	n = read(out[0], all, sizeof(all) - 1);
	assert_true(n > 0);
	all[n] = '\0';
	for (char *at = all, *end; (end = strchr(at, '\n')); at = end + 1, count++) {
		*end = '\0';
		assert_true(strlen(at) > TS_LEN);
		at += TS_LEN;
		assert_true(!strcmp(at, " info thread who=aaaaaaaa") || !strcmp(at, " info thread who=bbbbbbbb"));
	}
	assert_int_equal(count, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_event_is_one_line_of_text, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_event_is_one_object_of_json, set_up, tear_down),
		cmocka_unit_test_setup_teardown(levels_that_are_off_cost_no_evaluation, set_up, tear_down),
		cmocka_unit_test_setup_teardown(peers_cannot_forge_lines_or_drive_terminals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(secrets_are_not_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(errors_are_written_with_their_code, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cut_line_is_marked_and_stays_well_formed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_long_message_is_cut_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(errno_is_preserved_and_failures_are_silent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_reader_that_stalls_costs_lines_and_not_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_was_written_in_part_ends_before_the_next_event, set_up, tear_down),
		cmocka_unit_test(names_of_levels_and_formats_are_known),
		cmocka_unit_test_setup_teardown(lines_of_threads_do_not_mix, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
