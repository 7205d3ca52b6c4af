// SPDX-License-Identifier: Apache-2.0
#include "server/model/volumes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "server/runtime/runtime.h"
#include "server/runtime/volume_path.h"
#include "server/store/store.h"

#include "base/banned.h"

#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 30000

struct volume_waiter {
	struct volume_waiter *next;
	volume_fn *fn;
	void *arg;
};

struct volumes {
	struct volumes_spec spec;
	struct map by_id;   /* all of them */
	struct map by_name; /* without those that are being removed */
	struct timer look;  /* for those without a record, once more */
	unsigned look_ms;
};

/* ---- one of them ---- */

static void on_retry(void *arg);

static void tell(struct volume *v, const struct fault *f)
{
	struct volume_waiter *w;

	while ((w = v->waiters)) {
		v->waiters = w->next;
		v->n_waiters--;
		w->fn(f, w->arg);
		free(w);
	}
}

static void give_up_name(struct volume *v)
{
	if (map_get(&v->set->by_name, str_of(v->name)) == v)
		(void)map_del(&v->set->by_name, str_of(v->name));
}

static void volume_free(struct volume *v)
{
	give_up_name(v);
	(void)map_del(&v->set->by_id, str_of(v->id));
	timer_done(&v->retry);
	free(v);
}

static int add_to_set(struct volume *v, struct err *e)
{
	struct volumes *s = v->set;

	if (map_get(&s->by_id, str_of(v->id)) || (v->row.state != VOLUME_REMOVING && map_get(&s->by_name, str_of(v->name))))
		return err_set(e, ERR_INVALID, "volume '%s' is there twice", v->name);
	if (!map_put(&s->by_id, str_of(v->id), v))
		return err_no_memory(e);
	if (v->row.state == VOLUME_REMOVING || map_put(&s->by_name, str_of(v->name), v))
		return 0;
	(void)map_del(&s->by_id, str_of(v->id));
	return err_no_memory(e);
}

static struct volume *volume_new(struct volumes *s, const struct volume_row *row, struct err *e)
{
	struct volume *v = calloc(1, sizeof(*v));

	if (!v) {
		(void)err_no_memory(e);
		return NULL;
	}
	v->set = s;
	v->row = *row;
	v->retry_ms = RETRY_MIN_MS;
	(void)snprintf(v->name, sizeof(v->name), "%s", row->name);
	(void)snprintf(v->id, sizeof(v->id), "%s", row->id);
	v->row.name = v->name;
	v->row.id = v->id;
	if (timer_init(&v->retry, s->spec.loop, on_retry, v, "volume", e) == 0 && add_to_set(v, e) == 0)
		return v;
	timer_done(&v->retry);
	free(v);
	return NULL;
}

/* From here on nobody gets it any more. */
static void mark(struct volume *v)
{
	v->row.state = VOLUME_REMOVING;
	give_up_name(v);
}

/* ---- removing: mark, let the runtime remove it, forget ---- */

static void remove_failed(struct volume *v, const struct fault *f)
{
	v->is_busy = false;
	timer_in(&v->retry, v->retry_ms);
	v->retry_ms = MIN(v->retry_ms * 2, (unsigned)RETRY_MAX_MS);
	tell(v, f);
}

static void store_failed(struct volume *v, const struct err *e)
{
	struct fault f;

	(void)fault_of_store(&f, e);
	remove_failed(v, &f);
}

static void on_forgotten(const struct err *e, void *arg)
{
	struct volume *v = arg;

	if (e) {
		store_failed(v, e);
		return;
	}
	KILL_POINT("server.volume.forgotten");
	log_info("volume removed", LOG_S("name", v->name));
	tell(v, NULL);
	volume_free(v);
}

static void on_removed(const struct runtime_failure *failure, void *arg)
{
	struct volume *v = arg;
	struct store_tx *tx;
	struct fault f;
	struct err e = { 0 };

	KILL_POINT("server.volume.gone");
	if (failure) {
		log_error("a volume could not be removed, trying again", LOG_S("name", v->name), LOG_MS("in", v->retry_ms),
			  LOG_ERR(&failure->err));
		(void)fault_of_runtime(&f, v->set->spec.runtime, failure);
		remove_failed(v, &f);
		return;
	}
	tx = store_tx_new();
	store_tx_forget_volume(tx, v->id);
	store_tx_durable(tx);
	if (store_submit(v->set->spec.store, tx, on_forgotten, v, &e) < 0)
		store_failed(v, &e);
}

static void on_marked(const struct err *e, void *arg)
{
	struct volume *v = arg;
	struct runtime *rt = v->set->spec.runtime;

	if (e) {
		store_failed(v, e);
		return;
	}
	KILL_POINT("server.volume.marked");
	rt->ops->volume_remove(rt, v->id, on_removed, v);
}

static void remove_begin(struct volume *v)
{
	struct store_tx *tx;
	struct err e = { 0 };

	if (v->is_busy)
		return;
	v->is_busy = true;
	timer_cancel(&v->retry);
	mark(v);
	tx = store_tx_new();
	store_tx_volume(tx, &v->row);
	store_tx_durable(tx);
	if (store_submit(v->set->spec.store, tx, on_marked, v, &e) < 0)
		store_failed(v, &e);
}

static void on_retry(void *arg)
{
	remove_begin(arg);
}

int volume_delete(struct volume *v, volume_fn *fn, void *arg, struct fault *f)
{
	struct volume_waiter *w;

	if (v->users > 0)
		return fault_set(f, 409, "VOLUME", "IN_USE", "volume '%s' is used by %u sandbox%s", v->name, v->users,
				 v->users == 1 ? "" : "es");
	if (v->n_waiters >= VOLUME_WAITERS_MAX)
		return fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many requests wait for this volume");
	w = malloc(sizeof(*w));
	if (!w)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	*w = (struct volume_waiter){ v->waiters, fn, arg };
	v->waiters = w;
	v->n_waiters++;
	mark(v);
	timer_in(&v->retry, 0); /* from the loop, where it may tell of a failure */
	return 0;
}

/* ---- the set ---- */

static void look(void *arg);

struct volumes *volumes_new(const struct volumes_spec *spec, struct err *e)
{
	struct volumes *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->spec = *spec;
	s->look_ms = RETRY_MIN_MS;
	if (timer_init(&s->look, spec->loop, look, s, "volumes without a record", e) == 0)
		return s;
	free(s);
	return NULL;
}

void volumes_free(struct volumes *s)
{
	struct fault f;
	struct volume *v;

	if (!s)
		return;
	(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "the server is stopping");
	for (size_t i = 0; (v = volumes_next(s, &i)); i = 0) {
		tell(v, &f);
		volume_free(v);
	}
	map_done(&s->by_id);
	map_done(&s->by_name);
	timer_done(&s->look);
	free(s);
}

int volumes_load(struct volumes *s, const struct volume_row *row, struct err *e)
{
	return volume_new(s, row, e) ? 0 : -1;
}

/* Only a database that was lost leaves one without a record. Nobody knows what it was called, but it may be all that is left of
 * somebody's files: it gets a name that shows, and is like any other from then on. */
static int adopt(struct volumes *s, const char *id, struct err *e)
{
	char name[VOLUME_NAME_MAX + 1];
	struct volume_row row = { .id = id, .name = name, .state = VOLUME_READY,
				  .created_us = s->spec.wall_us ? s->spec.wall_us(s->spec.wall_arg) : clock_wall_us() };
	struct store_tx *tx;
	struct volume *v;

	if (snprintf(name, sizeof(name), VOLUME_LOST "%s", id) >= (int)sizeof(name) || !volume_name_valid(str_of(name), VOLUME_NAME_MAX))
		return err_set(e, ERR_INVALID, "a volume whose id cannot be part of a name");
	v = volume_new(s, &row, e);
	if (!v)
		return -1;
	log_warn("a volume without a record was found", LOG_S("id", id), LOG_S("name", name));
	tx = store_tx_new();
	store_tx_volume(tx, &v->row);
	store_tx_durable(tx);
	return store_submit(s->spec.store, tx, NULL, NULL, e); /* should it be lost, the next start finds it again */
}

static void look_again(struct volumes *s)
{
	timer_in(&s->look, s->look_ms);
	s->look_ms = MIN(s->look_ms * 2, (unsigned)RETRY_MAX_MS);
}

static void on_listed(const char *const *ids, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct volumes *s = arg;
	bool is_whole = true;

	if (failure) {
		log_warn("volumes without a record cannot be looked for, trying again", LOG_MS("in", s->look_ms), LOG_ERR(&failure->err));
		look_again(s);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct err e = { 0 };

		if (map_get(&s->by_id, str_of(ids[i])))
			continue;
		if (s->by_id.n >= VOLUMES_MAX)
			(void)err_set(&e, ERR_LIMIT, "this server has %d volumes already", VOLUMES_MAX);
		if (e.code == ERR_NONE && adopt(s, ids[i], &e) == 0)
			continue;
		log_warn("a volume without a record stays so", LOG_S("id", ids[i]), LOG_ERR(&e));
		is_whole &= e.code == ERR_INVALID || e.code == ERR_LIMIT;
	}
	if (!is_whole)
		look_again(s);
}

static void look(void *arg)
{
	struct volumes *s = arg;
	struct runtime *rt = s->spec.runtime;

	if (rt->ops->volumes)
		rt->ops->volumes(rt, on_listed, s);
}

void volumes_recover(struct volumes *s)
{
	struct volume *v;

	look(s);
	/* One that no create was acknowledged for, and that nobody has, is nobody's. */
	for (size_t i = 0; (v = volumes_next(s, &i));)
		if (v->users == 0 && v->row.state != VOLUME_READY)
			timer_in(&v->retry, 0);
}

struct volume *volumes_find(const struct volumes *s, struct str name)
{
	return map_get(&s->by_name, name);
}

struct volume *volumes_find_going(const struct volumes *s, struct str name)
{
	struct volume *v;

	for (size_t i = 0; (v = volumes_next(s, &i));)
		if (v->row.state == VOLUME_REMOVING && str_is(name, v->name))
			return v;
	return NULL;
}

size_t volumes_count(const struct volumes *s)
{
	return s->by_id.n;
}

struct volume *volumes_next(const struct volumes *s, size_t *i)
{
	struct str name;

	return map_next(&s->by_id, i, &name);
}

/* ---- what sandboxes do ---- */

static struct volume *volume_of(const struct volumes *s, const struct row_volume *r)
{
	return r->kind == ROW_VOLUME_NAMED ? map_get(&s->by_id, str_of(r->id)) : NULL;
}

/* The same, once for each that a sandbox has: it may have one in several places. */
static struct volume *counted(const struct volumes *s, const struct row_volume *row, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (row[k].kind == row[i].kind && strcmp(row[k].id, row[i].id) == 0)
			return NULL;
	return volume_of(s, &row[i]);
}

int volumes_check(const struct volumes *s, const char *name, bool is_to_be_made, struct fault *f)
{
	const struct volume *v = volumes_find(s, str_of(name));

	if (!v && !is_to_be_made)
		return fault_set(f, 400, "VOLUME", "PVC_NOT_FOUND", "there is no volume '%s'", name);
	if (!v && s->by_id.n >= VOLUMES_MAX)
		return fault_set(f, 429, "VOLUME", "LIMIT_REACHED", "this server has %d volumes already", VOLUMES_MAX);
	return 0;
}

static struct volume *begin(struct volumes *s, const char *name, uint64_t size)
{
	char id[UUID_LEN + 1];
	struct volume_row row = { .name = name, .id = id, .size_bytes = size, .state = VOLUME_MAKING,
				  .created_us = s->spec.wall_us(s->spec.wall_arg) };
	struct err e;

	return uuid_text(s->spec.random, id, &e) < 0 ? NULL : volume_new(s, &row, &e);
}

/* What was begun here and never recorded. */
static void unclaim(struct volumes *s, const struct row_volume *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct volume *v = counted(s, row, i);

		if (v && --v->users == 0 && row[i].is_made)
			volume_free(v);
	}
}

int volumes_claim(struct volumes *s, struct row_volume *row, size_t n, const uint64_t *sizes, struct fault *f)
{
	for (size_t i = 0; i < n; i++) {
		struct volume *v;

		if (row[i].kind != ROW_VOLUME_NAMED)
			continue;
		v = volumes_find(s, str_of(row[i].source));
		if (volumes_check(s, row[i].source, true, f) < 0) {
			unclaim(s, row, i);
			return -1;
		}
		row[i].is_made = !v;
		if (!v)
			v = begin(s, row[i].source, sizes[i]);
		if (!v) {
			unclaim(s, row, i);
			return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
		}
		row[i].id = v->id;
		if (counted(s, row, i))
			v->users++;
	}
	return 0;
}

void volumes_count_user(struct volumes *s, const struct row_volume *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct volume *v = counted(s, row, i);

		if (v)
			v->users++;
		else if (row[i].kind == ROW_VOLUME_NAMED && !volume_of(s, &row[i]))
			log_warn("a sandbox has a volume that nobody knows, ignoring", LOG_S("name", row[i].source));
	}
}

void volumes_record(struct volumes *s, const struct row_volume *row, size_t n, bool is_ready, struct store_tx *tx)
{
	for (size_t i = 0; i < n; i++) {
		const struct volume *v = volume_of(s, &row[i]);
		struct volume_row record;

		if (!v || v->row.state != VOLUME_MAKING)
			continue;
		record = v->row;
		record.state = is_ready ? VOLUME_READY : VOLUME_MAKING;
		store_tx_volume(tx, &record);
		store_tx_durable(tx);
	}
}

void volumes_ready(struct volumes *s, const struct row_volume *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct volume *v = volume_of(s, &row[i]);

		if (v && v->row.state == VOLUME_MAKING)
			v->row.state = VOLUME_READY;
	}
}

const struct volume *volumes_unmade(const struct volumes *s, const struct row_volume *row, size_t n, size_t *i)
{
	for (; *i < n; ++*i) {
		const struct volume *v = volume_of(s, &row[*i]);

		if (v && v->row.state == VOLUME_MAKING)
			return v;
	}
	return NULL;
}

/* Whether it goes when R's sandbox, which is one of its users, has gone. */
static bool is_to_go(const struct volume *v, const struct row_volume *r)
{
	switch (v->row.state) {
	case VOLUME_MAKING: return v->users == 1; /* others may still be making it */
	case VOLUME_READY: return r->is_made && r->is_deleted_with;
	case VOLUME_DOOMED:
	case VOLUME_REMOVING: return true;
	case VOLUME_STATES: break;
	}
	return false;
}

void volumes_release(struct volumes *s, const struct row_volume *row, size_t n, struct store_tx *tx)
{
	for (size_t i = 0; i < n; i++) {
		struct volume *v = counted(s, row, i);

		if (!v || !is_to_go(v, &row[i]))
			continue;
		if (v->users > 1)
			v->row.state = VOLUME_DOOMED;
		else
			mark(v);
		if (tx) {
			store_tx_volume(tx, &v->row);
			store_tx_durable(tx);
		}
	}
}

void volumes_released(struct volumes *s, const struct row_volume *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct volume *v = counted(s, row, i);

		if (!v)
			continue;
		if (v->users > 0)
			v->users--;
		if (v->users == 0 && v->row.state != VOLUME_READY)
			timer_in(&v->retry, 0);
	}
}

/* ---- folders of the host ---- */

/* What is beneath the listed folder is no longer than runtimes take. */
static const char *find_on_host(const struct row_volume *v, const struct string_list *listed, struct arena *a)
{
	const char *path = volume_path_clean(v->source, a), *rest;

	if (!path || !listed || volume_path_find(listed, path, a, &rest) < 0 ||
	    strlen(rest) + strlen(v->sub_path) + (rest[0] && v->sub_path[0]) > VOLUME_PATH_MAX)
		return NULL;
	return arena_printf(a, "%s%s%s", path, v->sub_path[0] ? "/" : "", v->sub_path);
}

void volume_find_place(struct row_volume *v, const struct string_list *listed, struct arena *a)
{
	v->path = v->kind == ROW_VOLUME_NAMED ? v->sub_path : find_on_host(v, listed, a);
	v->is_nowhere = !v->path;
	if (v->is_nowhere)
		v->path = "";
}
