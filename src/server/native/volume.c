// SPDX-License-Identifier: Apache-2.0
/* What goes with a create: its record and its volumes; volumes made and removed, and what can be wrong with them. */
#include <stdio.h>

#include "base/arena.h"
#include "server/native/native_impl.h"
#include "server/runtime/volume_path.h"
#include "sys/memfd.h"

#include "base/banned.h"

#define PATHS_MAX ((size_t)1024 * 1024) /* of memory, for all that the operator has listed */

/* What is wrong with a volume; the words are the warden's own, and name nothing of the host. */
bool native_is_volume_fault(const struct err *e, struct runtime_failure *f)
{
	static const struct {
		int fault;
		unsigned status;
		const char *code;
	} rows[] = {
		{ WIRE_FAULT_HOST_PATH, 400, "HOST_PATH_NOT_ALLOWED" }, { WIRE_FAULT_HOST_CREATE, 500, "HOST_PATH_CREATE_FAILED" },
		{ WIRE_FAULT_IDS, 400, "UNSUPPORTED_BACKEND" },         { WIRE_FAULT_SUB_PATH, 400, "INVALID_SUB_PATH" },
		{ WIRE_FAULT_NO_VOLUME, 500, "PVC_INSPECT_FAILED" },    { WIRE_FAULT_MOUNT_PATH, 400, "INVALID_MOUNT_PATH" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (e->sys != rows[i].fault || e->code != ERR_INVALID)
			continue;
		f->prefix = "VOLUME";
		f->code = rows[i].code;
		f->status = rows[i].status;
		(void)snprintf(f->says, sizeof(f->says), "%s", e->msg);
		return true;
	}
	return false;
}

_Static_assert(VOLUME_PATH_MAX + 1 == WIRE_PATH_SIZE, "what is valid fits");

/* The warden knows folders of the host by their numbers in the operator's list, which it has as well. */
static int wire_volume_of(const struct native *n, const struct runtime_volume *v, struct wire_volume *ret, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(PATHS_MAX);
	struct wire_volume w = { .kind = WIRE_VOLUME_NAMED, .is_read_only = v->is_read_only };
	const char *path = v->path;
	int folder = 0;

	if (v->kind == RUNTIME_VOLUME_HOST) {
		folder = n->host_paths ? volume_path_find(n->host_paths, v->path, &a, &path) : -1;
		w.kind = WIRE_VOLUME_HOST;
		w.prefix = (uint32_t)folder;
	}
	if (folder < 0) {
		(void)err_set(e, ERR_INVALID, "a path of the host that is in no folder that the operator allows");
		e->sys = WIRE_FAULT_HOST_PATH;
		return -1;
	}
	(void)snprintf(w.id, sizeof(w.id), "%s", v->id ? v->id : ""); /* what is too long for these, the warden refuses as a whole */
	(void)snprintf(w.path, sizeof(w.path), "%s", path);
	(void)snprintf(w.mount_path, sizeof(w.mount_path), "%s", v->mount_path);
	*ret = w;
	return 0;
}

static int wire_volumes_of(const struct native *n, const struct runtime_spec *spec, struct wire_volume *ret, struct err *e)
{
	if (spec->n_volumes > WIRE_VOLUMES_MAX)
		return err_set(e, ERR_INVALID, "more than %d volumes", WIRE_VOLUMES_MAX);
	for (size_t i = 0; i < spec->n_volumes; i++)
		if (wire_volume_of(n, &spec->volumes[i], &ret[i], e) < 0)
			return -1;
	return 0;
}

void native_create_send(struct call *c, const struct runtime_spec *spec, const struct wire_request *rq, int fd)
{
	struct wire_volume volumes[WIRE_VOLUMES_MAX] = { 0 };
	struct wire_create m;
	AUTO_FD record = memfd_sealed_bytes("record", spec->record, &c->failure);
	AUTO_FD policy = -1;
	bool has_policy = spec->network == RUNTIME_NET_POLICY;
	size_t size;

	if (record >= 0 && has_policy)
		policy = native_policy_make(spec, &c->failure);
	if (record < 0 || (has_policy && policy < 0) || wire_volumes_of(c->n, spec, volumes, &c->failure) < 0) {
		native_call_fail_later(c);
		return;
	}
	size = wire_pack(rq, volumes, spec->n_volumes, &m);
	native_call_send_all(c, spec->id, &m.rq, size, (int[]){ fd, record, policy }, has_policy ? 3 : 2);
}

void native_volume_make(struct runtime *rt, const char *id, uint64_t limit_bytes, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_VOLUME_MAKE, completion_done(fn, arg));
	struct wire_request rq = { .limits.disk_bytes = limit_bytes };

	if (!c)
		return;
	native_call_send(c, id, &rq, -1);
}

void native_volume_remove(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	native_call_simple(rt, WIRE_VOLUME_REMOVE, id, fn, arg);
}
