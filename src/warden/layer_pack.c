// SPDX-License-Identifier: Apache-2.0
#include "warden/layer_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "box/etc.h"
#include "box/volume.h"
#include "image/tar.h"
#include "sys/passing.h"
#include "sys/userns.h"
#include "warden/layer_dir.h"
#include "warden/layers.h"
#include "warden/peer.h"
#include "warden/stack.h"
#include "warden/unpacker.h"
#include "warden/warden.h"

#include "base/banned.h"

#define ID_BASE (IMAGE_ID_BASE + (uint64_t)(IMAGES_MAX + LAYER_ADDS_MAX) * USERNS_IDS) /* above those of layers that are added */

_Static_assert(ID_BASE + (uint64_t)LAYER_PACKS_MAX * USERNS_IDS <= VOLUME_ID_BASE, "ids of volumes are others");

/* In memory that it shares with its worker, which writes the digest. */
struct layer_pack {
	struct layer_pack *next;
	struct warden *w;
	struct ticket ticket;
	unsigned place; /* which nobody else has, of LAYER_PACKS_MAX */
	char layer[SLOT_LAYER_NAME_MAX + 1];
	bool is_snapshot;
	int out;
	uint64_t disk_max;
	unsigned char digest[SHA256_SIZE];
	struct worker worker;
};

/* ---- in the worker ---- */

static int open_layer(const struct layer_pack *p, struct err *e)
{
	AUTO_FD layers = layer_dir_open(p->w->host.layers_path, e);
	AUTO_FD dir = -1;

	if (layers < 0)
		return -1;
	dir = openat(layers, p->layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0 && p->is_snapshot) {
		int upper = openat(dir, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		closep(&dir);
		dir = upper;
	}
	if (dir < 0)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no such layer") : err_sys(e, errno, "open a layer");
	return take_fd(&dir);
}

static int pack_work(void *arg, struct err *e)
{
	struct layer_pack *p = arg;
	AUTO_FD dir = open_layer(p, e);
	struct packer_spec spec = {
		.program = images_unpacker(p->w), .id_base = ID_BASE + p->place * (uint64_t)USERNS_IDS, .dir = dir, .out = p->out,
		.bytes_max = TAR_FILE_MAX, .disk_max = p->disk_max,
	};

	if (dir < 0)
		return -1;
	if (p->is_snapshot) {
		spec.left_out = etc_files;
		if (box_layer_id_base(&p->w->host.store, p->layer, &spec.from_base, e) < 0)
			return -1;
	}
	KILL_POINT("warden.pack.begun");
	return packer_run(&spec, p->digest, e);
}

/* ---- in the loop ---- */

static void unlink_pack(struct layer_pack *p)
{
	struct layer_pack **at = &p->w->packs;

	for (; *at != p; at = &(*at)->next)
		;
	*at = p->next;
}

static void free_pack(struct layer_pack *p)
{
	unlink_pack(p);
	worker_forget(&p->worker);
	(void)munmap(p, sizeof(*p));
}

/* What may name paths of the host is for the log alone. */
static void say_why(const struct layer_pack *p, const struct err *failure, struct err *ret)
{
	log_warn("a layer cannot be packed", LOG_S("layer", p->layer), LOG_ERR(failure));
	if (failure->code == ERR_INVALID || failure->code == ERR_LIMIT || failure->code == ERR_NOT_FOUND)
		*ret = *failure;
	else
		(void)err_set(ret, ERR_UNAVAILABLE, "a layer cannot be packed at the moment");
}

static void on_packed(const struct err *failure, void *arg)
{
	struct layer_pack *p = arg;
	struct wire_reply rp = { .layer.kind = WIRE_LAYER_BLOB };
	struct err why = { 0 };

	if (failure) {
		say_why(p, failure, &why);
		answer(p->w, &p->ticket, &why);
	} else {
		memcpy(rp.layer.name, p->digest, sizeof(rp.layer.name));
		log_info("layer packed", LOG_S("layer", p->layer));
		answer_with(p->w, &p->ticket, &rp, NULL, 0);
	}
	KILL_POINT("warden.pack.told");
	free_pack(p);
}

bool layer_is_packed(const struct warden *w, const char *layer)
{
	for (const struct layer_pack *p = w->packs; p; p = p->next)
		if (strcmp(p->layer, layer) == 0)
			return true;
	return false;
}

static int free_place(const struct warden *w)
{
	bool is_taken[LAYER_PACKS_MAX] = { false };

	for (const struct layer_pack *p = w->packs; p; p = p->next)
		is_taken[p->place] = true;
	for (int i = 0; i < LAYER_PACKS_MAX; i++)
		if (!is_taken[i])
			return i;
	return -1;
}

/* P2: a descriptor of the server's is only ever written to, by somebody without rights, and only if it is an empty file. */
static int check_out(int fd, struct err *e)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != 0 || (flags & O_ACCMODE) == O_RDONLY ||
	    (flags & (O_APPEND | O_PATH)))
		return err_set(e, ERR_INVALID, "where the layer is to be written to is no empty file");
	return 0;
}

static struct layer_pack *new_pack(struct warden *w, const struct wire_request *rq, const struct ticket *t, struct err *e)
{
	int place = free_place(w);
	struct layer_pack *p = MAP_FAILED;

	if (w->is_stopping || place < 0) {
		(void)err_set(e, ERR_UNAVAILABLE, place < 0 ? "too many layers are being packed" : "stopping");
		return NULL;
	}
	p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		(void)err_no_memory(e);
		return NULL;
	}
	*p = (struct layer_pack){ .next = w->packs, .w = w, .ticket = *t, .place = (unsigned)place, .worker = WORKER_INIT,
				  .is_snapshot = rq->layers[0].kind == WIRE_LAYER_SNAPSHOT, .disk_max = rq->limits.disk_bytes };
	stack_layer_name(&rq->layers[0], p->layer);
	w->packs = p;
	return p;
}

void layer_pack(struct warden *w, const struct wire_request *rq, struct passed *got, const struct ticket *t)
{
	struct layer_pack *p;
	struct err e = { 0 };

	if (check_out(got->fds[0], &e) < 0 || !(p = new_pack(w, rq, t, &e))) {
		answer(w, t, &e);
		return;
	}
	p->out = take_fd(&got->fds[0]); /* the worker's then, by the same number */
	worker_start(&p->worker, &w->unpackers, pack_work, on_packed, p, p->out);
}

void layer_packs_done(struct warden *w)
{
	while (w->packs)
		free_pack(w->packs);
}
