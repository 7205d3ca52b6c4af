// SPDX-License-Identifier: Apache-2.0
#include "server/images/pull.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/hex.h"
#include "base/json_out.h"
#include "base/log.h"
#include "server/images/pull_impl.h"
#include "sys/room.h"

#include "base/banned.h"

#define BLOB_NAME_SIZE (sizeof(FETCH_BLOB_PREFIX) + SHA256_HEX_LEN)

static void schedule(void *arg);

void puller_wake(struct puller *p)
{
	defer(&p->schedule, p->spec.loop, schedule, p, "images");
}

/* ---- layers ---- */

static struct str name_key(const unsigned char name[DIGEST_NAME_SIZE])
{
	return (struct str){ (const char *)name, DIGEST_NAME_SIZE };
}

bool layer_is_given(const struct puller *p, const unsigned char name[DIGEST_NAME_SIZE])
{
	return map_get(&p->given, name_key(name)) != NULL;
}

int layer_give(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE], struct err *e)
{
	unsigned char *own;

	if (layer_is_given(p, name))
		return 0;
	own = malloc(DIGEST_NAME_SIZE);
	if (!own)
		return err_no_memory(e);
	memcpy(own, name, DIGEST_NAME_SIZE);
	if (map_put(&p->given, name_key(own), own))
		return 0;
	free(own);
	return err_no_memory(e);
}

/* What is noted here and lost is found out again: a blob is swept later, a layer asked for once more. */
static void note_layer(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE], bool is_given)
{
	struct store_tx *tx = store_tx_new();
	struct err e = { 0 };

	store_tx_layer(tx, name, is_given);
	if (store_submit(p->store, tx, NULL, NULL, &e) < 0)
		log_warn("cannot write down a layer, ignoring", LOG_ERR(&e));
}

static void blob_file(const unsigned char name[DIGEST_NAME_SIZE], char out[BLOB_NAME_SIZE])
{
	memcpy(out, FETCH_BLOB_PREFIX, sizeof(FETCH_BLOB_PREFIX) - 1);
	hex_encode(out + sizeof(FETCH_BLOB_PREFIX) - 1, name, DIGEST_NAME_SIZE);
}

static bool has_blob(const struct puller *p, const struct pulled_layer *layer)
{
	char name[BLOB_NAME_SIZE];
	struct stat st;

	blob_file(layer->name, name);
	return fstatat(p->blobs, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == layer->size;
}

static bool is_complete(const struct puller *p, const struct image *im, bool with_blobs)
{
	for (size_t i = 0; i < im->pub.n_layers; i++) {
		bool is_given = !with_blobs && layer_is_given(p, im->pub.layers[i].name);

		if (!is_given && !has_blob(p, &im->pub.layers[i]))
			return false;
	}
	return true;
}

int pull_open_blob(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE], struct err *e)
{
	char file[BLOB_NAME_SIZE];
	AUTO_FD fd = -1;
	struct stat st;

	blob_file(name, file);
	fd = openat(p->blobs, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open the blob '%s'", file);
	return S_ISREG(st.st_mode) ? take_fd(&fd) : err_set(e, ERR_NOT_FOUND, "the blob '%s' is no file", file);
}

void pull_release_blob(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE])
{
	struct err e = { 0 };

	if (layer_is_given(p, name))
		return;
	if (layer_give(p, name, &e) < 0) {
		log_warn("a blob stays until the next release, ignoring", LOG_ERR(&e));
		return;
	}
	note_layer(p, name, true);
	p->sweep.is_wanted = p->sweep.is_wanted || !p->spec.config->keep_blobs;
	puller_wake(p);
}

void pull_layer_gone(struct puller *p, const unsigned char name[DIGEST_NAME_SIZE])
{
	void *own = map_del(&p->given, name_key(name));

	if (own)
		note_layer(p, name, false);
	free(own);
}

static bool has_layer(const struct image *im, const unsigned char name[DIGEST_NAME_SIZE])
{
	for (size_t i = 0; i < im->pub.n_layers; i++)
		if (memcmp(im->pub.layers[i].name, name, DIGEST_NAME_SIZE) == 0)
			return true;
	return false;
}

bool pull_layer_wanted(const struct puller *p, const unsigned char name[DIGEST_NAME_SIZE])
{
	for (const struct image *im = p->images.first; im; im = im->next)
		if (has_layer(im, name))
			return true;
	for (const struct pull_job *j = p->jobs; j; j = j->next)
		if (j->found && has_layer(j->found, name))
			return true;
	return false;
}

static void keep_layers(const struct puller *p, const struct image *im, bool with_blobs, struct json_out *o)
{
	char hex[SHA256_HEX_LEN + 1];

	for (size_t i = 0; i < im->pub.n_layers; i++) {
		const unsigned char *name = im->pub.layers[i].name;

		if (layer_is_given(p, name) && !with_blobs)
			continue;
		hex_encode(hex, name, DIGEST_NAME_SIZE);
		json_cstr(o, hex);
	}
}

void puller_keep_names(const struct puller *p, struct json_out *o)
{
	json_open(o, '[');
	for (const struct image *im = p->images.first; im; im = im->next)
		keep_layers(p, im, p->spec.config->keep_blobs, o);
	for (const struct pull_job *j = p->jobs; j; j = j->next)
		if (j->found)
			keep_layers(p, j->found, j->with_blobs || p->spec.config->keep_blobs, o);
	json_close(o, ']');
}

/* ---- jobs ---- */

static void wipe_free(char *secret)
{
	if (secret)
		secret_wipe(secret, strlen(secret));
	free(secret);
}

static void job_free(struct pull_job *j)
{
	conversation_end(&j->talk);
	image_unref(j->found);
	wipe_free(j->username);
	wipe_free(j->password);
	free(j->os);
	free(j->arch);
	free(j);
}

static void job_unlink(struct pull_job *j)
{
	struct puller *p = j->p;

	*(j->prev ? &j->prev->next : &p->jobs) = j->next;
	*(j->next ? &j->next->prev : &p->last_job) = j->prev;
	p->n_active -= j->state != JOB_QUEUED;
}

static struct pull *take_waiting(struct pull_job *j)
{
	struct pull *op = j->waiting;

	if (!op)
		return NULL;
	j->waiting = op->next;
	if (op->next)
		op->next->prev = NULL;
	op->puller = NULL;
	op->job = NULL;
	j->p->n_orders--;
	return op;
}

static void deliver(struct pull_job *j, const struct image *im, const struct err *e)
{
	struct pull *op;

	while ((op = take_waiting(j)))
		op->done(im ? &im->pub : NULL, e, op->arg);
}

/* It can be had without credentials, so it is nobody's. */
static void make_public(struct puller *p, struct image *im)
{
	struct store_tx *tx = store_tx_new();
	struct err e = { 0 };

	im->pub.is_private = false;
	image_write(im, tx);
	if (store_submit(p->store, tx, NULL, NULL, &e) < 0)
		log_warn("cannot write down an image, ignoring", LOG_ERR(&e));
}

/* The image of a job that went well. */
static struct image *settle(struct pull_job *j)
{
	struct image *old = image_list_find(&j->p->images, j->name, j->os, j->arch);

	if (j->found) {
		image_enter(j->p, j->found);
		return j->found;
	}
	if (old && j->is_check && !digest_eq(&old->digest, &j->checked))
		return NULL; /* another one took its place meanwhile, which nobody has asked about */
	if (old && j->is_check && !j->username && old->pub.is_private)
		make_public(j->p, old);
	return old;
}

void job_end(struct pull_job *j, const struct err *e)
{
	struct puller *p = j->p;
	bool was_pull = j->state != JOB_QUEUED && !j->is_check;
	struct image *im;
	struct err lost = { 0 };

	j->is_ending = true;
	job_unlink(j);
	im = e ? NULL : settle(j);
	if (im)
		(void)image_ref(im);
	else if (!e)
		(void)err_set(&lost, ERR_UNAVAILABLE, "the image was removed meanwhile");
	if (was_pull)
		p->sweep.is_wanted = true; /* what a failure has left, or what was replaced */
	deliver(j, im, e ? e : im ? NULL : &lost);
	image_unref(im);
	job_free(j);
	puller_wake(p);
}

void job_told(struct pull_job *j)
{
	struct pull *next;

	for (struct pull *op = j->waiting; op; op = next) {
		next = op->next; /* OP may be cancelled, but no other: that is up to its own owner */
		if (op->progress)
			op->progress(&j->progress, op->arg);
	}
}

/* ---- what can begin ---- */

static bool is_same_image(const struct pull_job *a, const struct pull_job *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->os, b->os) == 0 && strcmp(a->arch, b->arch) == 0;
}

/* Another order for the image came first: once that is here, most of this one is done. */
static bool is_behind(const struct pull_job *j)
{
	for (const struct pull_job *i = j->prev; i; i = i->prev)
		if (is_same_image(i, j))
			return true;
	return false;
}

/* False: it ended. */
static bool try_begin(struct pull_job *j)
{
	const struct image *im = image_list_find(&j->p->images, j->name, j->os, j->arch);
	bool is_present = im && !j->refresh && is_complete(j->p, im, j->with_blobs);
	struct err e = { 0 };

	if (is_present && !im->pub.is_private) {
		job_end(j, NULL);
		return false;
	}
	if (j->p->n_active >= PULL_JOBS_AT_ONCE + (is_present ? PULL_CHECKS_MORE : 0))
		return true;
	j->is_check = is_present;
	if (is_present)
		j->checked = im->digest;
	if (job_begin(j, &e) == 0) {
		j->p->n_active++;
		return true;
	}
	job_end(j, &e);
	return false;
}

static void try_sweep(struct puller *p)
{
	struct err e = { 0 };

	if (!p->sweep.is_wanted || p->sweep.is_running || p->loads)
		return;
	p->sweep.is_wanted = false;
	if (sweep_begin(p, &e) < 0)
		log_warn("the folder of blobs could not be swept, ignoring", LOG_ERR(&e));
}

/* A job that ends may change the list in any way: then it is gone through once more. */
static void schedule(void *arg)
{
	struct puller *p = arg;
	struct pull_job *j = p->jobs;

	loads_begin(p);
	try_sweep(p);
	while (j) {
		struct pull_job *next = j->next;

		if (j->state == JOB_QUEUED && !is_behind(j) && !try_begin(j))
			next = p->jobs;
		j = next;
	}
}

/* ---- orders ---- */

static void fail_later(void *arg)
{
	struct pull *op = arg;

	op->puller->n_orders--;
	op->puller = NULL;
	op->done(NULL, &op->failure, op->arg);
}

static void hash_credentials(const struct pull_order *o, unsigned char out[SHA256_SIZE])
{
	struct sha256 s;

	sha256_init(&s);
	if (o->username) {
		sha256_add(&s, o->username, strlen(o->username) + 1);
		sha256_add(&s, o->password, strlen(o->password) + 1);
	}
	sha256_end(&s, out);
}

static int check_order(const struct pull_order *o, struct err *e)
{
	if ((o->username == NULL) != (o->password == NULL))
		return err_set(e, ERR_INVALID, "credentials are a user name and a password");
	if (o->username && (strlen(o->username) > PULL_SECRET_MAX || strlen(o->password) > PULL_SECRET_MAX))
		return err_set(e, ERR_INVALID, "credentials of more than %d bytes", PULL_SECRET_MAX);
	if (o->username && strchr(o->username, ':'))
		return err_set(e, ERR_INVALID, "a user name with ':' in it");
	return 0;
}

static int fill_job(struct pull_job *j, const struct pull_order *o, struct err *e)
{
	AUTO(buf_done) struct buf name = BUF_INIT(REFERENCE_TEXT_MAX);
	const struct platform host = platform_of_host();

	if (check_order(o, e) < 0 || reference_parse(str_of(o->uri), &j->ref, e) < 0)
		return -1;
	if (!reference_write(&j->ref, &name))
		return err_no_memory(e);
	memcpy(j->name, name.p, name.n + 1);
	j->os = strdup(o->os ? o->os : host.os);
	j->arch = strdup(o->arch ? o->arch : host.arch);
	j->username = o->username ? strdup(o->username) : NULL;
	j->password = o->password ? strdup(o->password) : NULL;
	if (!j->os || !j->arch || (o->username && !j->username) || (o->password && !j->password))
		return err_no_memory(e);
	hash_credentials(o, j->credentials);
	j->refresh = o->refresh;
	j->with_blobs = o->with_blobs;
	j->is_kept = o->is_kept;
	j->progress.phase = "waiting";
	return 0;
}

static struct pull_job *job_new(struct puller *p, const struct pull_order *o, struct err *e)
{
	struct pull_job *j = calloc(1, sizeof(*j));

	if (!j) {
		(void)err_no_memory(e);
		return NULL;
	}
	j->p = p;
	j->talk.fd = -1;
	if (fill_job(j, o, e) < 0) {
		job_free(j);
		return NULL;
	}
	return j;
}

/* The same image for the same credentials, as far as it has come. */
static struct pull_job *find_equal(const struct puller *p, const struct pull_job *like)
{
	for (struct pull_job *j = p->jobs; j; j = j->next)
		if (is_same_image(j, like) && memcmp(j->credentials, like->credentials, SHA256_SIZE) == 0 &&
		    (j->refresh || !like->refresh) && j->is_kept == like->is_kept && (j->with_blobs || !like->with_blobs) && j->state != JOB_COMMITTING)
			return j;
	return NULL;
}

static void job_link(struct pull_job *j)
{
	struct puller *p = j->p;

	j->prev = p->last_job;
	*(p->last_job ? &p->last_job->next : &p->jobs) = j;
	p->last_job = j;
}

static struct pull_job *enter(struct puller *p, const struct pull_order *o, struct err *e)
{
	struct pull_job *j = NULL, *equal;

	if (p->n_orders > PULL_ORDERS_MAX)
		(void)err_set(e, ERR_LIMIT, "too many images are being waited for");
	else
		j = job_new(p, o, e);
	equal = j ? find_equal(p, j) : NULL;
	if (equal) {
		job_free(j);
		return equal;
	}
	if (j)
		job_link(j);
	return j;
}

void pull_start(struct puller *p, const struct pull_order *o, struct pull *op, pull_progress_fn *progress, pull_done_fn *done,
		void *arg)
{
	struct pull_job *j;

	*op = (struct pull){ .puller = p, .progress = progress, .done = done, .arg = arg };
	p->n_orders++;
	j = enter(p, o, &op->failure);
	if (!j) {
		defer(&op->later, p->spec.loop, fail_later, op, "image");
		return;
	}
	op->job = j;
	op->next = j->waiting;
	if (op->next)
		op->next->prev = op;
	j->waiting = op;
	puller_wake(p);
}

void pull_cancel(struct pull *op)
{
	struct puller *p = op->puller;
	struct pull_job *j = op->job;

	if (!p)
		return;
	defer_cancel(&op->later);
	op->puller = NULL;
	op->job = NULL;
	p->n_orders--;
	if (!j)
		return;
	*(op->prev ? &op->prev->next : &j->waiting) = op->next;
	if (op->next)
		op->next->prev = op->prev;
	if (j->waiting || j->state == JOB_COMMITTING || j->is_ending)
		return;
	p->sweep.is_wanted = p->sweep.is_wanted || (j->state == JOB_ASKING && !j->is_check);
	job_unlink(j);
	job_free(j);
	puller_wake(p);
}

/* ---- life ---- */

DEFINE_AUTO(DIR *, closedir)

/* Whether a sweep would find anything: most of the time, nothing is left. */
static bool has_leftovers(const struct puller *p)
{
	int fd = openat(p->blobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!d)
		closep(&fd);
	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			return true;
	return false;
}

int puller_attach(struct puller *p, struct store *s, enum store_fault *ret_fault, struct err *e)
{
	p->store = s;
	if (catalogue_load(p, ret_fault, e) < 0)
		return -1;
	p->sweep.is_wanted = has_leftovers(p);
	if (p->sweep.is_wanted)
		puller_wake(p);
	return 0;
}

int puller_check_room(const struct puller *p, struct err *e)
{
	return room_check(p->blobs, p->spec.reserve, 0, e);
}

struct puller *puller_new(const struct puller_spec *spec, struct err *e)
{
	AUTO(puller_free) struct puller *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->spec = *spec;
	p->sweep.talk.fd = -1;
	p->blobs = -1;
	p->socket = strdup(spec->socket);
	if (!p->socket) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->blobs = open(spec->blobs_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->blobs < 0) {
		(void)err_sys(e, errno, "open '%s'", spec->blobs_dir);
		return NULL;
	}
	return take_ptr(&p);
}

static void free_given(struct puller *p)
{
	void *own;

	for (size_t i = 0; (own = map_next(&p->given, &i, &(struct str){ 0 }));)
		free(own);
	map_done(&p->given);
}

void puller_free(struct puller *p)
{
	if (!p)
		return;
	while (p->jobs) {
		struct pull_job *j = p->jobs;

		while (take_waiting(j))
			;
		job_unlink(j);
		job_free(j);
	}
	loads_drop(p);
	while (p->images.first)
		image_list_remove(&p->images, p->images.first);
	conversation_end(&p->sweep.talk);
	defer_cancel(&p->schedule);
	free_given(p);
	closep(&p->blobs);
	free(p->socket);
	free(p);
}
