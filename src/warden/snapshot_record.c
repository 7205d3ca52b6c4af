// SPDX-License-Identifier: Apache-2.0
#include "warden/snapshot_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/own.h"
#include "sys/fd.h"
#include "warden/layer_dir.h"
#include "warden/snapshot.h"
#include "warden/stack.h"
#include "warden/warden.h"

#include "base/banned.h"

#define NEW "new-"

struct record_name {
	char text[sizeof(NEW "record-") + SLOT_LAYER_NAME_MAX];
};

/* Of the layer "snap-...". */
static struct record_name name_of(const char *prefix, const char *layer)
{
	struct record_name n;

	(void)snprintf(n.text, sizeof(n.text), "%srecord-%s", prefix, layer + strlen("snap-"));
	return n;
}

bool snapshot_has_record(int layers, const char *layer)
{
	struct record_name name = name_of("", layer);
	struct stat st;

	return fstatat(layers, name.text, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int snapshot_record_remove(int layers, const char *layer, struct err *e)
{
	struct record_name name = name_of("", layer), new = name_of(NEW, layer);

	if ((unlinkat(layers, name.text, 0) < 0 && errno != ENOENT) || (unlinkat(layers, new.text, 0) < 0 && errno != ENOENT))
		return err_sys(e, errno, "remove '%s'", name.text);
	return 0;
}

static int copy(int layers, const char *name, int sealed, size_t n, struct err *e)
{
	AUTO(free) char *p = malloc(n);
	AUTO_FD fd = -1;

	if (!p)
		return err_no_memory(e);
	if (pread(sealed, p, n, 0) != (ssize_t)n)
		return err_set(e, ERR_IO, "a record that cannot be read");
	fd = openat(layers, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, errno, "write '%s'", name) : fd_write_all(fd, p, n, e);
}

static int replace(int layers, const char *layer, int sealed, size_t n, struct err *e)
{
	struct record_name name = name_of("", layer), new = name_of(NEW, layer);

	if (copy(layers, new.text, sealed, n, e) < 0)
		return -1;
	KILL_POINT("warden.snapshot.record_written");
	return renameat(layers, new.text, layers, name.text) < 0 ? err_sys(e, errno, "replace '%s'", name.text) : 0;
}

int snapshot_record_write(const struct warden *w, const struct wire_request *rq, int sealed, struct err *e)
{
	char layer[SLOT_LAYER_NAME_MAX + 1];
	AUTO_FD layers = layer_dir_open(w->host.layers_path, e);
	struct stat st;

	stack_layer_name(&rq->layers[0], layer);
	if (layers < 0)
		return -1;
	if (fstat(sealed, &st) < 0)
		return err_sys(e, errno, "read a record");
	if (st.st_size == 0)
		return snapshot_record_remove(layers, layer, e);
	if (!layer_dir_has(layers, layer) || snapshot_is_going(w, layer))
		return err_set(e, ERR_NOT_FOUND, "there is no layer '%s'", layer);
	return replace(layers, layer, sealed, (size_t)st.st_size, e);
}

int snapshot_record_read(const struct warden *w, const struct wire_request *rq, struct buf *text, struct err *e)
{
	char layer[SLOT_LAYER_NAME_MAX + 1];
	AUTO_FD layers = layer_dir_open(w->host.layers_path, e);
	struct record_name name;

	stack_layer_name(&rq->layers[0], layer);
	name = name_of("", layer);
	return layers < 0 ? -1 : fd_read_file(layers, name.text, WIRE_RECORD_MAX, text, e);
}
