// SPDX-License-Identifier: Apache-2.0
/* The puller against a fetcher whose every word the test writes. */
#include "server/images/test_puller.h"

#include "base/banned.h"

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

static void pull_version(struct rig *r, const char *uri, unsigned version, char digest[DIGEST_TEXT_MAX + 1])
{
	struct waiter w = { 0 };

	pull_start(r->p, &(struct pull_order){ .uri = uri, .refresh = true }, &w.op, on_progress, on_done, &w);
	serve_pull(r, version);
	await(r, &w);
	assert_true(w.is_there);
	memcpy(digest, w.digest, DIGEST_TEXT_MAX + 1);
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
	char one[DIGEST_TEXT_MAX + 1], two[DIGEST_TEXT_MAX + 1], nobody[] = "sha256:";
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
	char one[DIGEST_TEXT_MAX + 1], two[DIGEST_TEXT_MAX + 1];
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
