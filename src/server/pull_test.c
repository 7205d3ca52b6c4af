// SPDX-License-Identifier: Apache-2.0
/* The puller against a fetcher whose every word the test writes. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/log.h"
#include "image/fetch.h"
#include "server/config.h"
#include "server/pull.h"
#include "sys/fd.h"
#include "sys/memfd.h"
#include "sys/passing.h"

#include "base/banned.h"

#define TURNS 2000
#define LAYERS 2

/* ---- the rig ---- */

struct waiter {
	struct pull op;
	unsigned calls, told;
	bool is_there, is_private;
	char digest[DIGEST_TEXT_LEN + 1];
	struct err e;
};

struct rig {
	char dir[64], state[96], blobs[96], socket[96];
	struct loop *loop;
	struct store *store;
	struct puller *p;
	struct config_images config;
	int listener;
	struct err e;
	struct buf order; /* the last one that a fetcher got */
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void rig_open(struct rig *r)
{
	enum store_fault fault;

	r->p = puller_new(&(struct puller_spec){ .loop = r->loop, .config = &r->config, .socket = r->socket, .blobs_dir = r->blobs },
			  &r->e);
	assert_non_null(r->p);
	r->store = store_open(r->state, &fault, &r->e);
	assert_non_null(r->store);
	assert_int_equal(puller_attach(r->p, r->store, &fault, &r->e), 0);
	assert_int_equal(store_start(r->store, r->loop, &r->e), 0);
}

static void rig_close(struct rig *r)
{
	store_close(take_ptr(&r->store));
	puller_free(take_ptr(&r->p));
}

static void rig_start(struct rig *r)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memset(r, 0, sizeof(*r));
	log_set_fd(-1);
	(void)snprintf(r->dir, sizeof(r->dir), "/tmp/pull-test.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	(void)snprintf(r->state, sizeof(r->state), "%s/state", r->dir);
	(void)snprintf(r->blobs, sizeof(r->blobs), "%s/blobs", r->dir);
	(void)snprintf(r->socket, sizeof(r->socket), "%s/fetch.sock", r->dir);
	assert_int_equal(mkdir(r->blobs, 0700), 0);
	r->config = (struct config_images){ .pull_seconds = 1800, .stall_seconds = 60 };
	r->order = BUF_INIT(FETCH_ORDER_MAX);
	r->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", r->socket);
	assert_int_equal(bind(r->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(r->listener, 16), 0);
	r->loop = loop_new(&r->e);
	assert_non_null(r->loop);
	rig_open(r);
}

static void rig_stop(struct rig *r)
{
	rig_close(r);
	loop_free(r->loop);
	(void)close(r->listener);
	buf_done(&r->order);
	(void)nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void turn(struct rig *r)
{
	assert_int_equal(loop_turn(r->loop, 5, &r->e), 0);
}

/* ---- the fetcher's part ---- */

/* The next one, with its order read; -1: nobody asks. */
static int fetcher_try(struct rig *r)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct fetch_request rq;
	int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -1;
	assert_int_equal(passing_recv(fd, &rq, sizeof(rq), 2, &passed, &r->e), PASSING_MESSAGE);
	assert_int_equal(rq.kind, FETCH_ORDER);
	buf_clear(&r->order);
	assert_int_equal(fd_read_all(passed.fds[0], FETCH_ORDER_MAX, &r->order, &r->e), 0);
	return fd;
}

static int fetcher_next(struct rig *r, const char *kind)
{
	char want[32];
	int fd = -1;

	for (int i = 0; i < TURNS && fd < 0; i++) {
		turn(r);
		fd = fetcher_try(r);
	}
	assert_true(fd >= 0);
	(void)snprintf(want, sizeof(want), "\"kind\":\"%s\"", kind);
	if (!strstr(buf_z(&r->order), want))
		fail_msg("%s", buf_z(&r->order));
	return fd;
}

static void nobody_asks(struct rig *r)
{
	for (int i = 0; i < 20; i++) {
		turn(r);
		if (fetcher_try(r) >= 0)
			fail_msg("%s", buf_z(&r->order));
	}
}

static void say(struct rig *r, int fd, struct fetch_message *m, const int *fds, size_t n)
{
	m->version = FETCH_VERSION;
	assert_int_equal(passing_send(fd, m, sizeof(*m), fds, n, &r->e), 1);
}

static void say_end(struct rig *r, int *fd, enum err_code code)
{
	struct fetch_message m = { .kind = code == ERR_NONE ? FETCH_DONE : FETCH_FAILED };

	if (code != ERR_NONE)
		(void)err_set(&m.err, code, "so it is");
	say(r, *fd, &m, NULL, 0);
	closep(fd);
	*fd = -1;
}

/* Layer N of VERSION: its digest is made of both. */
static void layer_digest(unsigned version, unsigned n, unsigned char out[SHA256_SIZE])
{
	memset(out, (int)(version * 16 + n), SHA256_SIZE);
}

static void write_documents(unsigned version, struct buf *manifest, struct buf *config)
{
	unsigned char digest[SHA256_SIZE];
	char text[DIGEST_TEXT_LEN + 1];
	const struct platform host = platform_of_host();

	buf_addf(config, "{\"os\":\"%s\",\"architecture\":\"%s\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[", host.os, host.arch);
	for (unsigned i = 0; i < LAYERS; i++) {
		layer_digest(version, i, digest);
		digest_write(digest, text);
		buf_addf(config, "%s\"%s\"", i ? "," : "", text);
	}
	buf_addf(config, "]}}");
	sha256(buf_str(config), digest);
	digest_write(digest, text);
	buf_addf(manifest, "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" TYPE_OCI_CONFIG "\",\"digest\":\"%s\",\"size\":%zu},"
		 "\"layers\":[", text, config->n);
	for (unsigned i = 0; i < LAYERS; i++) {
		layer_digest(version, i, digest);
		digest_write(digest, text);
		buf_addf(manifest, "%s{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":\"%s\",\"size\":5}", i ? "," : "", text);
	}
	buf_addf(manifest, "]}");
}

/* Says what was found, lies about its digest if asked to. */
static void say_found(struct rig *r, int fd, unsigned version, bool is_lie)
{
	AUTO(buf_done) struct buf manifest = BUF_INIT(65536);
	AUTO(buf_done) struct buf config = BUF_INIT(65536);
	struct fetch_message m = { .kind = FETCH_FOUND };
	int fds[2];

	write_documents(version, &manifest, &config);
	sha256(buf_str(&manifest), m.digest);
	m.digest[0] ^= is_lie;
	fds[0] = memfd_sealed_bytes("m", buf_str(&manifest), &r->e);
	fds[1] = memfd_sealed_bytes("c", buf_str(&config), &r->e);
	say(r, fd, &m, fds, 2);
	closep(&fds[0]);
	closep(&fds[1]);
}

/* The layers that the server wants; -1: it has not said so yet. */
static int wanted(struct rig *r, int fd, int turns)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct fetch_request rq;

	for (int i = 0; i < turns; i++) {
		turn(r);
		if (passing_recv(fd, &rq, sizeof(rq), 0, &passed, &r->e) == PASSING_MESSAGE) {
			assert_int_equal(rq.kind, FETCH_WANT);
			return (int)rq.layers[0];
		}
	}
	return -1;
}

static void blob_path(const struct rig *r, unsigned version, unsigned n, char out[256])
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX_LEN + 1];

	layer_digest(version, n, digest);
	hex_encode(hex, digest, sizeof(digest));
	(void)snprintf(out, 256, "%s/sha256-%s", r->blobs, hex);
}

static void make_blobs(const struct rig *r, unsigned version)
{
	for (unsigned i = 0; i < LAYERS; i++) {
		char path[256];
		int fd;

		blob_path(r, version, i, path);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, "bytes", 5), 5);
		(void)close(fd);
	}
}

/* ---- the orders ---- */

static void on_progress(const struct pull_progress *progress, void *arg)
{
	struct waiter *w = arg;

	assert_non_null(progress->phase);
	w->told++;
}

static void on_done(const struct pulled_image *im, const struct err *e, void *arg)
{
	struct waiter *w = arg;

	w->calls++;
	w->is_there = im != NULL;
	assert_int_not_equal(im != NULL, e != NULL);
	if (e)
		w->e = *e;
	if (!im)
		return;
	w->is_private = im->is_private;
	(void)snprintf(w->digest, sizeof(w->digest), "%s", im->digest);
	assert_int_equal(im->n_layers, LAYERS);
}

static void order(struct rig *r, struct waiter *w, const char *uri, const char *password)
{
	memset(w, 0, sizeof(*w));
	pull_start(r->p, &(struct pull_order){ .uri = uri, .username = password ? "me" : NULL, .password = password }, &w->op,
		   on_progress, on_done, w);
}

static void await(struct rig *r, const struct waiter *w)
{
	for (int i = 0; i < TURNS && w->calls == 0; i++)
		turn(r);
	assert_int_equal(w->calls, 1);
}

/* A whole pull, from its fetcher's side. */
static void serve_pull(struct rig *r, unsigned version)
{
	int fd = fetcher_next(r, "pull");

	say_found(r, fd, version, false);
	assert_true(wanted(r, fd, TURNS) >= 0);
	make_blobs(r, version);
	say_end(r, &fd, ERR_NONE);
}

static void serve_sweep(struct rig *r)
{
	int fd = fetcher_next(r, "sweep");

	say_end(r, &fd, ERR_NONE);
}

static void release(struct rig *r, unsigned version, unsigned n)
{
	unsigned char digest[SHA256_SIZE];
	char path[256];

	layer_digest(version, n, digest);
	pull_release_blob(r->p, digest);
	blob_path(r, version, n, path);
	(void)unlink(path); /* as the sweep would */
}

/* ---- tests ---- */

static void many_orders_are_one_pull_and_what_is_there_is_not_pulled_again(void **state)
{
	struct waiter w[5];
	struct rig r;

	(void)state;
	rig_start(&r);
	for (size_t i = 0; i < 4; i++)
		order(&r, &w[i], i % 2 ? "a.test/b" : "a.test/b:latest", NULL);
	serve_pull(&r, 1);
	for (size_t i = 0; i < 4; i++) {
		await(&r, &w[i]);
		assert_true(w[i].is_there && !w[i].is_private);
	}
	serve_sweep(&r);
	order(&r, &w[4], "a.test/b", NULL);
	await(&r, &w[4]);
	assert_true(w[4].is_there);
	nobody_asks(&r);
	rig_close(&r); /* and after a restart */
	rig_open(&r);
	serve_sweep(&r);
	order(&r, &w[4], "a.test/b", NULL);
	await(&r, &w[4]);
	assert_true(w[4].is_there);
	assert_string_equal(w[4].digest, w[0].digest);
	rig_stop(&r);
}

static void a_layer_that_the_runtime_has_is_not_wanted_again_until_it_is_gone(void **state)
{
	unsigned char digest[SHA256_SIZE];
	struct waiter w;
	struct rig r;
	int fd;

	(void)state;
	rig_start(&r);
	order(&r, &w, "a.test/b", NULL);
	serve_pull(&r, 1);
	await(&r, &w);
	serve_sweep(&r);
	layer_digest(1, 0, digest);
	fd = pull_open_blob(r.p, digest, &r.e);
	assert_true(fd >= 0);
	(void)close(fd);
	release(&r, 1, 0);
	serve_sweep(&r);
	assert_null(strstr(buf_z(&r.order), "1010101010101010"));
	assert_non_null(strstr(buf_z(&r.order), "1111111111111111"));
	assert_int_equal(pull_open_blob(r.p, digest, &r.e), -1);
	assert_int_equal(r.e.code, ERR_NOT_FOUND);
	order(&r, &w, "a.test/b", NULL); /* complete as it is */
	await(&r, &w);
	assert_true(w.is_there);
	rig_close(&r);
	rig_open(&r);
	serve_sweep(&r);
	order(&r, &w, "a.test/b", NULL);
	await(&r, &w);
	assert_true(w.is_there);
	pull_layer_gone(r.p, digest);
	order(&r, &w, "a.test/b", NULL); /* not any more */
	fd = fetcher_next(&r, "pull");
	say_found(&r, fd, 1, false);
	assert_int_equal(wanted(&r, fd, TURNS), 3);
	say_end(&r, &fd, ERR_NONE);
	await(&r, &w);
	rig_stop(&r);
}

static void a_pull_wants_only_what_the_runtime_lacks(void **state)
{
	struct waiter w;
	struct rig r;
	int fd;

	(void)state;
	rig_start(&r);
	order(&r, &w, "a.test/b", NULL);
	serve_pull(&r, 1);
	await(&r, &w);
	serve_sweep(&r);
	release(&r, 1, 1);
	serve_sweep(&r);
	order(&r, &w, "a.test/other", NULL);
	fd = fetcher_next(&r, "pull");
	say_found(&r, fd, 1, false);
	assert_int_equal(wanted(&r, fd, TURNS), 1);
	say_end(&r, &fd, ERR_NONE);
	await(&r, &w);
	assert_true(w.is_there);
	rig_stop(&r);
}

static void a_private_image_needs_credentials_each_time(void **state)
{
	struct waiter w;
	struct rig r;
	int fd;

	(void)state;
	rig_start(&r);
	order(&r, &w, "a.test/b", "secret-one");
	fd = fetcher_next(&r, "pull");
	assert_non_null(strstr(buf_z(&r.order), "secret-one"));
	say_found(&r, fd, 1, false);
	assert_true(wanted(&r, fd, TURNS) >= 0);
	make_blobs(&r, 1);
	say_end(&r, &fd, ERR_NONE);
	await(&r, &w);
	assert_true(w.is_private);
	serve_sweep(&r);
	order(&r, &w, "a.test/b", NULL);
	fd = fetcher_next(&r, "check");
	assert_non_null(strstr(buf_z(&r.order), w.digest));
	say_end(&r, &fd, ERR_DENIED);
	await(&r, &w);
	assert_int_equal(w.e.code, ERR_DENIED);
	order(&r, &w, "a.test/b", "secret-one");
	fd = fetcher_next(&r, "check");
	say_end(&r, &fd, ERR_NONE);
	await(&r, &w);
	assert_true(w.is_there && w.is_private);
	order(&r, &w, "a.test/b", NULL);
	fd = fetcher_next(&r, "check");
	say_end(&r, &fd, ERR_NONE);
	await(&r, &w);
	assert_true(w.is_there && !w.is_private); /* anybody can have it: it is public now */
	order(&r, &w, "a.test/b", NULL);
	await(&r, &w);
	assert_true(w.is_there);
	nobody_asks(&r);
	rig_stop(&r);
}

static void other_credentials_wait_and_are_asked_about(void **state)
{
	struct waiter mine, yours;
	struct rig r;
	int fd;

	(void)state;
	rig_start(&r);
	order(&r, &mine, "a.test/b", "mine");
	order(&r, &yours, "a.test/b", "yours");
	fd = fetcher_next(&r, "pull");
	nobody_asks(&r);
	say_found(&r, fd, 1, false);
	assert_true(wanted(&r, fd, TURNS) >= 0);
	make_blobs(&r, 1);
	say_end(&r, &fd, ERR_NONE);
	await(&r, &mine);
	assert_int_equal(yours.calls, 0);
	fd = fetcher_next(&r, "sweep");
	say_end(&r, &fd, ERR_NONE);
	fd = fetcher_next(&r, "check");
	assert_non_null(strstr(buf_z(&r.order), "yours"));
	say_end(&r, &fd, ERR_DENIED);
	await(&r, &yours);
	assert_false(yours.is_there);
	rig_stop(&r);
}

static void failures_are_told_in_the_fetchers_words_and_swept(void **state)
{
	static const enum err_code codes[] = { ERR_NOT_FOUND, ERR_DENIED, ERR_INVALID, ERR_LIMIT, ERR_TIMEOUT, ERR_UNAVAILABLE };
	struct waiter w;
	struct rig r;
	int fd;

	(void)state;
	rig_start(&r);
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		order(&r, &w, "a.test/b", NULL);
		fd = fetcher_next(&r, "pull");
		say_end(&r, &fd, codes[i]);
		await(&r, &w);
		assert_int_equal(w.e.code, codes[i]);
		assert_string_equal(w.e.msg, "so it is");
		serve_sweep(&r);
	}
	order(&r, &w, "a.test/b", NULL);
	fd = fetcher_next(&r, "pull");
	closep(&fd); /* it was killed */
	await(&r, &w);
	assert_int_equal(w.e.code, ERR_UNAVAILABLE);
	serve_sweep(&r);
	order(&r, &w, "a.test/b", NULL);
	fd = fetcher_next(&r, "pull");
	say_found(&r, fd, 1, true); /* it lies */
	await(&r, &w);
	assert_int_equal(w.e.code, ERR_INVALID);
	closep(&fd);
	order(&r, &w, "Not/A/Name", NULL);
	await(&r, &w);
	assert_int_equal(w.e.code, ERR_INVALID);
	assert_null(images_at(r.p, 0));
	rig_stop(&r);
}

static void a_cancelled_order_ends_a_pull_that_nobody_else_waits_for(void **state)
{
	struct waiter one, two;
	struct rig r;
	char byte;
	int fd;

	(void)state;
	rig_start(&r);
	order(&r, &one, "a.test/b", NULL);
	order(&r, &two, "a.test/b", NULL);
	fd = fetcher_next(&r, "pull");
	pull_cancel(&one.op);
	pull_cancel(&one.op); /* once more is fine */
	turn(&r);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	pull_cancel(&two.op);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	closep(&fd);
	serve_sweep(&r);
	assert_int_equal(one.calls + two.calls, 0);
	order(&r, &one, "a.test/b", NULL);
	pull_cancel(&one.op); /* before anything began */
	nobody_asks(&r);
	rig_stop(&r);
}

static void an_answer_about_layers_waits_for_a_sweep(void **state)
{
	struct waiter w;
	struct rig r;
	int sweep, fd;

	(void)state;
	rig_start(&r);
	order(&r, &w, "a.test/gone", NULL);
	fd = fetcher_next(&r, "pull");
	say_end(&r, &fd, ERR_NOT_FOUND);
	await(&r, &w);
	sweep = fetcher_next(&r, "sweep");
	assert_non_null(strstr(buf_z(&r.order), "\"withNew\":true"));
	order(&r, &w, "a.test/b", NULL);
	fd = fetcher_next(&r, "pull");
	say_found(&r, fd, 1, false);
	assert_int_equal(wanted(&r, fd, 20), -1);
	say_end(&r, &sweep, ERR_NONE);
	assert_int_equal(wanted(&r, fd, TURNS), 3);
	say_end(&r, &fd, ERR_UNAVAILABLE);
	await(&r, &w);
	rig_stop(&r);
}

static void removing_forgets_layers_that_nothing_else_has(void **state)
{
	unsigned char digest[SHA256_SIZE];
	struct waiter w;
	struct rig r;
	size_t n;

	(void)state;
	rig_start(&r);
	for (unsigned v = 1; v <= 2; v++) {
		order(&r, &w, v == 1 ? "a.test/one" : "a.test/two", NULL);
		serve_pull(&r, v);
		await(&r, &w);
		serve_sweep(&r);
	}
	layer_digest(1, 0, digest);
	pull_release_blob(r.p, digest);
	serve_sweep(&r);
	assert_true(pull_layer_wanted(r.p, digest));
	assert_int_equal(images_remove(r.p, "a.test/one", &n, &r.e), 0);
	assert_int_equal(n, 1);
	assert_false(pull_layer_wanted(r.p, digest));
	serve_sweep(&r);
	assert_non_null(strstr(buf_z(&r.order), "2020202020202020"));
	assert_null(strstr(buf_z(&r.order), "1111111111111111"));
	assert_int_equal(images_remove(r.p, "a.test/one", &n, &r.e), -1);
	assert_int_equal(r.e.code, ERR_NOT_FOUND);
	assert_string_equal(images_at(r.p, 0)->name, "a.test/two:latest");
	assert_null(images_at(r.p, 1));
	assert_int_equal(images_remove(r.p, images_at(r.p, 0)->digest, &n, &r.e), 0);
	rig_stop(&r);
}

/* ---- images that somebody stands on ---- */

static bool is_used(const char *digest, void *arg)
{
	return strcmp(digest, arg) == 0;
}

static void pull_version(struct rig *r, const char *uri, unsigned version, char digest[DIGEST_TEXT_LEN + 1])
{
	struct waiter w = { 0 };

	pull_start(r->p, &(struct pull_order){ .uri = uri, .refresh = true }, &w.op, on_progress, on_done, &w);
	serve_pull(r, version);
	await(r, &w);
	assert_true(w.is_there);
	memcpy(digest, w.digest, DIGEST_TEXT_LEN + 1);
	serve_sweep(r);
}

static const struct pulled_image *kept_one(const struct rig *r, const char *digest)
{
	const struct pulled_image *im = images_find(r->p, digest);

	assert_non_null(im);
	assert_true(im->is_kept);
	assert_non_null(strstr(im->name, "a.test/b@sha256:"));
	assert_non_null(strstr(im->name, digest));
	return im;
}

static void an_image_that_is_used_outlives_its_name(void **state)
{
	char one[DIGEST_TEXT_LEN + 1], two[DIGEST_TEXT_LEN + 1], nobody[] = "sha256:";
	unsigned char layer[SHA256_SIZE];
	struct rig r;
	size_t n;

	(void)state;
	rig_start(&r);
	images_set_users(r.p, is_used, one);
	pull_version(&r, "a.test/b", 1, one);
	pull_version(&r, "a.test/b", 1, one);
	assert_null(images_at(r.p, 1)); /* it was the same one */
	pull_version(&r, "a.test/b", 2, two);
	layer_digest(1, 0, layer);
	assert_true(pull_layer_wanted(r.p, layer));
	(void)kept_one(&r, one);
	rig_close(&r);
	rig_open(&r);
	images_drop_unused(r.p); /* nobody knows yet what is used */
	images_set_users(r.p, is_used, one);
	images_drop_unused(r.p);
	assert_int_equal(images_remove(r.p, kept_one(&r, one)->name, &n, &r.e), -1);
	assert_int_equal(r.e.code, ERR_CONFLICT);
	images_set_users(r.p, is_used, two);
	assert_int_equal(images_remove(r.p, "a.test/b", &n, &r.e), 0);
	images_drop_unused(r.p);
	assert_false(pull_layer_wanted(r.p, layer));
	assert_null(images_find(r.p, one));
	(void)kept_one(&r, two);
	images_set_users(r.p, is_used, nobody);
	images_drop_unused(r.p);
	assert_null(images_at(r.p, 0));
	rig_close(&r);
	rig_open(&r);
	assert_null(images_at(r.p, 0));
	rig_stop(&r);
}

static void an_image_with_another_name_needs_no_keeping(void **state)
{
	char one[DIGEST_TEXT_LEN + 1], two[DIGEST_TEXT_LEN + 1];
	struct rig r;

	(void)state;
	rig_start(&r);
	images_set_users(r.p, is_used, one);
	pull_version(&r, "a.test/b", 1, one);
	pull_version(&r, "a.test/b:other", 1, one);
	pull_version(&r, "a.test/b", 2, two);
	assert_string_equal(images_find(r.p, one)->name, "a.test/b:other");
	assert_null(images_at(r.p, 2));
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_orders_are_one_pull_and_what_is_there_is_not_pulled_again),
		cmocka_unit_test(a_layer_that_the_runtime_has_is_not_wanted_again_until_it_is_gone),
		cmocka_unit_test(a_pull_wants_only_what_the_runtime_lacks),
		cmocka_unit_test(a_private_image_needs_credentials_each_time),
		cmocka_unit_test(other_credentials_wait_and_are_asked_about),
		cmocka_unit_test(failures_are_told_in_the_fetchers_words_and_swept),
		cmocka_unit_test(a_cancelled_order_ends_a_pull_that_nobody_else_waits_for),
		cmocka_unit_test(an_answer_about_layers_waits_for_a_sweep),
		cmocka_unit_test(removing_forgets_layers_that_nothing_else_has),
		cmocka_unit_test(an_image_that_is_used_outlives_its_name),
		cmocka_unit_test(an_image_with_another_name_needs_no_keeping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
