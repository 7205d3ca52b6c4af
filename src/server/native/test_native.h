// SPDX-License-Identifier: Apache-2.0
/* server/native/test_native.h - for tests: the native runtime against a warden that says what the test wants. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/json.h"
#include "box/wire.h"
#include "net/loop.h"
#include "net/transport.h"
#include "server/native/native.h"
#include "server/runtime/runtime.h"
#include "sys/fd.h"
#include "sys/passing.h"

#define LAYER_A "00112233445566778899aabbccddeeff"
#define LAYER_B "ffeeddccbbaa99887766554433221100"

struct fixture {
	struct loop *loop;
	struct runtime *rt;
	uint64_t now_ms;
	char folder[64], path[96];
	int listener, warden; /* the test's side */
	unsigned done, failed, ended, returned;
	struct runtime_failure failure;
	struct transport *dialed;
	char text[256];
	size_t boxes;
	char box[WIRE_ID_SIZE];
	struct runtime_end end;
	struct runtime_stats stats;
	const char *reference; /* that somebody stands on */
	size_t unknown;
	bool has_ab, has_b;
};

static inline uint64_t now(void *arg)
{
	return ((struct fixture *)arg)->now_ms;
}

static inline void turn(struct fixture *f)
{
	for (int i = 0; i < 6; i++)
		assert_int_equal(loop_turn(f->loop, 0, &(struct err){ 0 }), 0);
}

static inline void meet(struct fixture *f)
{
	turn(f);
	f->warden = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(f->warden >= 0);
}

static inline void note_failure(struct fixture *f, const struct runtime_failure *failure)
{
	f->done++;
	if (failure) {
		f->failed++;
		f->failure = *failure;
	}
}

static inline void on_done(const struct runtime_failure *failure, void *arg)
{
	note_failure(arg, failure);
}

static inline void on_dial(struct transport *t, const struct runtime_failure *failure, void *arg)
{
	note_failure(arg, failure);
	((struct fixture *)arg)->dialed = t;
}

static inline void on_text(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	(void)is_cut;
	note_failure(arg, failure);
	(void)snprintf(((struct fixture *)arg)->text, 256, "%.*s", STR_ARG(text));
}

static inline void on_stats(const struct runtime_stats *stats, const struct runtime_failure *failure, void *arg)
{
	note_failure(arg, failure);
	if (stats)
		((struct fixture *)arg)->stats = *stats;
}

static inline void on_list(const struct runtime_box *boxes, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct fixture *f = arg;

	note_failure(f, failure);
	f->boxes = n;
	if (n > 0)
		(void)snprintf(f->box, sizeof(f->box), "%s", boxes[n - 1].id);
}

static inline void on_ended(const char *id, const struct runtime_end *end, void *arg)
{
	struct fixture *f = arg;

	f->ended++;
	f->end = *end;
	(void)snprintf(f->box, sizeof(f->box), "%s", id);
}

static inline void on_returned(void *arg)
{
	((struct fixture *)arg)->returned++;
}

static const struct runtime_events events = { .ended = on_ended, .returned = on_returned };
static const char *folders[] = { "/srv", "/srv/deep/", "/srv/d" };
static const struct string_list host_paths = { folders, ARRAY_LEN(folders) };
static const struct string_pair images[] = { { "alpine", "/srv/alpine" }, { "python/3.12:slim", "/srv/python.tar" } };

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	f->now_ms = 1000;
	f->loop = loop_new(&(struct err){ 0 });
	loop_set_clock(f->loop, now, f);
	(void)snprintf(f->folder, sizeof(f->folder), "/tmp/native_test.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	(void)snprintf(f->path, sizeof(f->path), "%s/warden.sock", f->folder);
	f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", f->path);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(f->listener, 4), 0);
	f->rt = runtime_native(f->loop, &(struct runtime_native_spec){ .path = f->path, .images = images, .n_images = ARRAY_LEN(images),
						       .default_image = "python/3.12:slim", .host_paths = &host_paths }, &(struct err){ 0 });
	assert_non_null(f->rt);
	f->rt->events = &events;
	f->rt->events_arg = f;
	meet(f);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	runtime_free(f->rt);
	closep(&f->warden);
	closep(&f->listener);
	loop_free(f->loop);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(rmdir(f->folder), 0);
	free(f);
	return 0;
}

static inline struct wire_request hear(struct fixture *f, struct passed *got)
{
	char bytes[sizeof(struct wire_request) + 1];
	struct wire_request rq;

	turn(f);
	assert_int_equal(passing_recv(f->warden, bytes, sizeof(bytes), 4, got, &(struct err){ 0 }), PASSING_MESSAGE);
	assert_int_equal(wire_check_request(bytes, got->n, got->n_fds, &rq, &(struct err){ 0 }), 0);
	return rq;
}

static inline void say(struct fixture *f, const struct wire_reply *rp, const int *fds, size_t n_fds)
{
	assert_int_equal(passing_send(f->warden, rp, sizeof(*rp), fds, n_fds, &(struct err){ 0 }), 1);
	turn(f);
}

static inline struct wire_reply reply_to(const struct wire_request *rq)
{
	struct wire_reply rp = { .version = WIRE_VERSION, .call = rq->call, .serial = rq->serial };

	memcpy(rp.id, rq->id, sizeof(rp.id));
	return rp;
}

static inline void start_create_of(struct fixture *f, const char *image)
{
	static const char *entrypoint[] = { "python3", "app.py" };
	static struct string_pair env[] = { { "K", "v\n" } };
	struct runtime_spec spec = { .id = "ab-12", .image = image, .entrypoint = { entrypoint, 2 }, .env = { env, 1 },
				     .limits = RUNTIME_LIMITS_DEFAULT, .execd_token = "t0ken" };

	f->rt->ops->create(f->rt, &spec, on_done, f);
}

static inline void start_create(struct fixture *f)
{
	start_create_of(f, "host");
}
