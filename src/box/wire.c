// SPDX-License-Identifier: Apache-2.0
#include "box/wire.h"

#include <string.h>

#include "base/own.h"
#include "base/uuid.h"

#include "base/banned.h"

#define WIRE_NAME_MAX 255 /* of one file */

static bool has_id(const char id[WIRE_ID_SIZE])
{
	return memchr(id, '\0', WIRE_ID_SIZE) && id_valid(str_of(id));
}

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "a message with %s", what);
}

/* ---- sizes ---- */

size_t wire_request_size(const struct wire_request *rq)
{
	return offsetof(struct wire_request, layers) + rq->n_layers * sizeof(rq->layers[0]);
}

size_t wire_pack(const struct wire_request *rq, const struct wire_volume *volumes, size_t n, struct wire_create *ret)
{
	size_t at = wire_request_size(rq);

	memcpy(ret, rq, at);
	memcpy((char *)ret + at, volumes, n * sizeof(volumes[0]));
	return at + n * sizeof(volumes[0]);
}

/* ---- volumes ---- */

bool wire_path_valid(const char *path)
{
	struct str rest = str_of(path), word;

	if (rest.n >= WIRE_PATH_SIZE)
		return false;
	while (rest.n > 0) {
		bool has_more = str_cut(rest, '/', &word, &rest);

		if (word.n == 0 || word.n > WIRE_NAME_MAX || str_is(word, ".") || str_is(word, ".."))
			return false;
		if (has_more && rest.n == 0)
			return false;
	}
	return true;
}

bool wire_path_within(const char *path, const char *other)
{
	size_t n = strlen(other);

	return strncmp(path, other, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool wire_mount_path_valid(const char *path)
{
	return path[0] == '/' && path[1] && strlen(path) < WIRE_PATH_SIZE && wire_path_valid(path + 1) &&
	       !wire_path_within(path, "/proc") && !wire_path_within(path, "/sys") && !wire_path_within(path, "/dev");
}

static int check_volume(const struct wire_volume *v, struct err *e)
{
	if (v->kind != WIRE_VOLUME_HOST && v->kind != WIRE_VOLUME_NAMED)
		return bad(e, "a volume of an unknown kind");
	if (v->is_read_only > 1)
		return bad(e, "a value out of range");
	if (!memchr(v->path, '\0', sizeof(v->path)) || !memchr(v->mount_path, '\0', sizeof(v->mount_path)))
		return bad(e, "text without an end");
	if (v->kind == WIRE_VOLUME_NAMED ? !has_id(v->id) || v->prefix != 0 : v->id[0] != '\0')
		return bad(e, "a volume that is not named as its kind is");
	if (!wire_path_valid(v->path) || !wire_mount_path_valid(v->mount_path))
		return bad(e, "a bad path of a volume");
	return 0;
}

int wire_check_volumes(const void *bytes, size_t n, const struct wire_request *rq, struct wire_volumes *ret, struct err *e)
{
	size_t at = wire_request_size(rq);

	ret->n = (n - at) / sizeof(ret->at[0]);
	memcpy(ret->at, (const char *)bytes + at, ret->n * sizeof(ret->at[0]));
	for (size_t i = 0; i < ret->n; i++) {
		if (check_volume(&ret->at[i], e) < 0)
			return -1;
		for (size_t k = 0; k < i; k++)
			if (wire_path_within(ret->at[k].mount_path, ret->at[i].mount_path))
				return bad(e, "a volume that would cover another");
	}
	return 0;
}

/* ---- requests ---- */

/* MORE: bytes behind the request. */
static bool is_size(uint32_t call, size_t more)
{
	if (call != WIRE_CREATE)
		return more == 0;
	return more % sizeof(struct wire_volume) == 0 && more / sizeof(struct wire_volume) <= WIRE_VOLUMES_MAX;
}

static bool is_about_volume(uint32_t call)
{
	return call == WIRE_VOLUME_MAKE || call == WIRE_VOLUME_REMOVE;
}

static int check_create(const struct wire_request *rq, struct err *e)
{
	const struct wire_limits *l = &rq->limits;

	if (rq->network > WIRE_NET_POLICY)
		return bad(e, "an unknown network");
	if (rq->n_layers == 0 && rq->image == WIRE_IMAGE_NONE)
		return bad(e, "no root that could be");
	for (size_t i = 0; i < rq->n_layers; i++)
		if (rq->layers[i].kind < WIRE_LAYER_BLOB || rq->layers[i].kind > WIRE_LAYER_SNAPSHOT)
			return bad(e, "an unknown kind of layer");
	if (l->cpu_milli == 0 || l->memory_bytes == 0 || l->pids == 0 || l->disk_bytes == 0)
		return bad(e, "a limit of 0");
	return 0;
}

bool wire_is_about_one(uint32_t call)
{
	return call != WIRE_LIST && call != WIRE_SNAPSHOTS && call != WIRE_SNAPSHOT_REMOVE && call != WIRE_LAYER_ADD &&
	       call != WIRE_LAYER_DROP && call != WIRE_LAYERS && call != WIRE_LAYER_PACK &&
	       call != WIRE_VOLUMES && !is_about_volume(call);
}

static int check_snapshot(const struct wire_request *rq, struct err *e)
{
	static const unsigned char nothing[WIRE_LAYER_SIZE - WIRE_SNAPSHOT_SIZE];
	const struct wire_layer *l = &rq->layers[0];

	if (rq->n_layers != 1 || l->kind != WIRE_LAYER_SNAPSHOT || memcmp(l->name + WIRE_SNAPSHOT_SIZE, nothing, sizeof(nothing)) != 0)
		return bad(e, "no snapshot");
	return 0;
}

/* How many descriptors belong to it. */
static size_t wire_fds(const struct wire_request *rq)
{
	if (rq->call == WIRE_CREATE)
		return rq->network == WIRE_NET_POLICY ? 3 : 2;
	return rq->call == WIRE_LAYER_ADD || rq->call == WIRE_LAYER_PACK || rq->call == WIRE_RECORD_SET;
}

/* The layer is known by the blob that it is made of, and by no other. */
static bool digests_fit(const struct wire_request *rq)
{
	unsigned char name[DIGEST_NAME_SIZE];

	if (!digest_valid(&rq->blob) || !digest_valid(&rq->diff_id))
		return false;
	digest_name(&rq->blob, name);
	return memcmp(name, rq->layers[0].name, sizeof(name)) == 0;
}

int wire_check_request(const void *bytes, size_t n, size_t n_fds, struct wire_request *ret, struct err *e)
{
	struct wire_request rq = { 0 };

	if (n < offsetof(struct wire_request, layers))
		return bad(e, "another size");
	memcpy(&rq, bytes, MIN(n, sizeof(rq)));
	if (rq.n_layers > WIRE_LAYERS_MAX || n < wire_request_size(&rq))
		return bad(e, "another size than its layers have");
	memset(rq.layers + rq.n_layers, 0, (WIRE_LAYERS_MAX - rq.n_layers) * sizeof(rq.layers[0]));
	if (rq.version != WIRE_VERSION)
		return bad(e, "another version");
	if (rq.call < WIRE_CREATE || rq.call >= WIRE_ENDED || rq.serial == 0)
		return bad(e, "an unknown call");
	if (!is_size(rq.call, n - wire_request_size(&rq)))
		return bad(e, "another size");
	if (n_fds != wire_fds(&rq))
		return bad(e, "the wrong descriptors");
	if ((wire_is_about_one(rq.call) || is_about_volume(rq.call)) && !has_id(rq.id))
		return bad(e, "a bad id");
	if (rq.call == WIRE_DIAL && rq.port > 65535)
		return bad(e, "a bad port");
	if (rq.call == WIRE_CREATE && check_create(&rq, e) < 0)
		return -1;
	if ((rq.call == WIRE_SNAPSHOT || rq.call == WIRE_SNAPSHOT_REMOVE) && check_snapshot(&rq, e) < 0)
		return -1;
	if ((rq.call == WIRE_RECORD_SET || rq.call == WIRE_RECORD_GET) && rq.n_layers > 0 && check_snapshot(&rq, e) < 0)
		return -1;
	if ((rq.call == WIRE_LAYER_ADD || rq.call == WIRE_LAYER_DROP) &&
	    (rq.n_layers != 1 || rq.layers[0].kind != WIRE_LAYER_BLOB))
		return bad(e, "no layer of an image");
	if (rq.call == WIRE_LAYER_ADD && !digests_fit(&rq))
		return bad(e, "digests that do not fit the layer");
	if (rq.call == WIRE_LAYER_PACK && (rq.n_layers != 1 || (rq.layers[0].kind != WIRE_LAYER_BLOB && check_snapshot(&rq, e) < 0)))
		return bad(e, "no layer");
	*ret = rq;
	return 0;
}

int wire_check_reply(const void *bytes, size_t n, struct wire_reply *ret, struct err *e)
{
	struct wire_reply rp;

	if (n != sizeof(rp))
		return bad(e, "another size");
	memcpy(&rp, bytes, sizeof(rp));
	if (rp.version != WIRE_VERSION)
		return bad(e, "another version");
	if (rp.call < WIRE_CREATE || rp.call > WIRE_ENDED || (rp.serial == 0) != (rp.call == WIRE_ENDED))
		return bad(e, "an unknown call");
	if (rp.failed > 1 || rp.state > WIRE_OVER || rp.ending.reason > WIRE_END_LOST || rp.ending.oom > 1 || rp.snapshot.has_record > 1)
		return bad(e, "a value out of range");
	if (rp.layer.kind > WIRE_LAYER_SNAPSHOT)
		return bad(e, "an unknown kind of layer");
	if (!memchr(rp.id, '\0', sizeof(rp.id)) || !memchr(rp.err.msg, '\0', sizeof(rp.err.msg)))
		return bad(e, "text without an end");
	if (rp.id[0] && !has_id(rp.id))
		return bad(e, "a bad id");
	if (rp.failed && (rp.err.code <= ERR_NONE || rp.err.code > ERR_INTERNAL))
		return bad(e, "an unknown error");
	*ret = rp;
	return 0;
}
