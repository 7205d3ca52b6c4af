// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/own.h"
#include "box/wire.h"

#include "base/banned.h"

static struct wire_request good_request(enum wire_call call)
{
	return (struct wire_request){ .version = WIRE_VERSION, .call = call, .serial = 7, .id = "ab-12", .port = 80,
				      .limits = { 1000, 1 << 20, 10, 1 << 20, 100 } };
}

static int check(const struct wire_request *rq, size_t n_fds)
{
	struct wire_request got;
	struct err e = { 0 };
	int r = wire_check_request(rq, MIN(wire_request_size(rq), sizeof(*rq)), n_fds, &got, &e);

	assert_true(r == 0 || e.code == ERR_INVALID);
	if (r == 0)
		assert_memory_equal(&got, rq, sizeof(got));
	return r;
}

static void good_requests_pass(void **state)
{
	(void)state;
	for (unsigned call = WIRE_CREATE; call < WIRE_ENDED; call++) {
		struct wire_request rq = good_request(call);
		size_t n_fds = call == WIRE_CREATE ? 2 : call == WIRE_LAYER_ADD || call == WIRE_LAYER_PACK || call == WIRE_RECORD_SET;

		rq.n_layers = 1;
		rq.layers[0] = (struct wire_layer){ WIRE_LAYER_SNAPSHOT, { 1, [WIRE_SNAPSHOT_SIZE - 1] = 2 } };
		if (call == WIRE_LAYER_ADD || call == WIRE_LAYER_DROP)
			rq.layers[0].kind = WIRE_LAYER_BLOB;
		rq.blob = rq.diff_id = digest_of_sha256(rq.layers[0].name);
		assert_int_equal(check(&rq, n_fds), 0);
		assert_int_equal(check(&rq, n_fds + 1), -1);
		assert_int_equal(check(&rq, n_fds - 1), -1);
	}
}

static void layers_of_both_kinds_are_packed(void **state)
{
	struct wire_request rq = good_request(WIRE_LAYER_PACK);

	(void)state;
	assert_int_equal(check(&rq, 1), -1);
	rq.n_layers = 1;
	rq.layers[0].kind = WIRE_LAYER_BLOB;
	assert_int_equal(check(&rq, 1), 0);
	memset(rq.layers[0].name, 7, sizeof(rq.layers[0].name));
	assert_int_equal(check(&rq, 1), 0);
	rq.layers[0].kind = WIRE_LAYER_SNAPSHOT;
	assert_int_equal(check(&rq, 1), -1); /* more than a snapshot's name */
	rq.layers[0].kind = 0;
	assert_int_equal(check(&rq, 1), -1);
}

static void a_record_is_of_a_sandbox_or_of_one_snapshot(void **state)
{
	(void)state;
	for (unsigned call = WIRE_RECORD_SET; call <= WIRE_RECORD_GET; call++) {
		struct wire_request rq = good_request(call);
		size_t n_fds = call == WIRE_RECORD_SET;

		assert_int_equal(check(&rq, n_fds), 0);
		rq.n_layers = 1;
		rq.layers[0] = (struct wire_layer){ WIRE_LAYER_SNAPSHOT, { 1 } };
		assert_int_equal(check(&rq, n_fds), 0);
		rq.layers[0].kind = WIRE_LAYER_BLOB;
		assert_int_equal(check(&rq, n_fds), -1);
		rq.n_layers = 2;
		rq.layers[0] = rq.layers[1] = (struct wire_layer){ WIRE_LAYER_SNAPSHOT, { 1 } };
		assert_int_equal(check(&rq, n_fds), -1);
	}
}

static void layers_are_added_one_by_one_and_only_those_of_images(void **state)
{
	struct wire_request rq = good_request(WIRE_LAYER_ADD);

	(void)state;
	rq.blob = rq.diff_id = digest_of_sha256(rq.layers[0].name);
	assert_int_equal(check(&rq, 1), -1);
	rq.n_layers = 1;
	assert_int_equal(check(&rq, 1), -1);
	rq.layers[0].kind = WIRE_LAYER_SNAPSHOT;
	assert_int_equal(check(&rq, 1), -1);
	rq.layers[0].kind = WIRE_LAYER_BLOB;
	assert_int_equal(check(&rq, 1), 0);
	rq.n_layers = 2;
	assert_int_equal(check(&rq, 1), -1);
}

static void a_layer_that_is_added_has_the_name_of_its_blob(void **state)
{
	struct wire_request rq = good_request(WIRE_LAYER_ADD);
	uint32_t *const sizes[] = { &rq.blob.size, &rq.diff_id.size };

	(void)state;
	rq.n_layers = 1;
	rq.layers[0].kind = WIRE_LAYER_BLOB;
	rq.blob = digest_of(STR("blob"), SHA512_SIZE);
	rq.diff_id = digest_of(STR("tar"), SHA512_SIZE);
	assert_int_equal(check(&rq, 1), -1);
	memcpy(rq.layers[0].name, rq.blob.bytes, sizeof(rq.layers[0].name)); /* half of a digest is no name */
	assert_int_equal(check(&rq, 1), -1);
	digest_name(&rq.blob, rq.layers[0].name);
	assert_int_equal(check(&rq, 1), 0);
	rq.blob.bytes[SHA512_SIZE - 1] ^= 1;
	assert_int_equal(check(&rq, 1), -1);
	rq.blob.bytes[SHA512_SIZE - 1] ^= 1;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		*sizes[i] = SHA512_SIZE + 1;
		assert_int_equal(check(&rq, 1), -1);
		*sizes[i] = SHA256_SIZE; /* with something behind it */
		assert_int_equal(check(&rq, 1), -1);
		*sizes[i] = SHA512_SIZE;
	}
	assert_int_equal(check(&rq, 1), 0);
}

static void a_policy_is_a_third_descriptor(void **state)
{
	struct wire_request rq = good_request(WIRE_CREATE);

	(void)state;
	rq.network = WIRE_NET_OPEN;
	assert_int_equal(check(&rq, 2), 0);
	assert_int_equal(check(&rq, 3), -1);
	rq.network = WIRE_NET_POLICY;
	assert_int_equal(check(&rq, 3), 0);
	assert_int_equal(check(&rq, 2), -1);
	rq.network++;
	assert_int_equal(check(&rq, 2), -1);
	assert_int_equal(check(&rq, 3), -1);
}

static void anything_else_is_refused(void **state)
{
	struct wire_request bad[13], got;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good_request(WIRE_CREATE);
	bad[0].version++;
	bad[1].call = 0;
	bad[2].call = WIRE_ENDED;
	bad[3].serial = 0;
	memset(bad[4].id, 'a', sizeof(bad[4].id));
	memcpy(bad[5].id, "../x", 5);
	bad[6].id[0] = '\0';
	bad[7].limits.memory_bytes = 0;
	bad[8].limits.disk_bytes = 0;
	bad[9].call = UINT32_MAX;
	bad[10].image = WIRE_IMAGE_NONE;
	bad[11].n_layers = WIRE_LAYERS_MAX + 1;
	bad[12].n_layers = 1;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(check(&bad[i], 2), -1);
	bad[0] = good_request(WIRE_DIAL);
	bad[0].port = 65536;
	assert_int_equal(check(&bad[0], 0), -1);
	bad[0].port = 65535;
	assert_int_equal(wire_check_request(&bad[0], wire_request_size(&bad[0]) - 1, 0, &got, &(struct err){ 0 }), -1);
	assert_int_equal(check(&bad[0], 0), 0);
}

static void a_snapshot_has_one_name_of_its_own_kind(void **state)
{
	(void)state;
	for (unsigned call = WIRE_SNAPSHOT; call <= WIRE_SNAPSHOT_REMOVE; call++) {
		struct wire_request rq = good_request(call);

		assert_int_equal(check(&rq, 0), -1);
		rq.n_layers = 1;
		rq.layers[0] = (struct wire_layer){ WIRE_LAYER_BLOB, { 1 } };
		assert_int_equal(check(&rq, 0), -1);
		rq.layers[0].kind = WIRE_LAYER_SNAPSHOT;
		assert_int_equal(check(&rq, 0), 0);
		rq.layers[0].name[WIRE_SNAPSHOT_SIZE] = 1;
		assert_int_equal(check(&rq, 0), -1);
	}
}

/* ---- volumes ---- */

struct asked {
	struct wire_request rq;
	struct wire_volume volumes[WIRE_VOLUMES_MAX];
};

static struct asked with_volumes(size_t n)
{
	struct asked m = { .rq = good_request(WIRE_CREATE) };

	for (size_t i = 0; i < n; i++) {
		m.volumes[i] = (struct wire_volume){ .kind = WIRE_VOLUME_NAMED, .id = "v-1", .is_read_only = i % 2, .path = "a/b" };
		(void)snprintf(m.volumes[i].mount_path, WIRE_PATH_SIZE, "/mnt/%zu", i);
	}
	return m;
}

static int check_volumes(const struct asked *m, size_t n)
{
	static struct wire_create bytes;
	size_t size = wire_pack(&m->rq, m->volumes, n, &bytes);
	struct wire_volumes got;
	struct wire_request rq;
	struct err e = { 0 };
	int r = wire_check_request(&bytes, size, 2, &rq, &e);

	if (r == 0)
		r = wire_check_volumes(&bytes, size, &rq, &got, &e);
	assert_true(r == 0 || e.code == ERR_INVALID);
	if (r == 0) {
		assert_memory_equal(&rq, &m->rq, sizeof(rq));
		assert_int_equal(got.n, n);
		assert_memory_equal(got.at, m->volumes, n * sizeof(got.at[0]));
	}
	return r;
}

static void a_create_has_as_many_volumes_as_its_size_says(void **state)
{
	struct asked m = with_volumes(WIRE_VOLUMES_MAX);
	static struct wire_create bytes;
	struct wire_request rq;
	size_t size;

	(void)state;
	for (uint32_t layers = 0; layers <= WIRE_LAYERS_MAX; layers += WIRE_LAYERS_MAX) {
		for (uint32_t i = 0; i < layers; i++)
			m.rq.layers[i].kind = WIRE_LAYER_BLOB;
		m.rq.n_layers = layers;
		for (size_t n = 0; n <= WIRE_VOLUMES_MAX; n++)
			assert_int_equal(check_volumes(&m, n), 0);
	}
	m = with_volumes(1);
	size = wire_pack(&m.rq, m.volumes, 1, &bytes);
	for (size_t n = 1; n < 3; n++) {
		assert_int_equal(wire_check_request(&bytes, size - n, 2, &rq, &(struct err){ 0 }), -1);
		assert_int_equal(wire_check_request(&bytes, size + n, 2, &rq, &(struct err){ 0 }), -1);
	}
	bytes.rq.call = WIRE_PAUSE;
	assert_int_equal(wire_check_request(&bytes, size, 0, &rq, &(struct err){ 0 }), -1);
	assert_int_equal(wire_check_request(&bytes, wire_request_size(&bytes.rq), 0, &rq, &(struct err){ 0 }), 0);
}

static void no_bad_volume_passes(void **state)
{
	static struct asked bad[12];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = with_volumes(2);
	bad[0].volumes[1].kind = 0;
	bad[1].volumes[1].kind = 3;
	bad[2].volumes[1].is_read_only = 2;
	bad[3].volumes[1].id[0] = '\0';
	memcpy(bad[4].volumes[1].id, "../x", 5);
	bad[5].volumes[1].prefix = 1;
	bad[6].volumes[1].kind = WIRE_VOLUME_HOST; /* with an id */
	memset(bad[7].volumes[1].path, 'a', WIRE_PATH_SIZE);
	memset(bad[8].volumes[1].mount_path, '/', WIRE_PATH_SIZE);
	memcpy(bad[9].volumes[1].mount_path, "/mnt/0", 7); /* the same */
	memcpy(bad[10].volumes[1].mount_path, "/mnt", 5);  /* covers it */
	memset(bad[11].volumes[1].id, 'a', WIRE_ID_SIZE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(check_volumes(&bad[i], 2), -1);
	memcpy(bad[9].volumes[1].mount_path, "/mnt/0/in", 10); /* in it, and behind it */
	assert_int_equal(check_volumes(&bad[9], 2), 0);
}

static void paths_are_plain(void **state)
{
	static const char *const good[] = { "", "a", "a/b", "...", "a b/\303\244", ".a/..b" };
	static const char *const bad[] = { "/", "/a", "a/", "a//b", ".", "..", "a/..", "a/./b", "../a" };
	static const char *const mounts[] = { "/a", "/a/b", "/procs", "/device", "/usr", "/a/proc" };
	static const char *const no_mounts[] = { "",      "/",    "a",        "//a",       "/a/",   "/a/..", "/proc",
						 "/proc/x", "/sys", "/dev/shm", "/dev",      "/./proc", "/a//b" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(wire_path_valid(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(wire_path_valid(bad[i]));
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
		assert_true(wire_mount_path_valid(mounts[i]));
	for (size_t i = 0; i < ARRAY_LEN(no_mounts); i++)
		assert_false(wire_mount_path_valid(no_mounts[i]));
	assert_true(wire_path_within("/a/b", "/a") && wire_path_within("/a", "/a") && !wire_path_within("/ab", "/a"));
}

static struct wire_reply good_reply(void)
{
	return (struct wire_reply){ .version = WIRE_VERSION, .call = WIRE_PAUSE, .serial = 7, .id = "ab-12" };
}

static int check_reply(const struct wire_reply *rp)
{
	struct wire_reply got;

	return wire_check_reply(rp, sizeof(*rp), &got, &(struct err){ 0 });
}

static void replies_are_checked_too(void **state)
{
	struct wire_reply bad[10], rp = good_reply();

	(void)state;
	assert_int_equal(check_reply(&rp), 0);
	rp.failed = 1;
	rp.err.code = ERR_LIMIT;
	assert_int_equal(check_reply(&rp), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good_reply();
	bad[0].call = WIRE_ENDED; /* needs serial 0 */
	bad[1].serial = 0;
	bad[2].failed = 2;
	bad[3].state = WIRE_OVER + 1;
	bad[4].ending.reason = WIRE_END_LOST + 1;
	bad[5].ending.oom = 2;
	bad[9].snapshot.has_record = 2;
	memset(bad[6].err.msg, 'a', sizeof(bad[6].err.msg));
	bad[7].failed = 1; /* with no error */
	memcpy(bad[8].id, "A", 2);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(check_reply(&bad[i]), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_requests_pass), cmocka_unit_test(layers_of_both_kinds_are_packed),
		cmocka_unit_test(a_record_is_of_a_sandbox_or_of_one_snapshot),
		cmocka_unit_test(layers_are_added_one_by_one_and_only_those_of_images),
		cmocka_unit_test(a_layer_that_is_added_has_the_name_of_its_blob),
		cmocka_unit_test(a_policy_is_a_third_descriptor), cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(a_snapshot_has_one_name_of_its_own_kind),
		cmocka_unit_test(a_create_has_as_many_volumes_as_its_size_says),
		cmocka_unit_test(no_bad_volume_passes),
		cmocka_unit_test(paths_are_plain),
		cmocka_unit_test(replies_are_checked_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
