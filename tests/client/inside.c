// SPDX-License-Identifier: Apache-2.0
/* Calls every function of the library's that reaches into a sandbox, but terminals, policies and the pool.
 *
 *     inside DOMAIN KEY */
#include "trying.h"

#include "base/banned.h"

static struct osb_sandbox *s;

/* ---- commands ---- */

struct told {
	unsigned n[OSB_EVENT_STATUS + 1];
	char text[4096];
	char id[64];
};

static void note(const struct osb_event *ev, void *arg)
{
	struct told *t = arg;

	t->n[ev->kind]++;
	if (ev->kind == OSB_EVENT_INIT)
		(void)snprintf(t->id, sizeof(t->id), "%s", ev->text);
	if (ev->kind == OSB_EVENT_STDOUT || ev->kind == OSB_EVENT_STDERR)
		(void)snprintf(t->text + strlen(t->text), sizeof(t->text) - strlen(t->text), "%s|", ev->text);
}

static void commands(void)
{
	const struct osb_pair env[] = { { "GREETING", "hello world" } };
	struct osb_command c = { .size = sizeof(c), .command = "echo $GREETING; echo; pwd; echo no >&2; exit 7", .working_directory = "/tmp",
				 .env = { env, 1 } };
	struct osb_execution *x = NULL;
	struct told told = { .id = "" };

	MUST(osb_command_run(s, &c, note, &told, &x, call));
	CHECK(same(x->stdout_text, "hello world\n\n/tmp") && same(x->stderr_text, "no") && x->n_stdout == 3 && x->n_stderr == 1);
	CHECK(x->has_exit_code && x->exit_code == 7 && same(x->error_name, "CommandExecError") && same(x->error_value, "7"));
	CHECK(same(x->stdout_lines[1].text, "\n") && x->stdout_lines[0].timestamp_ms > 1000000000000 && same(x->id, told.id));
	CHECK(told.n[OSB_EVENT_INIT] == 1 && told.n[OSB_EVENT_ERROR] == 1 && told.n[OSB_EVENT_COMPLETE] == 0);
	CHECK(strstr(told.text, "hello world|") && strstr(told.text, "no|"));
	show("execution", x);
	osb_free(x);
	c.command = "true";
	c.skip_accumulation = true;
	MUST(osb_command_run(s, &c, NULL, NULL, &x, call));
	CHECK(x->has_exit_code && x->exit_code == 0 && x->execution_time_ms >= 0 && x->n_stdout == 0 && !x->error_name);
	osb_free(x);
	c = (struct osb_command){ .command = "echo $((1+1)); seq 20000", .has_uid = true, .uid = 0 };
	MUST(osb_command_run(s, &c, NULL, NULL, &x, call));
	CHECK(x->n_stdout == 20001 && same(x->stdout_lines[20000].text, "20000"));
	osb_free(x);
	c = (struct osb_command){ .command = "sleep 30", .timeout_ms = 300 };
	MUST(osb_command_run(s, &c, NULL, NULL, &x, call));
	CHECK(x->has_exit_code && x->exit_code != 0);
	osb_free(x);
	MUST(osb_command_run(s, &(struct osb_command){ .command = "true" }, NULL, NULL, NULL, call));
	FAILS(osb_command_run(s, &(struct osb_command){ .command = "true", .working_directory = "/none" }, NULL, NULL, &x, call), OSB_ANSWER, 400);
	FAILS(osb_command_run(s, &(struct osb_command){ .command = "" }, NULL, NULL, &x, call), OSB_INVALID, 0);
	FAILS(osb_command_run(s, &(struct osb_command){ .command = "true", .has_gid = true }, NULL, NULL, &x, call), OSB_INVALID, 0);
	FAILS(osb_command_run(s, NULL, NULL, NULL, &x, call), OSB_INVALID, 0);
}

static int add_length(const char *data, size_t n, void *arg)
{
	(void)data;
	*(size_t *)arg += n;
	return 0;
}

static int refuse_bytes(const char *data, size_t n, void *arg)
{
	(void)data;
	(void)n;
	(void)arg;
	return -1;
}

static void background(void)
{
	const struct osb_command c = { .command = "echo one; sleep 0.3; echo two; exit 3", .background = true };
	struct osb_command_status *status = NULL;
	struct osb_command_logs *logs = NULL;
	struct osb_execution *x = NULL, *sleeper = NULL;
	char seen[64] = "";
	int64_t cursor = 0;
	size_t length = 0;

	MUST(osb_command_run(s, &c, NULL, NULL, &x, call));
	CHECK(!x->has_exit_code && x->exit_code == -1 && x->id);
	do {
		osb_free(status);
		MUST(osb_command_status(s, x->id, &status, call));
		MUST(osb_command_logs(s, x->id, cursor, &logs, call));
		(void)snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s", logs->content);
		CHECK(logs->cursor >= cursor && logs->n_content == strlen(logs->content));
		cursor = logs->cursor;
		show("logs", logs);
		osb_free(logs);
		usleep(20000);
	} while (status->running || !strstr(seen, "two"));
	CHECK(same(seen, "one\ntwo\n") && status->has_exit_code && status->exit_code == 3 && status->finished_at && same(status->id, x->id));
	show("status", status);
	osb_free(status);
	MUST(osb_command_logs_stream(s, x->id, 4, add_length, &length, &logs, call));
	CHECK(length == 4 && logs->n_content == 0 && logs->cursor == cursor);
	osb_free(logs);
	MUST(osb_command_logs_stream(s, x->id, 0, add_length, &length, NULL, call));
	CHECK(length == 12);
	FAILS(osb_command_logs_stream(s, x->id, 0, refuse_bytes, NULL, &logs, call), OSB_LOCAL, 0);
	osb_free(x);
	MUST(osb_command_run(s, &(struct osb_command){ .command = "sleep 60", .background = true }, NULL, NULL, &sleeper, call));
	MUST(osb_command_interrupt(s, sleeper->id, call));
	MUST(osb_command_status(s, sleeper->id, &status, call));
	CHECK(!status->running && status->exit_code != 0);
	osb_free(status);
	osb_free(sleeper);
	FAILS(osb_command_status(s, "none", &status, call), OSB_ANSWER, 404);
	FAILS(osb_command_status(s, "a/b", &status, call), OSB_INVALID, 0);
	FAILS(osb_command_interrupt(s, "", call), OSB_INVALID, 0);
}

static void sessions(void)
{
	struct osb_session *session = NULL;
	struct osb_execution *x = NULL;

	MUST(osb_session_create(s, "/tmp", &session, call));
	show("session", session);
	MUST(osb_session_run(s, session->id, &(struct osb_command){ .command = "export A=kept; cd /usr; false" }, NULL, NULL, &x, call));
	CHECK(x->has_exit_code && x->exit_code == 1);
	osb_free(x);
	MUST(osb_session_run(s, session->id, &(struct osb_command){ .command = "echo $A; pwd" }, NULL, NULL, &x, call));
	CHECK(same(x->stdout_text, "kept\n/usr") && x->exit_code == 0);
	osb_free(x);
	MUST(osb_session_delete(s, session->id, call));
	FAILS(osb_session_delete(s, session->id, call), OSB_ANSWER, 404);
	osb_free(session);
	MUST(osb_session_create(s, NULL, &session, call));
	MUST(osb_session_delete(s, session->id, call));
	osb_free(session);
}

/* ---- files ---- */

static long read_zeroes(char *out, size_t max, void *arg)
{
	size_t *left = arg, n = max < *left ? max : *left;

	memset(out, 'z', n);
	*left -= n;
	return (long)n;
}

static long read_nothing(char *out, size_t max, void *arg)
{
	(void)out;
	(void)max;
	(void)arg;
	return -1;
}

static int count_bytes(const char *data, size_t n, void *arg)
{
	for (size_t i = 0; i < n; i++)
		CHECK(data[i] == 'z');
	*(size_t *)arg += n;
	return 0;
}

static void contents(void)
{
	const struct osb_entry entry = { .path = "/tmp/c-sdk/a b+c&d=\xc3\xa9.txt", .mode = 640 };
	struct osb_bytes *bytes = NULL;
	size_t left, got = 0;

	MUST(osb_file_write(s, &entry, "line1\nline2\nline3\nline4\n", 24, call));
	MUST(osb_file_read(s, entry.path, NULL, &bytes, call));
	CHECK(bytes->n == 24 && same(bytes->data, "line1\nline2\nline3\nline4\n"));
	osb_free(bytes);
	MUST(osb_file_read(s, entry.path, &(struct osb_read){ .offset = 2, .limit = 2 }, &bytes, call));
	CHECK(same(bytes->data, "line2\nline3"));
	osb_free(bytes);
	MUST(osb_file_read(s, entry.path, &(struct osb_read){ .range = "bytes=0-4" }, &bytes, call));
	CHECK(same(bytes->data, "line1"));
	osb_free(bytes);
	MUST(osb_file_write(s, &(struct osb_entry){ .path = "/tmp/c-sdk/zero" }, "\0\r\n--\0", 6, call));
	MUST(osb_file_read(s, "/tmp/c-sdk/zero", NULL, &bytes, call));
	CHECK(bytes->n == 6 && memcmp(bytes->data, "\0\r\n--\0", 6) == 0);
	osb_free(bytes);
	MUST(osb_file_write(s, &(struct osb_entry){ .path = "/tmp/c-sdk/empty" }, NULL, 0, call));
	for (int known = 0; known < 2; known++) {
		left = 20000000;
		MUST(osb_file_upload(s, &(struct osb_entry){ .path = "/tmp/c-sdk/big" }, known ? 20000000 : -1, read_zeroes, &left, call));
		CHECK(left == 0);
		got = 0;
		MUST(osb_file_download(s, "/tmp/c-sdk/big", NULL, count_bytes, &got, call));
		CHECK(got == 20000000);
	}
	got = 0;
	MUST(osb_file_download(s, "/tmp/c-sdk/big", &(struct osb_read){ .range = "bytes=10-29" }, count_bytes, &got, call));
	CHECK(got == 20);
	left = 100;
	FAILS(osb_file_upload(s, &(struct osb_entry){ .path = "/tmp/c-sdk/short" }, 200, read_zeroes, &left, call), OSB_LOCAL, 0);
	FAILS(osb_file_upload(s, &(struct osb_entry){ .path = "/tmp/c-sdk/short" }, -1, read_nothing, NULL, call), OSB_LOCAL, 0);
	FAILS(osb_file_download(s, "/tmp/c-sdk/big", NULL, refuse_bytes, NULL, call), OSB_LOCAL, 0);
	FAILS(osb_file_read(s, "/tmp/c-sdk/none", NULL, &bytes, call), OSB_ANSWER, 404);
	CHECK(same(error()->code, "FILE_NOT_FOUND"));
	FAILS(osb_file_read(s, "/tmp/c-sdk/zero", &(struct osb_read){ .range = "bytes=99-" }, &bytes, call), OSB_ANSWER, 416);
	FAILS(osb_file_read(s, NULL, NULL, &bytes, call), OSB_INVALID, 0);
	FAILS(osb_file_write(s, &(struct osb_entry){ .owner = "x" }, "", 0, call), OSB_INVALID, 0);
}

static void names(void)
{
	const char *const dirs[] = { "/tmp/c-sdk" }, *const two[] = { "/tmp/c-sdk/zero", "/tmp/c-sdk/empty" };
	const struct osb_entry made[] = { { .path = "/tmp/c-sdk/d/e", .mode = 700 }, { .path = "/tmp/c-sdk/f" } };
	const struct osb_entry mode = { .path = "/tmp/c-sdk/zero", .mode = 600 };
	const struct osb_move move = { "/tmp/c-sdk/empty", "/tmp/c-sdk/d/moved" };
	const struct osb_replace replaces[] = { { "/tmp/c-sdk/d/moved", "x", "y" }, { "/tmp/c-sdk/words", "b", "a" } };
	const struct osb_strings all = { dirs, 1 }, both = { two, 2 };
	struct osb_replacements *replaced = NULL;
	struct osb_files *files = NULL;

	MUST(osb_directory_create(s, made, 2, call));
	MUST(osb_file_chmod(s, &mode, 1, call));
	MUST(osb_file_info(s, &both, &files, call));
	CHECK(files->n == 2 && same(files->items[0].path, two[0]) && files->items[0].mode == 600 && files->items[0].size == 6);
	CHECK(same(files->items[1].type, "file") && same(files->items[1].owner, "root") && osb_time_ms(files->items[1].modified_at) > 0);
	show("files", files);
	osb_free(files);
	MUST(osb_file_move(s, &move, 1, call));
	MUST(osb_file_write(s, &(struct osb_entry){ .path = "/tmp/c-sdk/words" }, "b b b", 5, call));
	MUST(osb_file_replace(s, replaces, 2, &replaced, call));
	CHECK(replaced->n == 2);
	for (size_t i = 0; i < 2; i++)
		CHECK(replaced->items[i].replaced_count == (same(replaced->items[i].path, "/tmp/c-sdk/words") ? 3 : 0));
	show("replaced", replaced);
	osb_free(replaced);
	MUST(osb_file_replace(s, &(struct osb_replace){ "/tmp/c-sdk/words", "a", "" }, 1, NULL, call));
	MUST(osb_file_search(s, "/tmp/c-sdk", "m*", &files, call));
	CHECK(files->n == 1 && same(files->items[0].path, "/tmp/c-sdk/d/moved"));
	osb_free(files);
	MUST(osb_directory_list(s, "/tmp/c-sdk", 2, &files, call));
	CHECK(files->n == 8 && same(files->items[0].type, "file"));
	osb_free(files);
	MUST(osb_directory_list(s, "/tmp/c-sdk", 0, &files, call));
	CHECK(files->n == 6);
	osb_free(files);
	MUST(osb_file_delete(s, &(struct osb_strings){ two, 1 }, call));
	FAILS(osb_file_info(s, &(struct osb_strings){ two, 1 }, &files, call), OSB_ANSWER, 404);
	MUST(osb_directory_delete(s, &all, call));
	FAILS(osb_directory_list(s, "/tmp/c-sdk", 1, &files, call), OSB_ANSWER, 404);
	FAILS(osb_file_delete(s, NULL, call), OSB_INVALID, 0);
	FAILS(osb_file_replace(s, &(struct osb_replace){ .path = "/x" }, 1, NULL, call), OSB_INVALID, 0);
}

/* ---- metrics ---- */

static void on_metrics(const struct osb_metrics *m, const char *problem, void *arg)
{
	unsigned *n = arg;

	CHECK(m && !problem && m->cpu_count > 0 && m->memory_used_mib <= m->memory_total_mib);
	if (++*n == 2 && call)
		osb_call_cancel(call);
}

static void metrics(void)
{
	struct osb_metrics *m = NULL;
	unsigned n = 0;

	MUST(osb_sandbox_ping(s, call));
	MUST(osb_metrics_get(s, &m, call));
	CHECK(m->cpu_count > 0 && m->cpu_used_percentage >= 0 && m->memory_total_mib > 0 && m->timestamp_ms > 1000000000000);
	show("metrics", m);
	osb_free(m);
	if (!call) /* without one nobody could end it */
		return;
	FAILS(osb_metrics_watch(s, on_metrics, &n, call), OSB_CANCELLED, 0);
	CHECK(n == 2);
	osb_call_set_deadline(call, 50);
	FAILS(osb_metrics_watch(s, on_metrics, &n, call), OSB_TIMEOUT, 0);
	osb_call_set_deadline(call, 0);
}

/* ---- code ---- */

static void code(void)
{
	struct osb_context *context = NULL, *again = NULL;
	struct osb_contexts *list = NULL;
	struct osb_execution *x = NULL;
	struct told told = { .id = "" };

	MUST(osb_code_run(s, &(struct osb_code){ .code = "print('a'); print('b', end=''); 2 + 2" }, note, &told, &x, call));
	CHECK(same(x->stdout_text, "a\nb") && x->n_results == 1 && same(x->results[0].text, "4") && !x->has_exit_code);
	CHECK(told.n[OSB_EVENT_RESULT] == 1 && x->execution_count >= 1);
	show("code", x);
	osb_free(x);
	MUST(osb_context_create(s, "python", "/tmp", &context, call));
	show("context", context);
	MUST(osb_code_run(s, &(struct osb_code){ .code = "v = 41", .context_id = context->id }, NULL, NULL, NULL, call));
	MUST(osb_code_run(s, &(struct osb_code){ .code = "v + nope", .context_id = context->id, .language = "python" }, NULL, NULL, &x, call));
	CHECK(same(x->error_name, "NameError") && x->traceback.n > 0 && x->n_results == 0);
	osb_free(x);
	MUST(osb_code_run(s, &(struct osb_code){ .code = "v + 1", .context_id = context->id }, NULL, NULL, &x, call));
	CHECK(same(x->results[0].text, "42"));
	osb_free(x);
	MUST(osb_context_get(s, context->id, &again, call));
	CHECK(same(again->id, context->id) && same(again->language, "python"));
	osb_free(again);
	MUST(osb_context_list(s, "python", &list, call));
	CHECK(list->n >= 2);
	show("contexts", list);
	osb_free(list);
	FAILS(osb_code_interrupt(s, "none", call), OSB_ANSWER, error()->http_status);
	MUST(osb_context_delete(s, context->id, call));
	FAILS(osb_context_get(s, context->id, &again, call), OSB_ANSWER, 404);
	MUST(osb_context_delete_all(s, "python", call));
	MUST(osb_context_list(s, NULL, &list, call));
	CHECK(list->n == 0);
	osb_free(list);
	osb_free(context);
	FAILS(osb_context_delete_all(s, NULL, call), OSB_INVALID, 0);
}

static void interrupt_it(const struct osb_event *ev, void *arg)
{
	char *id = arg;

	if (ev->kind == OSB_EVENT_INIT)
		(void)snprintf(id, 64, "%s", ev->text);
}

/* A long run is interrupted by a second call. */
static void interrupted_code(void)
{
	struct osb_execution *x = NULL;
	char id[64] = "";

	if (!call)
		return;
	is_done = false;
	CHECK(osb_code_run(s, &(struct osb_code){ .code = "import time\ntime.sleep(60)" }, interrupt_it, id, &x, call) == 0);
	while (!*id)
		turn(1000);
	for (uint64_t until = now_ms() + 500; now_ms() < until;)
		turn(50); /* code that has only just begun may not be interruptible yet */
	if (osb_code_interrupt(s, id, NULL) < 0)
		errx(1, "%s", osb_client_error(client)->message);
	while (!is_done)
		turn(-1);
	CHECK(osb_call_error(call)->kind == OSB_OK && same(x->error_name, "KeyboardInterrupt"));
	osb_free(x);
}

/* ---- what ends in the middle ---- */

static void free_in_event(const struct osb_event *ev, void *arg)
{
	struct osb_call **c = arg;

	if (ev->kind != OSB_EVENT_STDOUT || !*c)
		return;
	osb_call_free(*c);
	*c = NULL;
	CHECK(same(ev->text, "1"));
}

static void cancel_in_event(const struct osb_event *ev, void *arg)
{
	if (ev->kind == OSB_EVENT_STDOUT)
		osb_call_cancel(arg);
}

static void wait_in_event(const struct osb_event *ev, void *arg)
{
	(void)ev;
	*(int *)arg = osb_sandbox_ping(s, NULL);
}

static void ends(void)
{
	const struct osb_command slow = { .command = "echo 1; echo 2; sleep 60" };
	struct osb_call *other = osb_call_new(client);
	struct osb_execution *x = NULL;
	bool is_told = false;
	int r = 0;

	CHECK(other);
	/* One that waits can be cancelled too. */
	CHECK(osb_command_run(s, &slow, cancel_in_event, other, &x, other) < 0 && osb_call_error(other)->kind == OSB_CANCELLED && !x);
	osb_call_set_deadline(other, 200);
	CHECK(osb_command_run(s, &slow, NULL, NULL, &x, other) < 0 && osb_call_error(other)->kind == OSB_TIMEOUT && !x);
	osb_call_set_deadline(other, 0);
	MUST(osb_command_run(s, &(struct osb_command){ .command = "echo 1" }, wait_in_event, &r, NULL, call));
	CHECK(r == -1);
	osb_call_on_done(other, on_done, &is_told);
	CHECK(osb_command_run(s, &slow, free_in_event, &other, &x, other) == 0);
	while (other)
		turn(100);
	for (int i = 0; i < 5; i++)
		turn(10);
	CHECK(!is_told && !x);
	MUST(osb_sandbox_ping(s, call));
}

static void everything(void)
{
	MUST(osb_sandbox_create(client, &(struct osb_create){ .image = "host", .timeout_s = 600 }, &s, call));
	commands();
	background();
	sessions();
	contents();
	names();
	metrics();
	code();
	interrupted_code();
	ends();
	kill_and_free(s);
}

int main(int argc, char **argv)
{
	return try_both(argc, argv, everything);
}
