// SPDX-License-Identifier: Apache-2.0
/* server/images/test_puller.h - for tests: a puller, with a fetcher whose every word the test writes. */
#pragma once
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
#include "server/config/config.h"
#include "server/images/pull.h"
#include "sys/fd.h"
#include "sys/memfd.h"
#include "sys/passing.h"

#define TURNS 2000
#define LAYERS 2

/* ---- the rig ---- */

struct waiter {
	struct pull op;
	unsigned calls, told;
	bool is_there, is_private;
	char digest[DIGEST_TEXT_MAX + 1];
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

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void rig_open(struct rig *r)
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

static inline void rig_close(struct rig *r)
{
	store_close(take_ptr(&r->store));
	puller_free(take_ptr(&r->p));
}

static inline void rig_start(struct rig *r)
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

static inline void rig_stop(struct rig *r)
{
	rig_close(r);
	loop_free(r->loop);
	(void)close(r->listener);
	buf_done(&r->order);
	(void)nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void turn(struct rig *r)
{
	assert_int_equal(loop_turn(r->loop, 5, &r->e), 0);
}

/* ---- the fetcher's part ---- */

/* The next one, with its order read; -1: nobody asks. */
static inline int fetcher_try(struct rig *r)
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

static inline int fetcher_next(struct rig *r, const char *kind)
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

static inline void nobody_asks(struct rig *r)
{
	for (int i = 0; i < 20; i++) {
		turn(r);
		if (fetcher_try(r) >= 0)
			fail_msg("%s", buf_z(&r->order));
	}
}

static inline void say(struct rig *r, int fd, struct fetch_message *m, const int *fds, size_t n)
{
	m->version = FETCH_VERSION;
	assert_int_equal(passing_send(fd, m, sizeof(*m), fds, n, &r->e), 1);
}

static inline void say_end(struct rig *r, int *fd, enum err_code code)
{
	struct fetch_message m = { .kind = code == ERR_NONE ? FETCH_DONE : FETCH_FAILED };

	if (code != ERR_NONE)
		(void)err_set(&m.err, code, "so it is");
	say(r, *fd, &m, NULL, 0);
	closep(fd);
	*fd = -1;
}

/* Layer N of VERSION: its digest is made of both. */
static inline void layer_digest(unsigned version, unsigned n, unsigned char out[SHA256_SIZE])
{
	memset(out, (int)(version * 16 + n), SHA256_SIZE);
}

static inline void write_documents(unsigned version, struct buf *manifest, struct buf *config)
{
	struct digest digest = { .size = SHA256_SIZE };
	char text[DIGEST_TEXT_MAX + 1];
	const struct platform host = platform_of_host();

	buf_addf(config, "{\"os\":\"%s\",\"architecture\":\"%s\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[", host.os, host.arch);
	for (unsigned i = 0; i < LAYERS; i++) {
		layer_digest(version, i, digest.bytes);
		digest_write(&digest, text);
		buf_addf(config, "%s\"%s\"", i ? "," : "", text);
	}
	buf_addf(config, "]}}");
	digest = digest_of(buf_str(config), SHA256_SIZE);
	digest_write(&digest, text);
	buf_addf(manifest, "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" TYPE_OCI_CONFIG "\",\"digest\":\"%s\",\"size\":%zu},"
		 "\"layers\":[", text, config->n);
	for (unsigned i = 0; i < LAYERS; i++) {
		layer_digest(version, i, digest.bytes);
		digest_write(&digest, text);
		buf_addf(manifest, "%s{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":\"%s\",\"size\":5}", i ? "," : "", text);
	}
	buf_addf(manifest, "]}");
}

/* Says what was found, lies about its digest if asked to. */
static inline void say_found(struct rig *r, int fd, unsigned version, bool is_lie)
{
	AUTO(buf_done) struct buf manifest = BUF_INIT(65536);
	AUTO(buf_done) struct buf config = BUF_INIT(65536);
	struct fetch_message m = { .kind = FETCH_FOUND };
	int fds[2];

	write_documents(version, &manifest, &config);
	m.digest = digest_of(buf_str(&manifest), SHA256_SIZE);
	m.digest.bytes[0] ^= is_lie;
	fds[0] = memfd_sealed_bytes("m", buf_str(&manifest), &r->e);
	fds[1] = memfd_sealed_bytes("c", buf_str(&config), &r->e);
	say(r, fd, &m, fds, 2);
	closep(&fds[0]);
	closep(&fds[1]);
}

/* The layers that the server wants; -1: it has not said so yet. */
static inline int wanted(struct rig *r, int fd, int turns)
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

static inline void blob_path(const struct rig *r, unsigned version, unsigned n, char out[256])
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX_LEN + 1];

	layer_digest(version, n, digest);
	hex_encode(hex, digest, sizeof(digest));
	(void)snprintf(out, 256, "%s/sha256-%s", r->blobs, hex);
}

static inline void make_blobs(const struct rig *r, unsigned version)
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

static inline void on_progress(const struct pull_progress *progress, void *arg)
{
	struct waiter *w = arg;

	assert_non_null(progress->phase);
	w->told++;
}

static inline void on_done(const struct pulled_image *im, const struct err *e, void *arg)
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

static inline void order(struct rig *r, struct waiter *w, const char *uri, const char *password)
{
	memset(w, 0, sizeof(*w));
	pull_start(r->p, &(struct pull_order){ .uri = uri, .username = password ? "me" : NULL, .password = password }, &w->op,
		   on_progress, on_done, w);
}

static inline void await(struct rig *r, const struct waiter *w)
{
	for (int i = 0; i < TURNS && w->calls == 0; i++)
		turn(r);
	assert_int_equal(w->calls, 1);
}

/* A whole pull, from its fetcher's side. */
static inline void serve_pull(struct rig *r, unsigned version)
{
	int fd = fetcher_next(r, "pull");

	say_found(r, fd, version, false);
	assert_true(wanted(r, fd, TURNS) >= 0);
	make_blobs(r, version);
	say_end(r, &fd, ERR_NONE);
}

static inline void serve_sweep(struct rig *r)
{
	int fd = fetcher_next(r, "sweep");

	say_end(r, &fd, ERR_NONE);
}

static inline void release(struct rig *r, unsigned version, unsigned n)
{
	unsigned char digest[SHA256_SIZE];
	char path[256];

	layer_digest(version, n, digest);
	pull_release_blob(r->p, digest);
	blob_path(r, version, n, path);
	(void)unlink(path); /* as the sweep would */
}
