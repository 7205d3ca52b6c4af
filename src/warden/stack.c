// SPDX-License-Identifier: Apache-2.0
#include "warden/stack.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "sys/fd.h"
#include "warden/warden.h"

#include "base/banned.h"

#define BYTES_MAX (WIRE_LAYERS_MAX * sizeof(struct slot_layer))

void stack_done(struct stack *s)
{
	free(s->layers);
	*s = (struct stack){ 0 };
}

void stack_layer_name(const struct wire_layer *layer, char ret[SLOT_LAYER_NAME_MAX + 1])
{
	bool is_blob = layer->kind == WIRE_LAYER_BLOB;

	memcpy(ret, is_blob ? "blob-" : "snap-", sizeof("blob-"));
	hex_encode(ret + strlen("blob-"), layer->name, is_blob ? WIRE_LAYER_SIZE : WIRE_LAYER_SIZE / 2);
}

static int find_disk(const struct warden *w, bool has_usr, struct slot_layer *ret, struct err *e)
{
	if (has_usr && box_layer_join(&w->host.store, ret->name, e) < 0)
		return -1;
	return box_layer_id_base(&w->host.store, ret->name, &ret->id_base, e);
}

static int find_blob(int layers, const struct slot_layer *layer, struct err *e)
{
	struct stat st;

	if (fstatat(layers, layer->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_NOT_FOUND, "there is no layer '%s'", layer->name);
	return 0;
}

int stack_find(const struct warden *w, const struct wire_request *rq, bool has_usr, struct stack *ret, struct err *e)
{
	AUTO(stack_done) struct stack s = { 0 };
	AUTO_FD layers = -1;

	*ret = s;
	if (rq->n_layers == 0)
		return 0;
	layers = open(w->host.layers_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (layers < 0)
		return err_set(e, ERR_UNAVAILABLE, "the layers cannot be opened: %s", strerror(errno));
	s.layers = calloc(rq->n_layers, sizeof(*s.layers));
	if (!s.layers)
		return err_no_memory(e);
	for (; s.n < rq->n_layers; s.n++) {
		struct slot_layer *l = &s.layers[s.n];

		l->is_disk = rq->layers[s.n].kind == WIRE_LAYER_SNAPSHOT;
		stack_layer_name(&rq->layers[s.n], l->name);
		if ((l->is_disk ? find_disk(w, has_usr, l, e) : find_blob(layers, l, e)) < 0)
			return -1;
	}
	*ret = s;
	s = (struct stack){ 0 };
	return 0;
}

bool stack_has(const struct stack *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->layers[i].name, name) == 0)
			return true;
	return s->is_unknown;
}

/* ---- the file: never leaves its host and its boot, so it is what we have in memory ---- */

int stack_write(int dir, const struct stack *s, struct err *e)
{
	size_t size = s->n * sizeof(*s->layers);
	AUTO_FD fd = -1;
	ssize_t n;

	if (s->n == 0)
		return 0;
	fd = openat(dir, STACK_FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	n = fd < 0 ? -1 : pwrite(fd, s->layers, size, 0);
	return n == (ssize_t)size ? 0 : err_sys(e, n < 0 ? errno : ENOSPC, "note the layers of a box");
}

static int check(const struct slot_layer *l, struct err *e)
{
	if (!memchr(l->name, '\0', sizeof(l->name)) || strspn(l->name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(l->name) ||
	    !l->name[0])
		return err_set(e, ERR_INVALID, "a layer of a box that has no name");
	return 0;
}

int stack_decode(struct str bytes, struct stack *ret, struct err *e)
{
	AUTO(stack_done) struct stack s = { 0 };

	*ret = s;
	if (bytes.n % sizeof(*s.layers) != 0)
		return err_set(e, ERR_INVALID, "the layers of a box: another size");
	s.layers = calloc(bytes.n / sizeof(*s.layers) + 1, sizeof(*s.layers));
	if (!s.layers)
		return err_no_memory(e);
	memcpy(s.layers, bytes.p, bytes.n);
	for (; s.n < bytes.n / sizeof(*s.layers); s.n++)
		if (check(&s.layers[s.n], e) < 0)
			return -1;
	*ret = s;
	s = (struct stack){ 0 };
	return 0;
}

int stack_read(int dir, struct stack *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(BYTES_MAX);

	*ret = (struct stack){ 0 };
	if (fd_read_file(dir, STACK_FILE_NAME, BYTES_MAX, &b, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	return stack_decode(buf_str(&b), ret, e);
}
