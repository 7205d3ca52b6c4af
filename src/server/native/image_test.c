// SPDX-License-Identifier: Apache-2.0
/* Creates from images of registries, against a fetcher and a warden that say what the test wants. */
#include "server/images/test_puller.h"

#include "box/wire.h"
#include "server/native/native.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define IMAGE "a.test/b:latest"

struct fixture {
	struct rig r;
	struct runtime *rt;
	char path[96];
	int listener, warden; /* the test's side */
	unsigned done, failed, progress, resolved;
	struct runtime_failure failure;
	struct runtime_progress last;
	char digest[DIGEST_TEXT_MAX + 1];
};

static void on_created(const struct runtime_failure *failure, void *arg)
{
	struct fixture *f = arg;

	f->done++;
	f->failed += failure != NULL;
	if (failure)
		f->failure = *failure;
}

static void on_create_progress(const char *id, const struct runtime_progress *p, void *arg)
{
	struct fixture *f = arg;

	assert_string_equal(id, "ab-12");
	f->progress++;
	f->last = *p;
}

static void on_resolved(const char *id, const char *digest, void *arg)
{
	struct fixture *f = arg;

	assert_string_equal(id, "ab-12");
	f->resolved++;
	(void)snprintf(f->digest, sizeof(f->digest), "%s", digest);
}

static const struct runtime_events events = { .progress = on_create_progress, .resolved = on_resolved };

/* ---- the warden's part ---- */

static struct wire_request hear(struct fixture *f, struct passed *got)
{
	char bytes[sizeof(struct wire_request) + 1];
	struct wire_request rq = { 0 };

	for (int i = 0; i < TURNS; i++) {
		turn(&f->r);
		if (passing_recv(f->warden, bytes, sizeof(bytes), 4, got, &f->r.e) == PASSING_MESSAGE) {
			assert_int_equal(wire_check_request(bytes, got->n, got->n_fds, &rq, &f->r.e), 0);
			return rq;
		}
	}
	fail_msg("nobody asks the warden");
	return rq;
}

static struct wire_request hear_call(struct fixture *f, enum wire_call call)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq = hear(f, &got);

	assert_int_equal(rq.call, call);
	assert_int_equal(got.n_fds, call == WIRE_CREATE ? 2 : call == WIRE_LAYER_ADD);
	return rq;
}

static void silence(struct fixture *f)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	char bytes[sizeof(struct wire_request) + 1];

	for (int i = 0; i < 10; i++)
		turn(&f->r);
	assert_int_not_equal(passing_recv(f->warden, bytes, sizeof(bytes), 4, &got, &f->r.e), PASSING_MESSAGE);
}

static void reply(struct fixture *f, const struct wire_request *rq, enum err_code code)
{
	struct wire_reply rp = { .version = WIRE_VERSION, .call = rq->call, .serial = rq->serial, .failed = code != ERR_NONE };

	memcpy(rp.id, rq->id, sizeof(rp.id));
	if (code != ERR_NONE)
		(void)err_set(&rp.err, code, "so it is");
	assert_int_equal(passing_send(f->warden, &rp, sizeof(rp), NULL, 0, &f->r.e), 1);
	for (int i = 0; i < 4; i++)
		turn(&f->r);
}

/* Which layers it has: those of VERSION, or none for 0. */
static void tell_layers(struct fixture *f, unsigned version)
{
	struct wire_request rq = hear_call(f, WIRE_LAYERS);

	for (unsigned i = 0; version > 0 && i < LAYERS; i++) {
		struct wire_reply rp = { .version = WIRE_VERSION, .call = rq.call, .serial = rq.serial, .layer.kind = WIRE_LAYER_BLOB };

		layer_digest(version, i, rp.layer.name);
		assert_int_equal(passing_send(f->warden, &rp, sizeof(rp), NULL, 0, &f->r.e), 1);
	}
	reply(f, &rq, ERR_NONE);
}

static void meet(struct fixture *f)
{
	f->warden = -1;
	for (int i = 0; i < TURNS && f->warden < 0; i++) {
		turn(&f->r);
		f->warden = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	assert_true(f->warden >= 0);
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memset(f, 0, sizeof(*f));
	rig_start(&f->r);
	(void)snprintf(f->path, sizeof(f->path), "%s/warden.sock", f->r.dir);
	f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", f->path);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(f->listener, 4), 0);
	f->rt = runtime_native(f->r.loop, &(struct runtime_native_spec){ .path = f->path, .puller = f->r.p }, &f->r.e);
	assert_non_null(f->rt);
	f->rt->events = &events;
	f->rt->events_arg = f;
	meet(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	runtime_free(f->rt);
	closep(&f->warden);
	closep(&f->listener);
	rig_stop(&f->r);
	return 0;
}

static void create(struct fixture *f, const char *digest, const char *snapshot)
{
	static const char *entrypoint[] = { "sh" };
	struct runtime_spec spec = { .id = "ab-12", .image = IMAGE, .image_digest = digest, .entrypoint = { entrypoint, 1 },
				     .base = snapshot, .limits = RUNTIME_LIMITS_DEFAULT, .execd_token = "t0ken" };

	f->done = f->failed = f->resolved = f->progress = 0;
	f->rt->ops->create(f->rt, &spec, on_created, f);
}

/* ---- tests ---- */

#define SNAPSHOT "00112233445566778899aabbccddeeff"

static void an_image_is_pulled_its_layers_added_and_the_box_made(void **state)
{
	struct fixture *f = *state;
	unsigned char digest[SHA256_SIZE];
	struct wire_request adds[LAYERS], rq;

	tell_layers(f, 0);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	for (unsigned i = 0; i < LAYERS; i++) {
		adds[i] = hear_call(f, WIRE_LAYER_ADD);
		layer_digest(1, i, digest);
		assert_memory_equal(adds[i].layers[0].name, digest, sizeof(digest));
		assert_memory_equal(adds[i].blob.bytes, digest, sizeof(digest));
		assert_memory_equal(adds[i].diff_id.bytes, digest, sizeof(digest));
	}
	assert_int_equal(f->resolved, 1); /* before anything of it is made */
	assert_string_equal(f->digest, images_at(f->r.p, 0)->digest);
	reply(f, &adds[0], ERR_NONE);
	silence(f); /* not before all of them are there */
	reply(f, &adds[1], ERR_NONE);
	rq = hear_call(f, WIRE_CREATE);
	assert_int_equal(rq.image, WIRE_IMAGE_NONE);
	assert_int_equal(rq.n_layers, LAYERS);
	layer_digest(1, LAYERS - 1, digest); /* the uppermost first */
	assert_memory_equal(rq.layers[0].name, digest, sizeof(digest));
	reply(f, &rq, ERR_NONE);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->failed, 0);
	assert_string_equal(f->last.phase, "unpacking");
	assert_int_equal(f->last.layers_done, LAYERS);
}

static void what_the_warden_has_is_not_added_again(void **state)
{
	struct fixture *f = *state;
	struct wire_request rq;

	tell_layers(f, 1);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	rq = hear_call(f, WIRE_CREATE);
	reply(f, &rq, ERR_NONE);
	assert_int_equal(f->done, 1);
	create(f, NULL, NULL); /* nor is what is present pulled */
	serve_sweep(&f->r);
	rq = hear_call(f, WIRE_CREATE);
	reply(f, &rq, ERR_NONE);
	assert_int_equal(f->done, 1);
}

static void nothing_is_added_before_it_is_known_what_is_there(void **state)
{
	struct fixture *f = *state;
	struct wire_request list = hear_call(f, WIRE_LAYERS), rq;

	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	silence(f);
	reply(f, &list, ERR_NONE);
	for (unsigned i = 0; i < LAYERS; i++) {
		rq = hear_call(f, WIRE_LAYER_ADD);
		reply(f, &rq, ERR_NONE);
	}
	(void)hear_call(f, WIRE_CREATE);
}

static void a_layer_that_cannot_be_unpacked_fails_it_by_name(void **state)
{
	struct fixture *f = *state;
	struct wire_request adds[LAYERS];

	tell_layers(f, 0);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	for (unsigned i = 0; i < LAYERS; i++)
		adds[i] = hear_call(f, WIRE_LAYER_ADD);
	reply(f, &adds[0], ERR_INVALID);
	assert_int_equal(f->done, 0); /* the other one is still on its way */
	reply(f, &adds[1], ERR_NONE);
	assert_int_equal(f->failed, 1);
	assert_string_equal(f->failure.code, RUNTIME_PULL_FAILED);
	silence(f);
}

static void a_pull_that_fails_says_why(void **state)
{
	struct fixture *f = *state;
	int fd;

	tell_layers(f, 0);
	create(f, NULL, NULL);
	fd = fetcher_next(&f->r, "pull");
	say_end(&f->r, &fd, ERR_NOT_FOUND);
	for (int i = 0; i < TURNS && f->done == 0; i++)
		turn(&f->r);
	assert_int_equal(f->failed, 1);
	assert_string_equal(f->failure.code, RUNTIME_PULL_FAILED);
	assert_non_null(strstr(f->failure.says, "image '" IMAGE "': so it is"));
}

static void a_cancelled_one_ends_its_pull(void **state)
{
	struct fixture *f = *state;
	char byte;
	int fd;

	tell_layers(f, 0);
	create(f, NULL, NULL);
	fd = fetcher_next(&f->r, "pull");
	f->rt->ops->cancel(f->rt, "ab-13");
	f->rt->ops->cancel(f->rt, "ab-12");
	for (int i = 0; i < TURNS && f->done == 0; i++)
		turn(&f->r);
	assert_int_equal(f->failed, 1);
	assert_int_equal(f->failure.status, 409);
	assert_int_equal(recv(fd, &byte, 1, 0), 0); /* the fetcher is hung up on */
	(void)close(fd);
}

static void a_warden_that_goes_away_does_not_lose_it(void **state)
{
	struct fixture *f = *state;

	tell_layers(f, 0);
	create(f, NULL, NULL);
	closep(&f->warden);
	meet(f);
	tell_layers(f, 1);
	serve_pull(&f->r, 1);
	(void)hear_call(f, WIRE_CREATE);
	closep(&f->warden); /* now it is unknown what came of it */
	meet(f);
	assert_int_equal(f->failed, 1);
	assert_int_equal(f->failure.err.code, ERR_UNAVAILABLE);
}

/* A name that means another image now. */
static void what_stands_on_a_snapshot_has_the_image_of_its_digest(void **state)
{
	struct fixture *f = *state;
	unsigned char layer[SHA256_SIZE];
	char one[DIGEST_TEXT_MAX + 1];
	struct wire_request rq;

	tell_layers(f, 1);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	rq = hear_call(f, WIRE_CREATE);
	reply(f, &rq, ERR_NONE);
	serve_sweep(&f->r);
	(void)snprintf(one, sizeof(one), "%s", f->digest);
	create(f, one, SNAPSHOT);
	rq = hear_call(f, WIRE_CREATE);
	assert_int_equal(rq.n_layers, LAYERS + 1);
	assert_int_equal(rq.layers[0].kind, WIRE_LAYER_SNAPSHOT);
	layer_digest(1, LAYERS - 1, layer);
	assert_memory_equal(rq.layers[1].name, layer, sizeof(layer));
	reply(f, &rq, ERR_NONE);
	assert_int_equal(f->done, 1);
}

static void an_image_of_a_digest_that_is_gone_is_pulled_by_that(void **state)
{
	static const char gone[] = "sha256:abababababababababababababababababababababababababababababababab";
	struct fixture *f = *state;
	int fd;

	tell_layers(f, 0);
	create(f, gone, SNAPSHOT);
	fd = fetcher_next(&f->r, "pull");
	assert_non_null(strstr(buf_z(&f->r.order), "abababababab"));
	assert_null(strstr(buf_z(&f->r.order), "latest"));
	say_end(&f->r, &fd, ERR_NOT_FOUND);
	for (int i = 0; i < TURNS && f->done == 0; i++)
		turn(&f->r);
	assert_int_equal(f->failed, 1);
}

/* The catalogue takes the layers for unpacked, the warden has lost them. */
static void layers_that_were_lost_are_pulled_once_more(void **state)
{
	struct fixture *f = *state;
	struct wire_request rq;
	char path[256];

	tell_layers(f, 1);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	rq = hear_call(f, WIRE_CREATE);
	reply(f, &rq, ERR_NONE);
	serve_sweep(&f->r);
	for (unsigned i = 0; i < LAYERS; i++) {
		blob_path(&f->r, 1, i, path);
		assert_int_equal(unlink(path), 0);
	}
	closep(&f->warden);
	meet(f);
	tell_layers(f, 0);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	for (unsigned i = 0; i < LAYERS; i++) {
		rq = hear_call(f, WIRE_LAYER_ADD);
		reply(f, &rq, ERR_NONE);
	}
	rq = hear_call(f, WIRE_CREATE);
	reply(f, &rq, ERR_NONE);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->failed, 0);
}

static void those_in_progress_end_with_the_runtime(void **state)
{
	struct fixture *f = *state;

	tell_layers(f, 0);
	create(f, NULL, NULL);
	serve_pull(&f->r, 1);
	(void)hear_call(f, WIRE_LAYER_ADD);
	create(f, NULL, SNAPSHOT); /* waits for layers, too */
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_image_is_pulled_its_layers_added_and_the_box_made),
		TEST(what_the_warden_has_is_not_added_again),
		TEST(nothing_is_added_before_it_is_known_what_is_there),
		TEST(a_layer_that_cannot_be_unpacked_fails_it_by_name),
		TEST(a_pull_that_fails_says_why),
		TEST(a_cancelled_one_ends_its_pull),
		TEST(a_warden_that_goes_away_does_not_lose_it),
		TEST(what_stands_on_a_snapshot_has_the_image_of_its_digest),
		TEST(an_image_of_a_digest_that_is_gone_is_pulled_by_that),
		TEST(layers_that_were_lost_are_pulled_once_more),
		TEST(those_in_progress_end_with_the_runtime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
