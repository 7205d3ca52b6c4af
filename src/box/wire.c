// SPDX-License-Identifier: Apache-2.0
#include "box/wire.h"

#include <string.h>

#include "base/uuid.h"

#include "base/banned.h"

static bool has_id(const char id[WIRE_ID_SIZE])
{
	return memchr(id, '\0', WIRE_ID_SIZE) && id_valid(str_of(id));
}

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "a message with %s", what);
}

static int check_create(const struct wire_request *rq, struct err *e)
{
	const struct wire_limits *l = &rq->limits;

	if (rq->n_layers == 0 && rq->image == WIRE_IMAGE_NONE)
		return bad(e, "no root that could be");
	for (size_t i = 0; i < rq->n_layers; i++)
		if (rq->layers[i].kind < WIRE_LAYER_BLOB || rq->layers[i].kind > WIRE_LAYER_SNAPSHOT)
			return bad(e, "an unknown kind of layer");
	if (l->cpu_milli == 0 || l->memory_bytes == 0 || l->pids == 0 || l->disk_bytes == 0 || l->inodes == 0)
		return bad(e, "a limit of 0");
	return 0;
}

size_t wire_request_size(const struct wire_request *rq)
{
	return offsetof(struct wire_request, layers) + rq->n_layers * sizeof(rq->layers[0]);
}

bool wire_is_about_one(uint32_t call)
{
	return call != WIRE_LIST && call != WIRE_SNAPSHOTS && call != WIRE_SNAPSHOT_REMOVE && call != WIRE_LAYER_ADD &&
	       call != WIRE_LAYER_DROP && call != WIRE_LAYERS;
}

static int check_snapshot(const struct wire_request *rq, struct err *e)
{
	static const unsigned char nothing[WIRE_LAYER_SIZE - WIRE_SNAPSHOT_SIZE];
	const struct wire_layer *l = &rq->layers[0];

	if (rq->n_layers != 1 || l->kind != WIRE_LAYER_SNAPSHOT || memcmp(l->name + WIRE_SNAPSHOT_SIZE, nothing, sizeof(nothing)) != 0)
		return bad(e, "no snapshot");
	return 0;
}

int wire_check_request(const void *bytes, size_t n, size_t n_fds, struct wire_request *ret, struct err *e)
{
	struct wire_request rq = { 0 };

	if (n < offsetof(struct wire_request, layers) || n > sizeof(rq))
		return bad(e, "another size");
	memcpy(&rq, bytes, n);
	if (rq.n_layers > WIRE_LAYERS_MAX || n != wire_request_size(&rq))
		return bad(e, "another size than its layers have");
	if (rq.version != WIRE_VERSION)
		return bad(e, "another version");
	if (rq.call < WIRE_CREATE || rq.call >= WIRE_ENDED || rq.serial == 0)
		return bad(e, "an unknown call");
	if (n_fds != (rq.call == WIRE_CREATE || rq.call == WIRE_LAYER_ADD))
		return bad(e, "the wrong descriptors");
	if (wire_is_about_one(rq.call) && !has_id(rq.id))
		return bad(e, "a bad id");
	if (rq.call == WIRE_DIAL && rq.port > 65535)
		return bad(e, "a bad port");
	if (rq.call == WIRE_CREATE && check_create(&rq, e) < 0)
		return -1;
	if ((rq.call == WIRE_SNAPSHOT || rq.call == WIRE_SNAPSHOT_REMOVE) && check_snapshot(&rq, e) < 0)
		return -1;
	if ((rq.call == WIRE_LAYER_ADD || rq.call == WIRE_LAYER_DROP) &&
	    (rq.n_layers != 1 || rq.layers[0].kind != WIRE_LAYER_BLOB))
		return bad(e, "no layer of an image");
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
	if (rp.failed > 1 || rp.state > WIRE_OVER || rp.ending.reason > WIRE_END_LOST || rp.ending.oom > 1)
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
