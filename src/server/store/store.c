// SPDX-License-Identifier: Apache-2.0
/* The writer: one thread, a queue towards it and one back. */
#include "server/store/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "base/random.h"
#include "net/loop.h"
#include "server/store/store_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

struct tx_queue {
	struct store_tx *first, *last;
	size_t n;
};

struct store {
	char *dir;
	struct connection connection; /* the writer's, once it runs */
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
		if (connection_run(&s->connection, tx, &tx->result) == 0)
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
	connection_close(&s->connection);
	closep(&s->lock_fd); /* last: whoever gets it now finds everything closed */
	(void)pthread_mutex_destroy(&s->mutex);
	(void)pthread_cond_destroy(&s->wake);
	free(s->connection.path);
	free(s->dir);
	free(s);
}

static struct store *store_new(const char *dir, struct err *e)
{
	struct store *s = calloc(1, sizeof(*s));

	if (s)
		s->dir = strdup(dir);
	if (!s || !s->dir || asprintf(&s->connection.path, "%s/db.sqlite", dir) < 0) {
		if (s)
			free(s->dir);
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

struct store *store_open(const char *dir, enum store_fault *ret_fault, struct err *e)
{
	AUTO(store_close) struct store *s = NULL;
	struct connection *c;

	*ret_fault = STORE_FAILED;
	s = store_new(dir, e);
	if (!s)
		return NULL;
	c = &s->connection;
	s->lock_fd = state_dir_lock(dir, ret_fault, e);
	if (s->lock_fd < 0 || state_dir_check(dir, ret_fault, e) < 0 || state_file_make(c->path, e) < 0)
		return NULL;
	if (connection_open(c, e) < 0) {
		*ret_fault = sql_is_damage(c->rc) ? STORE_DAMAGED : STORE_FAILED;
		(void)err_wrap(e, "'%s'", c->path);
		return NULL;
	}
	if (schema_prepare(c, &store_schema, ret_fault, e) < 0)
		return NULL;
	return take_ptr(&s);
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

static int store_meta_put(struct store *s, const char *name, struct str value, struct err *e);

/* The file is the copy: it is written when it is missing, and read when the database has lost its own. */
int store_secret(struct store *s, unsigned char out[STORE_SECRET_SIZE], struct err *e)
{
	char value[STORE_META_MAX];
	struct err why = { 0 };
	unsigned char copy[STORE_SECRET_SIZE];
	bool has_copy = state_secret_read(s->dir, copy, &why) == 0;
	size_t n;

	if (!has_copy && why.code != ERR_NOT_FOUND) {
		*e = why;
		return -1;
	}
	if (store_meta_get(s, "secret", value, &n, e) < 0)
		return -1;
	if (n == STORE_SECRET_SIZE)
		memcpy(out, value, n);
	else if (has_copy)
		memcpy(out, copy, sizeof(copy));
	else if (random_bytes(out, STORE_SECRET_SIZE, e) < 0)
		return -1;
	if ((!has_copy || memcmp(copy, out, sizeof(copy)) != 0) && state_secret_write(s->dir, out, e) < 0)
		return -1;
	secret_wipe(value, sizeof(value));
	secret_wipe(copy, sizeof(copy));
	return n == STORE_SECRET_SIZE ? 0 : store_meta_put(s, "secret", (struct str){ (const char *)out, STORE_SECRET_SIZE }, e);
}

static int store_meta_put(struct store *s, const char *name, struct str value, struct err *e)
{
	AUTO(store_tx_free) struct store_tx *tx = store_tx_new();

	store_tx_meta(tx, name, value);
	if (!tx || tx->failed)
		return err_no_memory(e);
	return connection_run(&s->connection, tx, e);
}
