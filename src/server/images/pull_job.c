// SPDX-License-Identifier: Apache-2.0
/* Conversations with fetchers. What one says is checked like a client's word: it speaks to strangers. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "server/images/pull_impl.h"
#include "sys/memfd.h"
#include "sys/passing.h"

#include "base/banned.h"

#define SPARE_MS 30000U  /* beyond the time that a fetcher takes for itself */
#define SWEEP_MS 120000U

/* ---- the line ---- */

void conversation_end(struct conversation *t)
{
	io_del(&t->io);
	timer_done(&t->timer);
	closep(&t->fd);
	t->fd = -1;
}

/* The order is wiped: it may have held credentials. */
static int send_order(int fd, struct buf *order, int archive, struct err *e)
{
	struct fetch_request rq = { .version = FETCH_VERSION, .kind = FETCH_ORDER };
	AUTO_FD memfd = order->failed ? -1 : memfd_sealed_bytes("order", buf_str(order), e);
	int r, fds[] = { memfd, archive };

	if (order->p)
		secret_wipe(order->p, order->n);
	if (order->failed)
		return err_set(e, ERR_LIMIT, "too much for one order");
	if (memfd < 0)
		return -1;
	r = passing_send(fd, &rq, sizeof(rq), fds, archive < 0 ? 1 : 2, e);
	return r == 0 ? err_set(e, ERR_UNAVAILABLE, "the fetcher takes no order") : r < 0 ? -1 : 0;
}

int conversation_begin(struct conversation *t, const struct puller *p, struct buf *order, int archive, io_fn *fn, timer_fn *late,
		       void *arg, struct err *e)
{
	t->fd = passing_connect(p->socket, e);
	if (t->fd < 0 || send_order(t->fd, order, archive, e) < 0)
		return -1;
	if (io_add(&t->io, p->spec.loop, t->fd, IO_IN, fn, arg, "fetcher", e) < 0)
		return -1;
	return timer_init(&t->timer, p->spec.loop, late, arg, "fetcher", e);
}

/* 1 and a message, 0: none yet, -1: E. */
int conversation_receive(const struct conversation *t, struct fetch_message *m, struct passed *passed, struct err *e)
{
	int r = passing_recv(t->fd, m, sizeof(*m), 2, passed, e);

	if (r == PASSING_NONE)
		return 0;
	if (r == PASSING_END)
		return err_set(e, ERR_UNAVAILABLE, "the program that fetches images has ended; try again");
	if (r < 0)
		return -1;
	if (passed->n != sizeof(*m) || m->version != FETCH_VERSION || m->kind == 0 || m->kind >= FETCH_MESSAGES_END ||
	    m->phase >= FETCH_PHASES_END)
		return err_set(e, ERR_INTERNAL, "a fetcher of another version");
	m->name[sizeof(m->name) - 1] = m->err.msg[sizeof(m->err.msg) - 1] = '\0';
	return 1;
}

/* ---- orders ---- */

static void write_registries(const struct config_images *c, struct json_out *o)
{
	const struct config_registry *r = c->registries.items;

	json_key(o, "registries"), json_open(o, '[');
	for (size_t i = 0; i < c->registries.n; i++) {
		const struct {
			const char *key, *value;
		} texts[] = { { "host", r[i].host }, { "mirror", r[i].mirror }, { "authHost", r[i].auth_host }, { "caFile", r[i].ca_file } };

		json_open(o, '{');
		for (size_t k = 0; k < ARRAY_LEN(texts); k++)
			if (texts[k].value && texts[k].value[0])
				json_key(o, texts[k].key), json_cstr(o, texts[k].value);
		json_key(o, "insecure"), json_bool(o, r[i].insecure);
		json_key(o, "private"), json_bool(o, r[i].is_private);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static void write_job(const struct pull_job *j, struct buf *b)
{
	const struct config_images *c = j->p->spec.config;
	struct json_out o = json_out(b);
	const struct digest *by = j->is_check ? &j->checked : j->ref.has_digest ? &j->ref.digest : NULL;
	char digest[DIGEST_TEXT_MAX + 1];

	if (by)
		digest_write(by, digest);
	json_open(&o, '{');
	json_key(&o, "kind"), json_cstr(&o, j->is_check ? "check" : "pull");
	json_key(&o, "registry"), json_cstr(&o, j->ref.registry);
	json_key(&o, "repository"), json_cstr(&o, j->ref.repository);
	json_key(&o, "tag"), json_cstr(&o, by ? digest : j->ref.tag);
	json_key(&o, "os"), json_cstr(&o, j->os);
	json_key(&o, "arch"), json_cstr(&o, j->arch);
	json_key(&o, "seconds"), json_int(&o, c->pull_seconds);
	json_key(&o, "stallSeconds"), json_int(&o, c->stall_seconds);
	json_key(&o, "reserve"), json_uint(&o, j->p->spec.reserve);
	if (j->username) {
		json_key(&o, "username"), json_cstr(&o, j->username);
		json_key(&o, "password"), json_cstr(&o, j->password);
	}
	if (c->proxy && c->proxy[0]) {
		json_key(&o, "proxy"), json_cstr(&o, c->proxy);
		json_key(&o, "noProxy"), json_open(&o, '[');
		for (size_t i = 0; i < c->no_proxy.n; i++)
			json_cstr(&o, c->no_proxy.items[i]);
		json_close(&o, ']');
	}
	write_registries(c, &o);
	json_close(&o, '}');
}

/* ---- what is found ---- */

static int read_memfd(int fd, struct buf *b, struct err *e)
{
	struct stat st;
	char *to;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "look at what was found");
	if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > MANIFEST_BYTES_MAX)
		return err_set(e, ERR_INTERNAL, "a document of another size than documents have");
	to = buf_reserve(b, (size_t)st.st_size + 1);
	if (!to)
		return err_no_memory(e);
	if (pread(fd, to, (size_t)st.st_size, 0) != st.st_size)
		return err_set(e, ERR_INTERNAL, "a document that cannot be read");
	buf_commit(b, (size_t)st.st_size);
	return 0;
}

static int check_room(const struct puller *p, const struct image *im, struct err *e)
{
	if (p->images.n >= PULL_IMAGES_MAX || p->images.bytes + im->bytes > PULL_CATALOGUE_MAX)
		return err_set(e, ERR_LIMIT, "there are too many images; the operator can remove some");
	return 0;
}

/* While a sweep runs, what a fetcher finds in the folder may go the next moment: it has to wait for the answer. */
static int want(struct pull_job *j, struct err *e)
{
	struct fetch_request rq = { .version = FETCH_VERSION, .kind = FETCH_WANT };
	int r;

	j->is_want_due = j->p->sweep.is_running;
	if (j->is_want_due)
		return 0;
	for (size_t i = 0; i < j->found->pub.n_layers; i++)
		if (j->with_blobs || !layer_is_given(j->p, j->found->pub.layers[i].name))
			rq.layers[i / 64] |= UINT64_C(1) << (i % 64);
	r = passing_send(j->talk.fd, &rq, sizeof(rq), NULL, 0, e);
	return r == 0 ? err_set(e, ERR_UNAVAILABLE, "the fetcher takes no answer") : r < 0 ? -1 : 0;
}

struct image *image_received(const struct puller *p, struct store_image *from, const struct fetch_message *m,
			     const struct passed *passed, struct err *e)
{
	AUTO(buf_done) struct buf manifest = BUF_INIT(MANIFEST_BYTES_MAX + 1);
	AUTO(buf_done) struct buf config = BUF_INIT(MANIFEST_BYTES_MAX + 1);
	AUTO(image_unref) struct image *im = NULL;

	if (passed->n_fds != 2) {
		(void)err_set(e, ERR_INTERNAL, "a fetcher found something without its documents");
		return NULL;
	}
	if (read_memfd(passed->fds[0], &manifest, e) < 0 || read_memfd(passed->fds[1], &config, e) < 0)
		return NULL;
	from->digest = m->digest;
	from->manifest = buf_str(&manifest);
	from->config = buf_str(&config);
	im = image_new(from, e);
	return im && check_room(p, im, e) == 0 ? take_ptr(&im) : NULL;
}

static int on_found(struct pull_job *j, const struct fetch_message *m, const struct passed *passed, struct err *e)
{
	const struct image *old = image_list_find(&j->p->images, j->name, j->os, j->arch);
	struct store_image from = { .name = j->name, .os = j->os, .arch = j->arch, .is_private = j->username != NULL,
				    .is_kept = j->is_kept && (!old || old->pub.is_kept), .pulled_us = clock_wall_us() };
	struct image *im;

	if (j->is_check)
		return err_set(e, ERR_INTERNAL, "a fetcher found what nobody asked for");
	im = image_received(j->p, &from, m, passed, e);
	if (!im)
		return -1;
	KILL_POINT("server.pull.found");
	image_unref(j->found);
	j->found = im;
	return want(j, e);
}

/* ---- how it goes on ---- */

static void on_progress(struct pull_job *j, const struct fetch_message *m)
{
	static const char *const phases[] = {
		[FETCH_RESOLVING] = "resolving", [FETCH_DOWNLOADING] = "downloading", [FETCH_READING] = "reading",
	};

	j->progress = (struct pull_progress){ .bytes = m->bytes, .total = m->total, .layers = m->layers,
					      .layers_done = m->layers_done, .phase = phases[m->phase] };
	job_told(j);
}

static void on_committed(const struct err *e, void *arg)
{
	KILL_POINT("server.pull.committed");
	job_end(arg, e);
}

static int commit(struct pull_job *j, struct err *e)
{
	struct store_tx *tx = store_tx_new();

	store_tx_durable(tx);
	image_write_entry(j->p, j->found, tx);
	j->state = JOB_COMMITTING;
	if (store_submit(j->p->store, tx, on_committed, j, e) < 0)
		return -1;
	KILL_POINT("server.pull.commit_queued");
	return 0;
}

static int on_done(struct pull_job *j, struct err *e)
{
	conversation_end(&j->talk);
	if (!j->is_check && (!j->found || j->is_want_due))
		return err_set(e, ERR_INTERNAL, "a fetcher is done without an image");
	if (!j->is_check)
		return commit(j, e);
	job_end(j, NULL);
	return 0;
}

int fetch_error(const struct fetch_message *m, struct err *e)
{
	*e = m->err;
	if (e->code == ERR_NONE || e->code > ERR_INTERNAL)
		e->code = ERR_INTERNAL;
	return -1;
}

/* 1: there may be more to read. 0: not now, or J is gone. -1: E. */
static int step(struct pull_job *j, struct err *e)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct fetch_message m;
	int r = conversation_receive(&j->talk, &m, &passed, e);

	if (r <= 0)
		return r;
	switch ((enum fetch_message_kind)m.kind) {
	case FETCH_FOUND:
		return on_found(j, &m, &passed, e) < 0 ? -1 : 1;
	case FETCH_PROGRESS:
		on_progress(j, &m);
		return 0; /* who hears of it may have cancelled */
	case FETCH_DONE:
		return on_done(j, e);
	case FETCH_FAILED:
	case FETCH_MESSAGES_END:
		break;
	}
	return fetch_error(&m, e);
}

static void on_fetcher(unsigned ready, void *arg)
{
	struct pull_job *j = arg;
	struct err e = { 0 };
	int r;

	(void)ready;
	do
		r = step(j, &e);
	while (r > 0);
	if (r < 0)
		job_end(j, &e);
}

static void on_late(void *arg)
{
	struct pull_job *j = arg;
	struct err e = j->outcome;

	if (e.code == ERR_NONE)
		(void)err_set(&e, ERR_TIMEOUT, "the image took too long to arrive");
	job_end(j, &e);
}

int job_begin(struct pull_job *j, struct err *e)
{
	AUTO(buf_done) struct buf order = BUF_INIT(FETCH_ORDER_MAX);

	write_job(j, &order);
	if (conversation_begin(&j->talk, j->p, &order, -1, on_fetcher, on_late, j, e) < 0)
		return -1;
	timer_in(&j->talk.timer, (uint64_t)j->p->spec.config->pull_seconds * 1000 + SPARE_MS);
	j->state = JOB_ASKING;
	KILL_POINT("server.pull.asked");
	return 0;
}

/* ---- sweeping ---- */

static void sweep_end(struct puller *p, const struct err *e)
{
	if (e)
		log_warn("the folder of blobs could not be swept, ignoring", LOG_ERR(e));
	conversation_end(&p->sweep.talk);
	p->sweep.is_running = false;
	for (struct pull_job *j = p->jobs; j; j = j->next)
		if (j->is_want_due && want(j, &j->outcome) < 0)
			timer_in(&j->talk.timer, 0); /* it ends as one that is late */
	puller_wake(p);
}

static void on_swept(unsigned ready, void *arg)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct puller *p = arg;
	struct fetch_message m;
	struct err e = { 0 };
	int r = conversation_receive(&p->sweep.talk, &m, &passed, &e);

	(void)ready;
	if (r > 0 && m.kind == FETCH_DONE)
		sweep_end(p, NULL);
	else if (r > 0 && m.kind == FETCH_FAILED)
		sweep_end(p, &m.err);
	else if (r < 0)
		sweep_end(p, &e);
}

static void on_sweep_late(void *arg)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_TIMEOUT, "the fetcher did not answer");
	sweep_end(arg, &e);
}

int sweep_begin(struct puller *p, struct err *e)
{
	AUTO(buf_done) struct buf order = BUF_INIT(FETCH_ORDER_MAX);
	struct json_out o = json_out(&order);

	json_open(&o, '{');
	json_key(&o, "kind"), json_cstr(&o, "sweep");
	json_key(&o, "withNew"), json_bool(&o, p->n_active == 0);
	json_key(&o, "keep");
	puller_keep_names(p, &o);
	json_close(&o, '}');
	if (conversation_begin(&p->sweep.talk, p, &order, -1, on_swept, on_sweep_late, p, e) < 0) {
		conversation_end(&p->sweep.talk);
		return -1;
	}
	timer_in(&p->sweep.talk.timer, SWEEP_MS);
	p->sweep.is_running = true;
	return 0;
}
