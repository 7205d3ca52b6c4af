// SPDX-License-Identifier: Apache-2.0
#include "server/native/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "box/network.h"
#include "server/config/config.h"
#include "server/images/pull.h"
#include "server/native/children.h"
#include "server/native/native.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define WARDEN_STOP_MS 10000
#define EGRESS_STOP_MS 1000
/* Changes of policies and creates wait for egress, and are to be answered within 10 s; the warden may be at work on thousands of
 * boxes. */
#define EGRESS_SILENT_S 5
#define WARDEN_SILENT_S 15

/* ---- in the supervisor ---- */

static void find_egress(struct native_children *n, bool is_job)
{
	bool is_wanted = !is_job && n->config->native.network != NETWORK_NONE;

	n->rt.has_network = is_wanted && access(n->host.egress, X_OK) == 0;
	if (is_wanted && !n->rt.has_network)
		log_warn("opensandbox-egress is not installed: sandboxes have no network");
	if (!n->rt.has_network || box_network_has_program())
		return;
	n->rt.network_lacks = "the program 'nft' is not installed";
	log_error("the program 'nft' is not installed: no sandbox with a network can be made");
}

static void release(struct runtime_host *h)
{
	if (h)
		native_host_done(&native_children_of(h)->host);
	free(h);
}

static struct runtime_host *prepare(const struct config *c, bool is_job, bool *ret_is_taken, struct err *e)
{
	struct native_children *n = calloc(1, sizeof(*n));

	if (!n) {
		(void)err_no_memory(e);
		return NULL;
	}
	n->config = c;
	n->host = NATIVE_HOST_INIT;
	n->rt.kill_points = -1;
	if (native_host_prepare(c, &n->host, ret_is_taken, e) < 0) {
		release(&n->rt);
		return NULL;
	}
	n->rt.uid = n->host.uid;
	n->rt.gid = n->host.gid;
	(void)snprintf(n->rt.state_dir, sizeof(n->rt.state_dir), "%s", n->host.server_dir);
	find_egress(n, is_job);
	return &n->rt;
}

/* Egress is not started where it is not installed, or nobody has a network. */
static void children(struct runtime_host *h, struct runtime_children *ret)
{
	static const struct runtime_child warden = { "warden", WARDEN_SILENT_S, WARDEN_STOP_MS, native_start_warden };
	static const struct runtime_child egress = { "egress", EGRESS_SILENT_S, EGRESS_STOP_MS, native_start_egress };
	const struct native_children *n = native_children_of(h);

	*ret = (struct runtime_children){ .helper = { "fetcher", n->host.fetch_listener, native_start_fetcher } };
	ret->items[ret->n++] = warden;
	if (h->has_network)
		ret->items[ret->n++] = egress;
}

/* ---- in the server ---- */

static struct puller *make_puller(const struct runtime_start *start, const struct native_host *n, struct err *e)
{
	return puller_new(&(struct puller_spec){ .loop = start->loop, .config = &start->config->images, .socket = n->fetch_socket,
						 .blobs_dir = n->blobs_dir, .reserve = config_disk_reserve(start->config) }, e);
}

static struct runtime *make(const struct runtime_start *start, struct err *e)
{
	AUTO(puller_free) struct puller *p = NULL;
	const struct config *c = start->config;
	struct native_host n = NATIVE_HOST_INIT;
	struct runtime_native_spec spec = {
		.path = n.socket, .images = c->native.images.items, .n_images = c->native.images.n,
		.default_image = c->native.default_image, .host_paths = &c->storage.allowed_host_paths, .egress_path = n.egress_socket,
		.has_network = start->has_network, .network_lacks = start->network_lacks,
		.has_no_disk_limit = c->native.unsafe_no_disk_limit, .owns_puller = true,
		.scratch_dir = start->state_dir,
	};
	struct runtime *rt;

	if (native_host_names(c, &n, e) < 0)
		return NULL;
	if (!start->is_job && !(p = make_puller(start, &n, e)))
		return NULL;
	spec.puller = p;
	rt = runtime_native(start->loop, &spec, e);
	if (rt)
		(void)take_ptr(&p);
	return rt;
}

const struct runtime_kind native_kind = {
	.name = "native", .prepare = prepare, .release = release, .children = children, .make = make,
};
