// SPDX-License-Identifier: Apache-2.0
#include "server/boot/recover.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/uuid.h"
#include "net/loop.h"
#include "server/boot/serve.h"
#include "server/runtime/kind.h"
#include "server/runtime/runtime.h"
#include "server/store/store.h"
#include "sys/boot.h"

#include "base/banned.h"

#define LIST_MS 60000
#define IMAGE_UNKNOWN "host"

struct found {
	struct runtime_box *boxes;
	char (*ids)[ID_MAX + 1]; /* of them */
	size_t n;
	bool is_over;
	struct err e;
};

static void found_done(struct found *f)
{
	free(f->boxes);
	free(f->ids);
}
DEFINE_AUTO_DONE(struct found, found_done)

static void on_listed(const struct runtime_box *boxes, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct found *f = arg;

	f->is_over = true;
	if (failure) {
		f->e = failure->err;
		return;
	}
	f->boxes = calloc(n + 1, sizeof(*f->boxes));
	f->ids = calloc(n + 1, sizeof(*f->ids));
	if (!f->boxes || !f->ids) {
		(void)err_no_memory(&f->e);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!id_valid(str_of(boxes[i].id)))
			continue;
		(void)snprintf(f->ids[f->n], sizeof(f->ids[f->n]), "%s", boxes[i].id);
		f->boxes[f->n] = boxes[i];
		f->boxes[f->n].id = f->ids[f->n];
		f->n++;
	}
}

static void on_late(void *arg)
{
	struct found *f = arg;

	f->is_over = true;
	(void)err_set(&f->e, ERR_TIMEOUT, "the runtime did not answer");
}

static int list(struct loop *l, struct runtime *rt, struct found *f, struct err *e)
{
	struct timer late = { 0 };
	int r = 0;

	if (timer_init(&late, l, on_late, f, "list", e) < 0)
		return -1;
	timer_in(&late, LIST_MS);
	rt->ops->list(rt, on_listed, f);
	while (r == 0 && !f->is_over)
		r = loop_turn(l, -1, e);
	timer_done(&late);
	if (r == 0 && f->e.code != ERR_NONE) {
		*e = f->e;
		return err_wrap(e, "ask which sandboxes run");
	}
	return r;
}

static void say(const char *dir, const struct found *f, const struct store_recovered *did)
{
	if (did->aside[0])
		(void)printf("The damaged database is now '%s/%s'.\n", dir, did->aside);
	else
		(void)printf("There was no database in '%s'.\n", dir);
	(void)printf("%zu records were read from it, %zu made no sense%s.\n", did->read, did->bad,
		     did->is_partial ? ", and not all of it could be read" : "");
	if (did->from_copy > 0)
		(void)printf("Volumes, snapshots, images and pools: %zu of 5 tables were read from the copy of the database.\n",
			     did->from_copy);
	if (did->is_secret_new && f->n > 0)
		(void)printf("The secret was lost, and a new one was made: sandboxes that run cannot be reached any more. Delete them.\n");
	(void)printf("%zu sandboxes are on this host, %zu of them got a new record. The next start completes it from the copy beside "
		     "the sandbox; without one, expiry, metadata, limits and entrypoint are lost.\n", f->n, did->rebuilt);
	(void)fflush(stdout);
}

static int rebuild(const struct serve_spec *spec, const struct found *f, struct err *e)
{
	char boot_id[BOOT_ID_SIZE];
	struct store_recover_spec rs = { .dir = spec->state_dir, .boxes = f->boxes, .n_boxes = f->n, .image = IMAGE_UNKNOWN,
					 .boot_id = boot_id, .now_us = clock_wall_us() };
	struct store_recovered did;
	enum store_fault fault = STORE_FAILED;

	if (boot_id_read(boot_id, e) < 0)
		return -1;
	if (store_recover(&rs, &did, &fault, e) < 0) {
		*spec->ret_status = fault == STORE_LOCKED ? SERVE_RUNNING : SERVE_FAILED;
		return -1;
	}
	say(spec->state_dir, f, &did);
	return 0;
}

int recover(const struct serve_spec *spec, struct err *e)
{
	AUTO(loop_free) struct loop *l = loop_new(e);
	AUTO(runtime_free) struct runtime *rt = NULL;
	AUTO(found_done) struct found f = { 0 };

	*spec->ret_status = SERVE_FAILED;
	if (!l || spec->drop_rights(spec->drop_arg, e) < 0)
		return -1;
	rt = spec->kind->make(&(struct runtime_start){ .loop = l, .config = spec->config, .state_dir = spec->state_dir, .is_job = true }, e);
	if (!rt || list(l, rt, &f, e) < 0)
		return -1;
	return rebuild(spec, &f, e);
}
