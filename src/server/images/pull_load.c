// SPDX-License-Identifier: Apache-2.0
/* Images from archives: a fetcher reads them from a pipe, and what it finds goes into the catalogue. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "base/kill_point.h"
#include "image/reference.h"
#include "server/images/pull_impl.h"
#include "sys/passing.h"

#include "base/banned.h"

static void load_unlink(struct load_job *l)
{
	*(l->prev ? &l->prev->next : &l->p->loads) = l->next;
	if (l->next)
		l->next->prev = l->prev;
}

static void load_free(struct load_job *l)
{
	conversation_end(&l->talk);
	closep(&l->archive);
	for (size_t i = 0; i < l->n_found; i++)
		image_unref(l->found[i]);
	free(l->name);
	free(l);
}

void loads_drop(struct puller *p)
{
	while (p->loads) {
		struct load_job *l = p->loads;

		load_unlink(l);
		load_free(l);
	}
}

static void load_end(struct load_job *l, const struct err *e)
{
	struct puller *p = l->p;
	const struct pulled_image *images[LAYOUT_IMAGES_MAX];

	load_unlink(l);
	for (size_t i = 0; i < l->n_found; i++) {
		images[i] = &l->found[i]->pub;
		if (!e)
			image_enter(p, l->found[i]);
	}
	p->sweep.is_wanted = true; /* documents, layers of other platforms, or all of it */
	if (l->done)
		l->done(images, e ? 0 : l->n_found, e, l->arg);
	load_free(l);
	puller_wake(p);
}

/* ---- what is found ---- */

/* A word alone is a tag, and the name of nothing. */
static int name_of(const char *text, struct buf *b, struct err *e)
{
	struct reference ref;

	if (!strpbrk(text, ":/@"))
		return err_set(e, ERR_INVALID, "the archive does not say what its image is called: give it a name");
	if (reference_parse(str_of(text), &ref, e) < 0)
		return -1;
	return reference_write(&ref, b) ? 0 : err_no_memory(e);
}

static int on_found(struct load_job *l, const struct fetch_message *m, const struct passed *passed, struct err *e)
{
	AUTO(buf_done) struct buf name = BUF_INIT(REFERENCE_TEXT_MAX);
	const struct platform platform = platform_of_host();
	struct store_image from = { .os = platform.os, .arch = platform.arch, .pulled_us = clock_wall_us() };
	struct image *im;

	if (l->n_found == ARRAY_LEN(l->found))
		return err_set(e, ERR_LIMIT, "more than %d images in one archive", LAYOUT_IMAGES_MAX);
	if (name_of(l->name ? l->name : m->name, &name, e) < 0)
		return -1;
	from.name = name.p;
	im = image_received(l->p, &from, m, passed, e);
	if (im && l->is_kept) {
		struct image *kept = image_without_name(im, e);

		image_unref(im);
		im = kept;
	}
	if (!im)
		return -1;
	l->found[l->n_found++] = im;
	return 0;
}

static void on_committed(const struct err *e, void *arg)
{
	load_end(arg, e);
}

static int commit(struct load_job *l, struct err *e)
{
	struct store_tx *tx = store_tx_new();

	conversation_end(&l->talk);
	store_tx_durable(tx);
	for (size_t i = 0; i < l->n_found; i++)
		image_write_entry(l->p, l->found[i], tx);
	l->is_committing = true;
	if (store_submit(l->p->store, tx, on_committed, l, e) < 0)
		return -1;
	KILL_POINT("server.load.commit_queued");
	return 0;
}

static int step(struct load_job *l, struct err *e)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct fetch_message m;
	int r = conversation_receive(&l->talk, &m, &passed, e);

	if (r <= 0)
		return r;
	switch ((enum fetch_message_kind)m.kind) {
	case FETCH_FOUND:
		return on_found(l, &m, &passed, e) < 0 ? -1 : 1;
	case FETCH_PROGRESS:
		return 1;
	case FETCH_DONE:
		return commit(l, e);
	case FETCH_FAILED:
	case FETCH_MESSAGES_END:
		break;
	}
	return fetch_error(&m, e);
}

static void on_fetcher(unsigned ready, void *arg)
{
	struct load_job *l = arg;
	struct err e = { 0 };
	int r;

	(void)ready;
	do
		r = step(l, &e);
	while (r > 0);
	if (r < 0)
		load_end(l, &e);
}

static void on_late(void *arg)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_TIMEOUT, "the archive took too long");
	load_end(arg, &e);
}

/* ---- its beginning ---- */

static void write_order(const struct load_job *l, struct buf *b)
{
	const struct platform platform = platform_of_host();
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "kind"), json_cstr(&o, "load");
	json_key(&o, "os"), json_cstr(&o, platform.os);
	json_key(&o, "arch"), json_cstr(&o, platform.arch);
	json_key(&o, "reserve"), json_uint(&o, l->p->spec.reserve);
	if (l->name)
		json_key(&o, "name"), json_cstr(&o, l->name);
	json_close(&o, '}');
}

static void load_begin(struct load_job *l)
{
	AUTO(buf_done) struct buf order = BUF_INIT(4096);
	struct err e = { 0 };

	write_order(l, &order);
	l->is_begun = true;
	if (conversation_begin(&l->talk, l->p, &order, l->archive, on_fetcher, on_late, l, &e) < 0) {
		load_end(l, &e);
		return;
	}
	closep(&l->archive); /* the fetcher has it: when that ends, who writes sees it */
	l->archive = -1;
	timer_in(&l->talk.timer, PULL_LOAD_MS);
}

/* What a load writes is known to nobody before it ends: no sweep runs meanwhile. */
void loads_begin(struct puller *p)
{
	struct load_job *next;

	for (struct load_job *l = p->loads; l && !p->sweep.is_running; l = next) {
		next = l->next;
		if (!l->is_begun)
			load_begin(l);
	}
}

struct load_job *load_start(struct puller *p, const struct load_order *o, int *ret_pipe, load_done_fn *done, void *arg, struct err *e)
{
	struct load_job *l;
	struct reference ref;
	int ends[2];

	if (o->name && reference_parse(str_of(o->name), &ref, e) < 0)
		return NULL;
	l = calloc(1, sizeof(*l));
	if (!l || (o->name && !(l->name = strdup(o->name))) || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		if (l)
			free(l->name);
		free(l);
		(void)err_set(e, ERR_UNAVAILABLE, "no memory or no descriptor for an archive");
		return NULL;
	}
	(void)fcntl(ends[0], F_SETFL, O_RDONLY); /* the fetcher waits for bytes */
	l->p = p;
	l->is_kept = o->is_kept;
	l->talk.fd = -1;
	l->archive = ends[0];
	l->done = done;
	l->arg = arg;
	l->next = p->loads;
	if (l->next)
		l->next->prev = l;
	p->loads = l;
	*ret_pipe = ends[1];
	puller_wake(p);
	return l;
}

void load_cancel(struct load_job *l)
{
	struct puller *p = l->p;

	l->done = NULL;
	if (l->is_committing)
		return;
	load_unlink(l);
	load_free(l);
	p->sweep.is_wanted = true;
	puller_wake(p);
}
