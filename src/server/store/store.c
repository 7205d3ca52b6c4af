// SPDX-License-Identifier: Apache-2.0
/* The writer: one thread, a queue towards it and one back. */
#include "server/store/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "net/loop.h"
#include "server/store/store_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

struct tx_queue {
	struct store_tx *first, *last;
	size_t n;
};

struct store {
	struct connection connection, copy; /* the writer's, once it runs */
	uint64_t behind;                    /* durable transactions that the database had lost */
	unsigned char secret[STORE_SECRET_SIZE];
	int lock_fd;

	pthread_t thread;
	bool is_started;
	pthread_mutex_t mutex; /* of the four below */
	pthread_cond_t wake;
	struct tx_queue todo, done;
	bool is_stopping;
	int event_fd; /* raised when there is something in `done` */

	struct io io;
};

/* ---- queues ---- */

static void queue_push(struct tx_queue *q, struct store_tx *tx)
{
	tx->next = NULL;
	*(q->last ? &q->last->next : &q->first) = tx;
	q->last = tx;
	q->n++;
}

static struct store_tx *queue_pop(struct tx_queue *q)
{
	struct store_tx *tx = q->first;

	if (!tx)
		return NULL;
	q->first = tx->next;
	if (!q->first)
		q->last = NULL;
	q->n--;
	return tx;
}

static void queue_free(struct tx_queue *q)
{
	struct store_tx *tx;

	while ((tx = queue_pop(q)))
		store_tx_free(tx);
}

/* ---- the thread ---- */

static struct store_tx *next_tx(struct store *s)
{
	struct store_tx *tx;

	(void)pthread_mutex_lock(&s->mutex);
	while (!s->todo.first && !s->is_stopping)
		(void)pthread_cond_wait(&s->wake, &s->mutex);
	tx = queue_pop(&s->todo); /* what was submitted is written, also when stopping */
	(void)pthread_mutex_unlock(&s->mutex);
	return tx;
}

static void *writer(void *arg)
{
	struct store *s = arg;
	struct store_tx *tx;

	while ((tx = next_tx(s))) {
		if (copy_run(&s->connection, &s->copy, tx, &tx->result) == 0)
			tx->result.code = ERR_NONE;
		(void)pthread_mutex_lock(&s->mutex);
		queue_push(&s->done, tx);
		(void)pthread_mutex_unlock(&s->mutex);
		event_raise(s->event_fd);
	}
	return NULL;
}

static void on_done(unsigned ready, void *arg)
{
	struct store *s = arg;
	struct tx_queue done;
	struct store_tx *tx;

	(void)ready;
	(void)event_take(s->event_fd);
	(void)pthread_mutex_lock(&s->mutex);
	done = s->done;
	s->done = (struct tx_queue){ 0 };
	(void)pthread_mutex_unlock(&s->mutex);
	while ((tx = queue_pop(&done))) {
		bool failed = tx->result.code != ERR_NONE;

		if (failed)
			log_error("a write to the database failed", LOG_ERR(&tx->result));
		if (tx->fn)
			tx->fn(failed ? &tx->result : NULL, tx->arg);
		store_tx_free(tx);
	}
}

/* Signals are the loop's: the thread takes none. */
static int start_thread(struct store *s, struct err *e)
{
	sigset_t all, before;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&s->thread, NULL, writer, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0 ? 0 : err_sys(e, rc, "start the thread that writes the database");
}

int store_start(struct store *s, struct loop *l, struct err *e)
{
	s->event_fd = event_open(e);
	if (s->event_fd < 0 || io_add(&s->io, l, s->event_fd, IO_IN, on_done, s, "store", e) < 0)
		return -1;
	if (start_thread(s, e) < 0)
		return -1;
	s->is_started = true;
	return 0;
}

int store_submit(struct store *s, struct store_tx *tx, store_done_fn *fn, void *arg, struct err *e)
{
	bool is_full;

	if (!tx)
		return err_no_memory(e);
	if (tx->failed) {
		store_tx_free(tx);
		return err_set(e, ERR_UNAVAILABLE, "a transaction does not fit into memory");
	}
	tx->fn = fn;
	tx->arg = arg;
	(void)pthread_mutex_lock(&s->mutex);
	is_full = s->todo.n >= STORE_QUEUE_MAX;
	if (!is_full) {
		queue_push(&s->todo, tx);
		(void)pthread_cond_signal(&s->wake);
	}
	(void)pthread_mutex_unlock(&s->mutex);
	if (is_full) {
		store_tx_free(tx);
		return err_set(e, ERR_UNAVAILABLE, "too many transactions wait for the disk");
	}
	return 0;
}

/* ---- life ---- */

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->is_started) {
		(void)pthread_mutex_lock(&s->mutex);
		s->is_stopping = true;
		(void)pthread_cond_signal(&s->wake);
		(void)pthread_mutex_unlock(&s->mutex);
		(void)pthread_join(s->thread, NULL);
	}
	io_del(&s->io);
	closep(&s->event_fd);
	queue_free(&s->todo);
	queue_free(&s->done);
	connection_close(&s->copy);
	connection_close(&s->connection);
	closep(&s->lock_fd); /* last: whoever gets it now finds everything closed */
	(void)pthread_mutex_destroy(&s->mutex);
	(void)pthread_cond_destroy(&s->wake);
	secret_wipe(s->secret, sizeof(s->secret));
	free(s->copy.path);
	free(s->connection.path);
	free(s);
}

static struct store *store_new(const char *dir, struct err *e)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s || asprintf(&s->connection.path, "%s/db.sqlite", dir) < 0 || asprintf(&s->copy.path, "%s/" COPY_NAME, dir) < 0) {
		if (s)
			free(s->connection.path);
		free(s);
		(void)err_no_memory(e);
		return NULL;
	}
	s->lock_fd = -1;
	s->event_fd = -1;
	(void)pthread_mutex_init(&s->mutex, NULL);
	(void)pthread_cond_init(&s->wake, NULL);
	return s;
}

static int open_database(struct connection *c, enum store_fault *ret_fault, struct err *e)
{
	if (state_file_make(c->path, e) < 0)
		return -1;
	if (connection_open(c, e) < 0) {
		*ret_fault = sql_is_damage(c->rc) ? STORE_DAMAGED : STORE_FAILED;
		return err_wrap(e, "'%s'", c->path);
	}
	return schema_prepare(c, &store_schema, ret_fault, e);
}

/* Sandboxes that run know the secret: another one would lock them out. */
static int find_secret(struct secret *secret, struct store *s, const char *dir, enum store_fault *ret_fault, struct err *e)
{
	if (secret_find(secret, dir, &s->connection, &s->copy, e) < 0)
		return -1;
	if (!secret->is_known && !secret->is_fresh) {
		*ret_fault = STORE_DAMAGED;
		return err_set(e, ERR_INVALID, "the file '%s/secret' and its copies are lost or damaged: put it back from a backup", dir);
	}
	return secret->is_known ? 0 : secret_make(secret, e);
}

/* One that was found is used whether or not it could be written everywhere. */
static int mend_secret(const struct secret *secret, struct store *s, struct err *e)
{
	struct err why = { 0 };

	memcpy(s->secret, secret->bytes, sizeof(s->secret));
	if (secret_mend(secret, &s->connection, &s->copy, &why) == 0)
		return 0;
	if (!secret->is_new) {
		log_error("the secret could not be written everywhere", LOG_ERR(&why));
		return 0;
	}
	*e = why;
	return -1;
}

static int settle(struct store *s, const char *dir, enum store_fault *ret_fault, struct err *e)
{
	struct secret secret = { 0 };
	int r = find_secret(&secret, s, dir, ret_fault, e);

	if (r == 0)
		r = copy_settle(&s->connection, &s->copy, &s->behind, e);
	if (r < 0 && sql_is_damage(s->connection.rc))
		*ret_fault = STORE_DAMAGED;
	if (r == 0)
		r = mend_secret(&secret, s, e);
	secret_wipe(&secret, sizeof(secret));
	return r;
}

struct store *store_open(const char *dir, enum store_fault *ret_fault, struct err *e)
{
	AUTO(store_close) struct store *s = NULL;

	*ret_fault = STORE_FAILED;
	s = store_new(dir, e);
	if (!s)
		return NULL;
	s->lock_fd = state_dir_lock(dir, ret_fault, e);
	if (s->lock_fd < 0 || state_dir_check(dir, ret_fault, e) < 0 || open_database(&s->connection, ret_fault, e) < 0 ||
	    copy_open(&s->copy, e) < 0)
		return NULL;
	if (settle(s, dir, ret_fault, e) < 0)
		return NULL;
	return take_ptr(&s);
}

uint64_t store_was_behind(const struct store *s)
{
	return s->behind;
}

int store_load(struct store *s, const struct store_reader *r, void *arg, enum store_fault *ret_fault, struct err *e)
{
	if (connection_load(&s->connection, r, arg, ret_fault, e) < 0)
		return err_wrap(e, "'%s'", s->connection.path);
	return 0;
}

int store_load_snapshots(struct store *s, store_snapshot_fn *fn, void *arg, enum store_fault *ret_fault, struct err *e)
{
	if (connection_load_snapshots(&s->connection, fn, arg, ret_fault, e) < 0)
		return err_wrap(e, "'%s'", s->connection.path);
	return 0;
}

int store_load_images(struct store *s, const struct store_image_reader *r, void *arg, enum store_fault *ret_fault, struct err *e)
{
	if (connection_load_images(&s->connection, r, arg, ret_fault, e) < 0)
		return err_wrap(e, "'%s'", s->connection.path);
	return 0;
}

int store_load_pools(struct store *s, store_pool_fn *fn, void *arg, enum store_fault *ret_fault, struct err *e)
{
	if (connection_load_pools(&s->connection, fn, arg, ret_fault, e) < 0)
		return err_wrap(e, "'%s'", s->connection.path);
	return 0;
}

int store_meta_get(struct store *s, const char *name, char out[STORE_META_MAX], size_t *ret_n, struct err *e)
{
	return connection_meta(&s->connection, name, out, ret_n, e);
}

int store_secret(struct store *s, unsigned char out[STORE_SECRET_SIZE], struct err *e)
{
	(void)e;
	memcpy(out, s->secret, sizeof(s->secret));
	return 0;
}
