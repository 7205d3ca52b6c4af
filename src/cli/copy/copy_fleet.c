// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/copy_fleet.h"

#include <stdio.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/run_options.h"

#include "base/banned.h"

#define LOOK_MS 250 /* for Ctrl-C, when nothing comes from the sandbox */

struct fleet {
	struct copy_job *j;
	const struct copy_list *l;
	const char *top;
	copy_ship_fn *begin, *end;
	void *arg;
	size_t at; /* the next entry of the list */
	struct copy_ship ships[COPY_FLEET];
};

static void on_done(struct osb_call *call, void *arg)
{
	(void)call;
	(void)arg; /* who turns the loop sees that it is not busy any more */
}

static int launch(struct fleet *f, struct copy_ship *s, const struct copy_entry *entry)
{
	if (!s->call) {
		s->call = osb_call_new(f->j->cli->client);
		if (!s->call)
			return cli_fail(f->j->cli, "out of memory"), -1;
		osb_call_on_done(s->call, on_done, s);
	}
	s->j = f->j;
	s->entry = entry;
	s->transfer = FILE_TRANSFER_INIT;
	s->path = copy_join(f->j, f->top, str_of(entry->path));
	if (!s->path)
		return -1;
	s->transfer.cli = f->j->cli;
	s->transfer.bar = &f->j->bar;
	s->transfer.what = f->j->bar.what = copy_base_name(s->path);
	if (f->begin(s, f->arg) < 0) {
		file_transfer_done(&s->transfer);
		return -1;
	}
	s->is_under_way = true;
	return 0;
}

/* It has arrived, or not. A file that was cut on purpose has. */
static int land(struct fleet *f, struct copy_ship *s)
{
	const struct osb_error *e = osb_call_error(s->call);
	int rc = -1;

	s->is_under_way = false;
	if (e->kind == OSB_OK || s->transfer.is_cut) {
		rc = f->end(s, f->arg);
	} else {
		progress_clear(&f->j->bar);
		if (s->transfer.why.code)
			(void)cli_fail_err(f->j->cli, &s->transfer.why);
		else
			run_fail(f->j->cli, e);
	}
	file_transfer_done(&s->transfer);
	return rc;
}

/* 1: there is nothing more to do. */
static int step(struct fleet *f)
{
	bool is_idle = true;

	for (size_t i = 0; i < COPY_FLEET; i++) {
		struct copy_ship *s = &f->ships[i];

		if (s->is_under_way && !osb_call_is_busy(s->call) && land(f, s) < 0)
			return -1;
		while (!s->is_under_way && f->at < f->l->n) {
			const struct copy_entry *entry = &f->l->items[f->at++];

			if (entry->kind == COPY_FILE && launch(f, s, entry) < 0)
				return -1;
		}
		is_idle &= !s->is_under_way;
	}
	return is_idle;
}

static bool has_landed(const struct fleet *f)
{
	for (size_t i = 0; i < COPY_FLEET; i++)
		if (f->ships[i].is_under_way && !osb_call_is_busy(f->ships[i].call))
			return true;
	return false;
}

int copy_fleet(struct copy_job *j, const struct copy_list *l, const char *top, copy_ship_fn *begin, copy_ship_fn *end, void *arg)
{
	struct fleet f = { .j = j, .l = l, .top = top, .begin = begin, .end = end, .arg = arg };
	int rc;

	do {
		rc = step(&f);
		if (rc == 0 && !has_landed(&f) && osb_client_dispatch(j->cli->client, LOOK_MS) < 0) {
			(void)cli_fail(j->cli, "the client is beyond use");
			rc = -1;
		}
		if (rc == 0 && j->cli->interrupts > 0) {
			progress_clear(&j->bar);
			(void)fputs("Aborted!\n", stderr);
			j->cli->status = CLI_FAILED;
			rc = -1;
		}
	} while (rc == 0);
	for (size_t i = 0; i < COPY_FLEET; i++) {
		osb_call_free(f.ships[i].call); /* what is under way ends here */
		if (f.ships[i].is_under_way)
			file_transfer_done(&f.ships[i].transfer);
	}
	return rc < 0 ? -1 : 0;
}
