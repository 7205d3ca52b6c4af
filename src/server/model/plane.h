// SPDX-License-Identifier: Apache-2.0
/* server/model/plane.h - the control plane of sandboxes as a whole: a runtime, the store, the set of sandboxes, snapshots, pools.
 *
 * What serves it to clients (routes, proxy, audit) is above it, and told through struct plane_parts. Handlers find the plane of
 * a request with plane_of() (server/http/service.h). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "access/route_token.h"
#include "base/list.h"
#include "base/own.h"
#include "net/loop.h"
#include "server/model/sandbox.h"
#include "server/model/snapshot.h"
#include "server/store/store.h"

struct arena;
struct attempts;
struct audit;
struct config_ingress;
struct err;
struct host_ports;
struct http_client;
struct plane;
struct pools;
struct runtime_denial;
struct tunnel;

#define PLANE_CREATES_MAX 1024 /* in progress, per key: there is one */

struct plane_spec {
	struct loop *loop;
	struct runtime *runtime; /* not owned */
	const char *state_dir;
	const char *boot_id;
	unsigned creates_max;    /* in progress; 0: PLANE_CREATES_MAX */
	wall_fn *wall_us;        /* NULL: the clock */
	void *wall_arg;
	/* What clients are told; must outlive it. */
	const char *host;        /* that the server listens on */
	const char *eip;         /* what clients know it by, or NULL */
	unsigned proxy_port;
	int64_t max_timeout_s;   /* 0: no ceiling */
	struct runtime_limits ceilings; /* of one sandbox */
	struct string_list host_paths; /* of the host, that may be mounted; borrowed */
	uint64_t volume_bytes;         /* of a named volume that names no size */
	enum runtime_network network;  /* of a sandbox whose create says nothing about it */
	size_t max_rules;              /* of a policy; 0: as many as there can be */
	const struct config_ingress *ingress; /* how endpoints are written and signed; NULL: plainly, and not at all */
	bool renews_on_access;
	int64_t renew_interval_s;
	const struct plane_parts *parts; /* what serves it */
};

/* What stands above a plane and has a state of its own there. */
struct plane_parts {
	int (*open)(struct plane *p, struct err *e);  /* after the store, before sandboxes are read */
	void (*recovered)(struct plane *p);
	void (*found)(struct plane *p, struct sandbox *sb); /* one that had no record, or was lost, is there */
	void (*gone)(struct plane *p, struct sandbox *sb); /* its user data goes */
	void (*denied)(struct plane *p, const struct runtime_denial *d);
	void (*stop)(struct plane *p);  /* before the sandboxes are freed: nobody is served any more */
	void (*close)(struct plane *p); /* after them; also after a failed open() */
	/* The order of a pool's template, in A. */
	int (*read_template)(const struct plane *p, struct str template, struct arena *a, struct sandbox_order *ret, struct fault *f);
	/* The way to the execd of a sandbox; NULL: E. */
	struct http_client *(*execd)(struct plane *p, struct sandbox *sb, struct err *e);
};

/* Something that waits for the runtime. When the plane closes before its completion has come, it is dropped. */
struct plane_job {
	struct list_node at;
	struct plane *plane;
	void (*drop)(struct plane_job *j); /* frees what it is part of */
};

struct plane {
	struct plane_spec spec;
	struct store *store;
	struct sandboxes *sandboxes;
	struct snapshots *snapshots;
	struct pools *pools;
	struct audit *audit;
	struct host_ports *host_ports; /* NULL: there are none */
	struct route_keys keys;     /* of signed routes */
	struct attempts *attempts;  /* guesses at tokens and signatures of sandboxes */
	struct list jobs;       /* of struct plane_job */
	unsigned exports;       /* of snapshots, in progress */
	struct timer stream_timer;  /* looks at long streams, where accesses renew */
	struct list tunnels;    /* upgraded connections in progress, of the endpoint proxy */
};

/* Opens and locks the state directory. Nothing is served before plane_recover(). */
struct plane *plane_open(const struct plane_spec *spec, enum store_fault *ret_fault, struct err *e);
/* After the last turn of the loop and before the runtime is freed. Sandboxes go on. NULL is fine. */
void plane_close(struct plane *p);
DEFINE_AUTO(struct plane *, plane_close)

/* Turns the loop until the records agree with what the runtime has. */
#define PLANE_RECOVER_MS 60000
int plane_recover(struct plane *p, struct err *e);

void plane_job_begin(struct plane *p, struct plane_job *j, void (*drop)(struct plane_job *j));
void plane_job_end(struct plane_job *j); /* its completion has come */
