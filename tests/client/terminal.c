// SPDX-License-Identifier: Apache-2.0
/* Terminals, and programs with pipes: every byte, both ways.
 *
 *     terminal DOMAIN KEY */
#include "trying.h"

#include "base/banned.h"

#define LONG ((size_t)100 * 1000 * 1000)

static struct osb_sandbox *s;

struct seen {
	char out[65536], errors[4096]; /* the first of it */
	size_t n_out, n_errors;
	uint64_t sum;
	int exit_code, n_exits, n_lost, n_drained;
	char lost[64];
};

static void on_output(struct osb_pty *p, bool is_stderr, const char *data, size_t n, void *arg)
{
	struct seen *x = arg;
	char *to = is_stderr ? x->errors : x->out;
	size_t *at = is_stderr ? &x->n_errors : &x->n_out, max = is_stderr ? sizeof(x->errors) : sizeof(x->out);

	(void)p;
	if (*at < max - 1)
		memcpy(to + *at, data, n < max - 1 - *at ? n : max - 1 - *at);
	for (size_t i = 0; i < n; i++)
		x->sum += (unsigned char)data[i];
	*at += n;
}

static void on_drained(struct osb_pty *p, void *arg)
{
	(void)p;
	((struct seen *)arg)->n_drained++;
}

static void on_exit_code(struct osb_pty *p, int exit_code, void *arg)
{
	struct seen *x = arg;

	(void)p;
	x->exit_code = exit_code;
	x->n_exits++;
}

static void on_lost(struct osb_pty *p, const struct osb_error *e, void *arg)
{
	struct seen *x = arg;

	(void)p;
	x->n_lost++;
	(void)snprintf(x->lost, sizeof(x->lost), "%s", e->code);
}

static const struct osb_pty_ops ops = { on_output, on_drained, on_exit_code, on_lost };

static void until_over(struct seen *x)
{
	uint64_t until = now_ms() + 60000;

	while (x->n_exits + x->n_lost == 0) {
		CHECK(now_ms() < until);
		turn(1000);
	}
	CHECK(x->n_exits + x->n_lost == 1);
}

static void until_text(struct seen *x, const char *text)
{
	uint64_t until = now_ms() + 20000;

	while (!strstr(x->out, text)) {
		if (now_ms() > until)
			errx(1, "no '%s' in '%s'", text, x->out);
		turn(100);
	}
}

static struct osb_pty *open_pipes(const char *command, struct seen *x)
{
	struct osb_pty *p = NULL;

	*x = (struct seen){ .exit_code = -2 };
	MUST(osb_pty_open(s, &(struct osb_pty_options){ .size = sizeof(struct osb_pty_options), .command = command, .pipes = true }, &ops, x, &p, call));
	return p;
}

/* ---- pipes ---- */

static void exact_bytes(void)
{
	struct seen *x = calloc(1, sizeof(*x));
	struct osb_pty *p;

	CHECK(x);
	p = open_pipes("printf 'a\\0b\\r\\nno end'; printf 'oops' >&2; exit 42", x);
	until_over(x);
	CHECK(x->exit_code == 42 && x->n_out == 11 && memcmp(x->out, "a\0b\r\nno end", 11) == 0 && same(x->errors, "oops"));
	osb_pty_free(p);
	p = open_pipes("kill -9 $$", x);
	until_over(x);
	CHECK(x->exit_code == 137 && x->n_out == 0);
	osb_pty_free(p);
	p = open_pipes("exec sleep 100", x);
	osb_pty_signal(p, "SIGTERM");
	until_over(x);
	CHECK(x->exit_code == 143);
	MUST(osb_pty_delete(s, osb_pty_id(p), call));
	FAILS(osb_pty_delete(s, osb_pty_id(p), call), OSB_ANSWER, 404);
	osb_pty_free(p);
	free(x);
}

static void end_of_input(void)
{
	struct seen *x = calloc(1, sizeof(*x));
	struct osb_pty *p;

	CHECK(x);
	p = open_pipes("cat; echo \"$?\" >&2", x);
	CHECK(osb_pty_write(p, "x\0y", 3) == 3 && osb_pty_end_input(p) == 0);
	until_over(x);
	CHECK(x->exit_code == 0 && x->n_out == 3 && memcmp(x->out, "x\0y", 3) == 0 && same(x->errors, "0\n"));
	osb_pty_free(p);
	p = open_pipes("cat", x);
	CHECK(osb_pty_end_input(p) == 0);
	until_over(x);
	CHECK(x->exit_code == 0 && x->n_out == 0);
	osb_pty_free(p);
	p = open_pipes("head -c 5; exec <&-; sleep 0.3; exit 9", x);
	for (int i = 0; i < 100 && x->n_exits == 0; i++) {
		char piece[10000];

		memset(piece, 'p', sizeof(piece));
		(void)osb_pty_write(p, piece, sizeof(piece));
		turn(10);
	}
	until_over(x);
	CHECK(x->exit_code == 9 && same(x->out, "ppppp"));
	osb_pty_free(p);
	free(x);
}

static void long_output(void)
{
	struct seen *x = calloc(1, sizeof(*x));
	struct osb_pty *p;
	size_t paused_at;

	CHECK(x);
	p = open_pipes("head -c 100000000 /dev/zero | tr '\\0' '\\1'; exit 3", x);
	while (x->n_out < 1000000)
		turn(1000);
	osb_pty_pause(p);
	paused_at = x->n_out;
	for (uint64_t until = now_ms() + 300; now_ms() < until;)
		turn(50);
	CHECK(x->n_out == paused_at && x->n_exits == 0);
	osb_pty_resume(p);
	until_over(x);
	CHECK(x->n_out == LONG && x->sum == LONG && x->exit_code == 3);
	osb_pty_free(p);
	free(x);
}

static void long_input(void)
{
	struct seen *x = calloc(1, sizeof(*x));
	static char piece[65536];
	struct osb_pty *p;
	size_t taken = 0;

	CHECK(x);
	memset(piece, 'q', sizeof(piece));
	p = open_pipes("sleep 100", x);
	while (osb_pty_write(p, piece, sizeof(piece)) == sizeof(piece)) /* nobody reads it: there is an end */
		CHECK((taken += sizeof(piece)) < 4000000);
	osb_pty_signal(p, "SIGKILL");
	osb_pty_free(p);
	p = open_pipes("sleep 0.5; wc -c; exit 4", x);
	for (size_t left = LONG; left > 0;) {
		size_t n = osb_pty_write(p, piece, left < sizeof(piece) ? left : sizeof(piece));

		left -= n;
		if (n == 0)
			turn(1000);
		CHECK(x->n_exits + x->n_lost == 0);
	}
	while (osb_pty_end_input(p) < 0)
		turn(1000);
	until_over(x);
	CHECK(same(x->out, "100000000\n") && x->exit_code == 4 && x->n_drained > 0);
	osb_pty_free(p);
	free(x);
}

/* A round trip more than a command. */
static void many_short_ones(void)
{
	struct seen *x = calloc(1, sizeof(*x));
	uint64_t began = now_ms(), commands, pipes;

	CHECK(x);
	for (int i = 0; i < 40; i++)
		MUST(osb_command_run(s, &(struct osb_command){ .command = "true" }, NULL, NULL, NULL, call));
	commands = now_ms() - began;
	began = now_ms();
	for (int i = 0; i < 40; i++) {
		struct osb_pty *p = open_pipes("true", x);

		until_over(x);
		CHECK(x->exit_code == 0);
		osb_pty_free(p);
	}
	pipes = now_ms() - began;
	printf("times {\"commands_ms\":%llu,\"pipes_ms\":%llu}\n", (unsigned long long)commands, (unsigned long long)pipes);
	free(x);
}

/* ---- terminals ---- */

static void a_terminal(void)
{
	const struct osb_pty_options how = { .size = sizeof(how), .working_directory = "/tmp", .columns = 91, .rows = 17 };
	struct seen *x = calloc(1, sizeof(*x)), *y = calloc(1, sizeof(*y));
	struct osb_pty *p = NULL, *again = NULL;
	char id[128];

	CHECK(x && y);
	MUST(osb_pty_open(s, &how, &ops, x, &p, call));
	CHECK(osb_pty_write(p, "stty size; pwd; X=kept\n", 23) == 23);
	until_text(x, "17 91");
	until_text(x, "/tmp");
	osb_pty_resize(p, 132, 43);
	CHECK(osb_pty_write(p, "stty size\n", 10) == 10 && osb_pty_end_input(p) == 0);
	until_text(x, "43 132");
	CHECK(osb_pty_write(p, "sleep 100\n", 10) == 10);
	for (uint64_t until = now_ms() + 300; now_ms() < until;)
		turn(50);
	osb_pty_signal(p, "SIGINT");
	(void)snprintf(id, sizeof(id), "%s", osb_pty_id(p));
	FAILS(osb_pty_open(s, &(struct osb_pty_options){ .session_id = id }, &ops, y, &again, call), OSB_ANSWER, 409);
	MUST(osb_pty_open(s, &(struct osb_pty_options){ .session_id = id, .takeover = true }, &ops, y, &again, call));
	until_over(x);
	CHECK(x->n_lost == 1 && same(x->lost, "TAKEN_OVER"));
	osb_pty_free(p);
	CHECK(osb_pty_write(again, "echo $X; exit 6\n", 16) == 16);
	until_text(y, "kept");
	until_over(y);
	CHECK(y->exit_code == 6 && osb_pty_write(again, "x", 1) <= 1);
	osb_pty_free(again);
	MUST(osb_pty_delete(s, id, call));
	FAILS(osb_pty_open(s, &(struct osb_pty_options){ .session_id = id }, &ops, y, &again, call), OSB_ANSWER, 404);
	FAILS(osb_pty_open(s, &(struct osb_pty_options){ .session_id = "" }, &ops, y, &again, call), OSB_INVALID, 0);
	free(x);
	free(y);
}

/* ---- what ends in the middle ---- */

static void free_in_output(struct osb_pty *p, bool is_stderr, const char *data, size_t n, void *arg)
{
	(void)is_stderr;
	(void)data;
	(void)n;
	osb_pty_free(p);
	*(bool *)arg = true;
}

static void ends(void)
{
	static const struct osb_pty_ops freeing = { .on_output = free_in_output };
	struct osb_call *other = osb_call_new(client);
	struct seen *x = calloc(1, sizeof(*x));
	struct osb_sandbox *twin = NULL;
	struct osb_pty *p = NULL;
	bool is_told = false, is_freed = false;

	CHECK(x && other);
	osb_call_on_done(other, on_done, &is_told);
	for (int turns = 0; turns < 12; turns++) { /* at each step of the way */
		is_told = false;
		CHECK(osb_pty_open(s, &(struct osb_pty_options){ .command = "sleep 60", .pipes = true }, &ops, x, &p, other) == 0);
		for (int i = 0; i < turns; i++)
			turn(5);
		osb_call_cancel(other);
		while (!is_told)
			turn(1000);
		CHECK(osb_call_error(other)->kind == OSB_OK ? p != NULL : p == NULL);
		osb_pty_free(p);
		p = NULL;
	}
	MUST(osb_pty_open(s, &(struct osb_pty_options){ .command = "echo x", .pipes = true }, &freeing, &is_freed, &p, call));
	while (!is_freed)
		turn(100);
	MUST(osb_sandbox_connect(client, osb_sandbox_id(s), NULL, &twin, call));
	CHECK(osb_pty_open(twin, &(struct osb_pty_options){ .command = "sleep 60", .pipes = true }, &ops, x, &p, NULL) == 0);
	osb_sandbox_free(twin); /* and the terminal with it */
	for (int i = 0; i < 5; i++)
		turn(5);
	CHECK(x->n_lost == 0 && x->n_exits == 0);
	osb_call_free(other);
	free(x);
}

static void everything(void)
{
	MUST(osb_sandbox_create(client, &(struct osb_create){ .image = "host", .timeout_s = 600 }, &s, call));
	exact_bytes();
	end_of_input();
	long_output();
	long_input();
	many_short_ones();
	a_terminal();
	ends();
	kill_and_free(s);
}

int main(int argc, char **argv)
{
	return try_both(argc, argv, everything);
}
