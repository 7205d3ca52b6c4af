// SPDX-License-Identifier: Apache-2.0
/* osb top: all sandboxes, and what they use, again and again.
 *
 * Metrics come from the sandboxes themselves: those that are on the screen are asked, all at the same time, by calls that do not
 * wait. One that does not answer delays nobody. Live, the list comes by such a call as well: keys are heard all the time. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/map.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/terminal.h"
#include "cli/top_page.h"
#include "sys/fd.h"
#include "sys/signals.h"

#include "base/banned.h"

#define PAGE_SIZE 200
#define SANDBOXES_MAX 10000
#define ASK_MS 2000       /* for a sandbox's metrics */
#define AT_ONCE 32        /* that are asked */
#define PAGE_MAX ((size_t)4 * 1024 * 1024)
#define SCREEN_ON "\033[?1049h\033[?25l"
#define SCREEN_OFF "\033[?25h\033[?1049l"

struct top_options {
	const char *output;
	int64_t interval;
	struct opt_list states;
	bool once;
};

const struct opt cli_top_opts[] = {
	OPT(struct top_options, interval, OPT_INT, "interval", 'd', "SECONDS", "Refresh every SECONDS (2).",
	    .min = 1, .max = 3600),
	OPT(struct top_options, once, OPT_FLAG, "once", '1', NULL, "Print once and exit."),
	OPT(struct top_options, states, OPT_LIST, "state", 's', "STATE", "Only sandboxes in STATE."),
	OPT_OUTPUT(struct top_options, output_table),
	{ 0 },
};

/* What is known of one sandbox, from one round to the next. */
struct seen {
	struct top_row row;
	struct seen *next;
	struct top *top;
	char *id, *state, *image;
	struct osb_sandbox *sandbox; /* or NULL: not asked yet */
	struct osb_metrics *metrics;
	struct osb_call *call;
	unsigned round;
	bool is_connecting;
};

struct top {
	struct cli *cli;
	const struct top_options *o;
	struct seen *first;
	struct map by_id;
	struct top_row *rows;
	size_t n_rows, n_busy;
	unsigned round;
	enum top_order order;
	char trouble[256];
	/* The list, which comes in pages. */
	struct osb_sandboxes *found; /* the last page */
	int64_t page;
	bool is_listing; /* live: a page is asked for */
	bool has_list;   /* live: there was one */
	bool is_shown;   /* the screen is ours */
	uint64_t next_ms;
};

/* ---- one sandbox ---- */

static void seen_free(struct seen *s)
{
	if (s->call && osb_call_is_busy(s->call))
		s->top->n_busy--;
	osb_call_free(s->call);
	if (s->sandbox)
		osb_sandbox_free(s->sandbox);
	osb_free(s->metrics);
	free(s->id);
	free(s->state);
	free(s->image);
	free(s);
}

static void on_metrics(struct osb_call *call, void *arg);

static void ask_metrics(struct seen *s)
{
	s->is_connecting = false;
	osb_free(s->metrics);
	s->metrics = NULL;
	(void)osb_metrics_get(s->sandbox, &s->metrics, s->call);
}

static void on_metrics(struct osb_call *call, void *arg)
{
	struct seen *s = arg;
	bool is_good = osb_call_error(call)->kind == OSB_OK;

	if (s->is_connecting && is_good) {
		ask_metrics(s);
		return;
	}
	s->top->n_busy--;
	s->row.has_metrics = is_good && s->metrics;
	if (!s->row.has_metrics)
		return;
	s->row.cpu_percent = s->metrics->cpu_used_percentage;
	s->row.memory_used = s->metrics->memory_used_mib > 0 ? (uint64_t)(s->metrics->memory_used_mib * 1048576) : 0;
	s->row.memory_total = s->metrics->memory_total_mib > 0 ? (uint64_t)(s->metrics->memory_total_mib * 1048576) : 0;
}

/* Begins to ask; nothing happens where that is under way. */
static void seen_ask(struct seen *s)
{
	const struct osb_connect how = { .size = sizeof(how), .skip_health_check = true };

	if (!s->call) {
		s->call = osb_call_new(s->top->cli->client);
		if (!s->call)
			return;
		osb_call_on_done(s->call, on_metrics, s);
		osb_call_set_deadline(s->call, ASK_MS);
	}
	if (osb_call_is_busy(s->call))
		return;
	s->top->n_busy++;
	if (s->sandbox) {
		ask_metrics(s);
		return;
	}
	s->is_connecting = true;
	(void)osb_sandbox_connect(s->top->cli->client, s->id, &how, &s->sandbox, s->call);
}

/* ---- all of them ---- */

static struct seen *find_seen(struct top *t, struct str id)
{
	return map_get(&t->by_id, id);
}

static int64_t age_of(const char *created_at)
{
	int64_t ms = created_at ? osb_time_ms(created_at) : -1, now = clock_wall_us() / 1000;

	return ms < 0 ? -1 : now > ms ? (now - ms) / 1000 : 0;
}

/* NULL: no memory. */
static struct seen *seen_new(struct top *t, const struct osb_sandbox_info *info)
{
	struct seen *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->top = t;
	s->id = strdup(info->id);
	s->image = strdup(info->image ? info->image : info->snapshot_id ? info->snapshot_id : "-");
	if (!s->id || !s->image || !map_put(&t->by_id, str_of(s->id), s)) {
		seen_free(s);
		return NULL;
	}
	s->next = t->first;
	t->first = s;
	return s;
}

static bool take_info(struct top *t, const struct osb_sandbox_info *info)
{
	struct seen *s = find_seen(t, str_of(info->id));
	char *state = strdup(info->status.state ? info->status.state : "Unknown");

	if (!s)
		s = seen_new(t, info);
	if (!s || !state) {
		free(state);
		return false;
	}
	free(s->state);
	s->state = state;
	s->round = t->round;
	s->row.id = str_of(s->id);
	s->row.state = str_of(s->state);
	s->row.image = str_of(s->image);
	s->row.age_s = age_of(info->created_at);
	return true;
}

static void forget_gone(struct top *t)
{
	for (struct seen **at = &t->first; *at;) {
		struct seen *s = *at;

		if (s->round == t->round) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		(void)map_del(&t->by_id, str_of(s->id));
		seen_free(s);
	}
}

/* Begins to ask for it, or waits: as the call has been told. */
static int ask_page(struct top *t, struct osb_call *call)
{
	const struct osb_list filter = { .size = sizeof(filter), .page = t->page, .page_size = PAGE_SIZE,
					 .states = { t->o->states.items, t->o->states.n } };

	osb_free(t->found);
	t->found = NULL;
	return osb_sandbox_list(t->cli->client, &filter, &t->found, call);
}

/* -1: no memory. *ret_more: there is another page to ask for. */
static int take_page(struct top *t, bool *ret_more)
{
	for (size_t i = 0; i < t->found->n; i++)
		if (!take_info(t, &t->found->items[i]))
			return -1;
	*ret_more = t->found->pagination.has_next_page && t->found->n > 0 && t->page < SANDBOXES_MAX / PAGE_SIZE;
	return 0;
}

/* The rows in order; -1: no memory. */
static int make_rows(struct top *t)
{
	size_t n = 0;
	struct top_row *rows;

	for (const struct seen *s = t->first; s; s = s->next)
		n++;
	rows = reallocarray(t->rows, n + 1, sizeof(*rows));
	if (!rows)
		return -1;
	t->rows = rows;
	t->n_rows = n;
	n = 0;
	for (const struct seen *s = t->first; s; s = s->next)
		rows[n++] = s->row;
	top_sort(rows, n, t->order);
	return 0;
}

/* Asks those that are in the first N rows, or not ordered by what they answer: all. */
static void ask_some(struct top *t, size_t n)
{
	for (size_t i = 0; i < t->n_rows && i < n && t->n_busy < AT_ONCE; i++) {
		struct seen *s = find_seen(t, t->rows[i].id);

		if (s && str_is(s->row.state, "Running"))
			seen_ask(s);
	}
}

/* ---- once ---- */

static void write_row(struct json_out *o, const struct top_row *r)
{
	json_open(o, '{');
	json_key(o, "id"), json_str(o, r->id);
	json_key(o, "state"), json_str(o, r->state);
	json_key(o, "image"), json_str(o, r->image);
	json_key(o, "cpu_used_percentage");
	if (r->has_metrics)
		json_real(o, r->cpu_percent);
	else
		json_null(o);
	json_key(o, "memory_used_bytes");
	if (r->has_metrics)
		json_uint(o, r->memory_used);
	else
		json_null(o);
	json_key(o, "memory_total_bytes");
	if (r->has_metrics)
		json_uint(o, r->memory_total);
	else
		json_null(o);
	json_key(o, "age_seconds");
	if (r->age_s >= 0)
		json_int(o, r->age_s);
	else
		json_null(o);
	json_close(o, '}');
}

static int show_once(struct top *t)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16 * PAGE_MAX);
	struct json_out o = json_out(&b);
	struct cli *cli = t->cli;
	struct top_view v = { .columns = cli->out.width ? cli->out.width : 200, .rows = (unsigned)t->n_rows + 4, .is_plain = !cli->out.is_ansi_out,
			      .n_all = t->n_rows };

	if (output_is_people(&cli->out)) {
		top_page(t->rows, t->n_rows, &v, &b);
		return output_bytes(&cli->out, buf_str(&b)) < 0 ? CLI_FAILED : CLI_OK;
	}
	json_open(&o, '[');
	for (size_t i = 0; i < t->n_rows; i++)
		write_row(&o, &t->rows[i]);
	json_close(&o, ']');
	return cli_show_rows(cli, cli_parse(cli, buf_str(&b)), NULL, NULL);
}

static int list_all(struct top *t)
{
	struct cli *cli = t->cli;
	bool has_more = true;

	t->round++;
	for (t->page = 1; has_more; t->page++) {
		if (cli_wait(cli, NULL, ask_page(t, cli_call(cli))) < 0)
			return cli_fail_call(cli), -1;
		if (take_page(t, &has_more) < 0)
			return cli_fail(cli, "out of memory"), -1;
	}
	return 0;
}

static int run_once(struct top *t)
{
	if (list_all(t) < 0)
		return t->cli->status;
	if (make_rows(t) < 0)
		return cli_fail(t->cli, "out of memory");
	for (size_t at = 0; at < t->n_rows || t->n_busy > 0;) {
		for (; at < t->n_rows && t->n_busy < AT_ONCE; at++) {
			struct seen *s = find_seen(t, t->rows[at].id);

			if (s && str_is(s->row.state, "Running"))
				seen_ask(s);
		}
		if (osb_client_dispatch(t->cli->client, -1) < 0)
			return cli_fail(t->cli, "the client is beyond use");
	}
	return make_rows(t) < 0 ? cli_fail(t->cli, "out of memory") : show_once(t);
}

/* ---- live ---- */

/* Not before there is something to show. */
static void draw(struct top *t)
{
	AUTO(buf_done) struct buf page = BUF_INIT(PAGE_MAX);
	AUTO(buf_done) struct buf screen = BUF_INIT(2 * PAGE_MAX);
	struct top_view v = { .order = t->order, .is_live = true, .is_plain = !t->cli->out.is_ansi_out, .trouble = str_of(t->trouble) };
	struct str rest, line;

	if (!t->has_list || make_rows(t) < 0)
		return;
	v.n_all = t->n_rows;
	(void)terminal_size(STDOUT_FILENO, &v.columns, &v.rows);
	top_page(t->rows, t->n_rows, &v, &page);
	buf_addf(&screen, "%s\033[H", t->is_shown ? "" : SCREEN_ON);
	t->is_shown = true;
	for (rest = buf_str(&page); rest.n > 0;) {
		(void)str_cut(rest, '\n', &line, &rest);
		buf_add_str(&screen, line);
		buf_addf(&screen, "\033[K%s", rest.n > 0 ? "\r\n" : "");
	}
	buf_addf(&screen, "\033[J");
	(void)fd_write_all(STDOUT_FILENO, screen.p, screen.n, &(struct err){ 0 }); /* the next one comes soon */
}

/* False: it is over. */
static bool take_key(struct top *t, char key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case '\003':
	case '\033':
		return false;
	case 'c':
		t->order = TOP_BY_CPU;
		break;
	case 'm':
		t->order = TOP_BY_MEMORY;
		break;
	case 'a':
		t->order = TOP_BY_AGE;
		break;
	default:
		break;
	}
	draw(t);
	return true;
}

/* ---- live: the list ---- */

static void end_list(struct top *t, const char *trouble)
{
	unsigned columns, rows;

	t->is_listing = false;
	t->next_ms = clock_mono_ms() + (uint64_t)t->o->interval * 1000;
	(void)snprintf(t->trouble, sizeof(t->trouble), "%.200s", trouble);
	t->has_list |= trouble[0] == '\0';
	(void)terminal_size(STDOUT_FILENO, &columns, &rows);
	if (t->has_list && make_rows(t) == 0)
		ask_some(t, rows);
	draw(t);
}

static void on_page(struct osb_call *call, void *arg)
{
	const struct osb_error *why = osb_call_error(call);
	struct top *t = arg;
	bool has_more = false;

	if (why->kind != OSB_OK) {
		end_list(t, why->message);
	} else if (take_page(t, &has_more) < 0) {
		end_list(t, "out of memory");
	} else if (has_more) {
		t->page++;
		(void)ask_page(t, call);
	} else {
		forget_gone(t);
		end_list(t, "");
	}
}

static void begin_list(struct top *t)
{
	t->round++;
	t->page = 1;
	t->is_listing = true;
	(void)ask_page(t, t->cli->call); /* on_page is told of a failure, too */
}

/* ---- live: keys ---- */

static int until_next_ms(const struct top *t)
{
	uint64_t now = clock_mono_ms();
	int left = t->next_ms > now ? (int)(t->next_ms - now) : 0, ms = osb_client_timeout_ms(t->cli->client);

	if (t->is_listing)
		return ms;
	return ms >= 0 && ms < left ? ms : left;
}

/* Waits for whatever comes first: a key must not wait for a server. False: it is over. */
static bool wait_any(struct top *t, int signals)
{
	struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = signals, .events = POLLIN },
			      { .fd = osb_client_fd(t->cli->client), .events = POLLIN } };
	size_t busy = t->n_busy;
	struct err e = { 0 };
	int signo;
	char key;

	if (poll(p, ARRAY_LEN(p), until_next_ms(t)) < 0 && errno != EINTR)
		return false;
	if (p[0].revents && (read(STDIN_FILENO, &key, 1) != 1 || !take_key(t, key)))
		return false;
	while (signals_read(signals, &signo, NULL, &e) == 1)
		if (signo != SIGWINCH && signo != SIGTSTP)
			return false;
	if (p[1].revents)
		draw(t);
	if (osb_client_dispatch(t->cli->client, 0) < 0)
		return false;
	if (t->n_busy < busy && t->n_busy == 0)
		draw(t);
	return true;
}

/* The first list must come, the others may fail. */
static bool has_failed(const struct top *t)
{
	return !t->is_listing && !t->has_list;
}

static void live(struct top *t, int signals)
{
	do
		if (!t->is_listing && clock_mono_ms() >= t->next_ms)
			begin_list(t);
	while (wait_any(t, signals) && !has_failed(t));
	if (t->is_shown)
		(void)!write(STDOUT_FILENO, SCREEN_OFF, sizeof(SCREEN_OFF) - 1);
}

static int run_live(struct top *t)
{
	AUTO(terminal_restore) struct terminal terminal = TERMINAL_INIT;
	AUTO_FD signals = -1;
	const sigset_t set = SIGNALS(TERMINAL_SIGNALS);
	struct cli *cli = t->cli;
	struct err e = { 0 };
	int status = CLI_OK;

	if (!cli_call(cli))
		return cli_fail(cli, "out of memory");
	osb_call_on_done(cli->call, on_page, t);
	signals = signals_block(&set, &e) < 0 ? -1 : signals_open(&set, &e);
	if (signals < 0 || terminal_raw(&terminal, STDIN_FILENO, &e) < 0)
		return cli_fail_err(cli, &e);
	live(t, signals);
	terminal_restore(&terminal);
	if (has_failed(t))
		status = cli_error(cli)->kind == OSB_OK ? cli_fail(cli, "%s", t->trouble) : cli_fail_call(cli);
	osb_call_free(take_ptr(&cli->call)); /* it would call back into what is gone soon */
	return status;
}

int cmd_top(int argc, char **argv, void *arg)
{
	struct top_options o = { .interval = 2 };
	struct top t = { .cli = arg, .o = &o };
	struct cli *cli = arg;
	int status;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli))
		return cli->status;
	if (o.once || !output_is_people(&cli->out) || !terminal_is(STDIN_FILENO) || !terminal_is(STDOUT_FILENO))
		status = run_once(&t);
	else
		status = run_live(&t);
	t.round++;
	forget_gone(&t);
	free(t.rows);
	osb_free(t.found);
	map_done(&t.by_id);
	return status;
}
