// SPDX-License-Identifier: Apache-2.0
/* server/runtime/runtime.h - what sandboxes run on, as one table: native, Docker and Kubernetes stand behind it.
 *
 * Every call with a completion leads to exactly one, from the loop and never during the call itself, whatever happens
 * to the sandbox meanwhile; only runtime_free() ends calls without one. What is passed in is copied, what a completion
 * hands out is valid until it returns. A runtime bounds the time of its own calls: a create 600 s, and before that what it
 * takes to have its image, of which it tells at least every 300 s; a dial 10 s, everything else 60 s. The control plane
 * never has two of create, pause, resume and remove in progress for one id; the others may overlap with anything.
 *
 * The sandbox that a create has completed for answers execd's /ping already. A create that fails has left nothing
 * behind. A remove of what is not there, or only half there, succeeds. Ids are the control plane's, and valid
 * (id_valid()). Failures name a code without its prefix: "SANDBOX_START_FAILED" becomes "NATIVE::SANDBOX_START_FAILED". */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "server/runtime/image.h"

struct buf;
struct runtime;
struct store;
struct transport;
enum store_fault;

#define PORT_EXECD 44772 /* leads to execd's own socket, not to a port */
#define PORT_EGRESS 18080
#define RUNTIME_TOKEN_MAX 64
#define RUNTIME_SAYS_MAX 200

struct runtime_failure {
	const char *code; /* a constant */
	const char *prefix; /* of the code, a constant; NULL: the runtime's */
	unsigned status;  /* of the HTTP answer */
	struct err err;   /* for the log; the client sees it only with a status below 500 */
	char says[RUNTIME_SAYS_MAX]; /* for the client with any status: names nothing of the host; empty: what the code says */
};

/* ---- what a sandbox is made from ---- */

struct runtime_limits { /* none is 0 */
	uint64_t cpu_milli, memory_bytes, pids, disk_bytes;
};
#define RUNTIME_LIMITS_DEFAULT /* where a request names none */ \
	((struct runtime_limits){ \
		.cpu_milli = 1000, .memory_bytes = UINT64_C(512) << 20, .pids = 4096, .disk_bytes = UINT64_C(10) << 30, \
	})

#define RUNTIME_CEILINGS /* what can be enforced at all */ \
	((struct runtime_limits){ \
		.cpu_milli = 1024 * 1000, .memory_bytes = UINT64_C(1) << 50, .pids = 4194304, .disk_bytes = UINT64_C(1) << 50, \
	})

enum runtime_limit { /* bits: limits that a sandbox can be held to */
	LIMIT_CPU = 1,
	LIMIT_MEMORY = 2,
	LIMIT_PIDS = 4,
	LIMIT_DISK = 8,
	LIMIT_GPU = 16,
};

/* Something that outlives the sandbox, or that several have. Those whose place is in another's come behind it. */
enum runtime_volume_kind {
	RUNTIME_VOLUME_HOST,  /* of the host: in a folder that its operator has listed */
	RUNTIME_VOLUME_NAMED, /* made by volume_make() */
};

struct runtime_volume {
	enum runtime_volume_kind kind;
	const char *id;         /* of a named one */
	const char *path;       /* of the host's: absolute, and clean (volume_path.h). Of a named one: within it, "" is all of it */
	const char *mount_path; /* in the sandbox */
	bool is_read_only;
};

enum runtime_network {
	RUNTIME_NET_NONE,   /* its own loopback */
	RUNTIME_NET_OPEN,   /* the public Internet */
	RUNTIME_NET_POLICY, /* what the policy allows of that */
	RUNTIME_NETWORKS,
};
#define RUNTIME_POLICY_MAX ((size_t)1 << 20) /* bytes */
#define RUNTIME_RECORD_MAX ((size_t)4 << 20)

struct runtime_spec {
	const char *id;
	const char *image;             /* passed check_image() */
	const char *image_digest;      /* of a sandbox that is made from a snapshot: the image that this stands on, whatever the name
					* means now, and nobody asks whether it may be had. NULL: go by the name */
	struct string_list entrypoint; /* one or more */
	struct string_map env;
	struct runtime_limits limits;
	const struct runtime_volume *volumes;
	size_t n_volumes;
	const char *execd_token;       /* what execd asks for; the programs of the sandbox never see it */
	const char *os, *arch;         /* NULL: as the runtime is */
	const char *username, *password; /* for the image's registry; NULL: none */
	const char *base;              /* the reference of the snapshot that it stands on, above the image; NULL: none */
	enum runtime_network network;
	struct str policy;             /* its text, with RUNTIME_NET_POLICY */
	struct str record;             /* as record_set() has it */
};

/* A snapshot is known by a reference: text of the runtime's own, which the control plane keeps and never reads. What it is made of, a
 * stack of layers for one, is the runtime's to know, to keep for as long as anybody stands on it, and to collect then. */
#define RUNTIME_REFERENCE_MAX 8191

struct runtime_snapshot {
	uint64_t flush_us;  /* what it took to write back, while the sandbox went on */
	uint64_t frozen_us; /* how long it was frozen */
};

struct runtime_export {
	const char *reference;    /* of the snapshot; NULL: it is its image */
	const char *image_digest; /* of the image below it; NULL: not known */
	const char *id;           /* of the snapshot, as clients know it: the image is called by it */
};
#define RUNTIME_EXPORTS_AT_ONCE 2

/* What there is after a start. */
struct runtime_snapshots {
	bool (*has)(const struct runtime_snapshots *s, const char *reference); /* all of it */
	bool (*has_record)(const struct runtime_snapshots *s, const char *reference); /* NULL: no snapshot has one */
	size_t n_unknown; /* of those that nobody refers to */
};

/* How far the image of a create is that has to be fetched first. */
struct runtime_progress {
	const char *phase;     /* "downloading", "unpacking" */
	uint64_t bytes, total; /* total 0: not known yet */
	unsigned layers_done, layers;
};

#define RUNTIME_PULL_FAILED "SANDBOX_IMAGE_PULL_FAILED" /* the code of a create whose image cannot be had */

/* ---- what becomes of it ---- */

enum runtime_state {
	RUNTIME_STARTING, /* a create was cut off before it ended: only a remove makes sense */
	RUNTIME_RUNNING,
	RUNTIME_PAUSED,
	RUNTIME_ENDED,
};

enum runtime_end_reason {
	RUNTIME_END_EXITED, /* the entrypoint ended */
	RUNTIME_END_INIT,   /* execd, its PID 1, died */
	RUNTIME_END_KILLED, /* from outside: the host's OOM killer, an operator */
	RUNTIME_END_LOST,   /* it is gone, and nobody saw how */
};

struct runtime_end {
	enum runtime_end_reason reason;
	int exit_code; /* of the entrypoint; 128 + signal when one killed it */
	int signal;    /* or 0 */
	bool oom;      /* its memory ran out on the way */
};

struct runtime_box {
	const char *id;
	enum runtime_state state;
	struct runtime_end end; /* with RUNTIME_ENDED */
};

struct runtime_stats {
	uint64_t cpu_usec, memory_bytes, memory_peak_bytes, pids, disk_bytes; /* used; 0: not known */
	uint64_t oom_kills;
	uint64_t io_read_bytes, io_written_bytes; /* from and to disks */
	uint64_t net_in_bytes, net_out_bytes, net_in_packets, net_out_packets; /* as it sees it */
	uint64_t net_refused_packets; /* of those that it has sent: what it may not reach */
};

/* One line of an inspection: "network", "10.1.2.3/30". Nothing of it is secret or a path of the host. */
struct runtime_fact {
	const char *key, *value;
};

struct runtime_info {
	enum runtime_state state;
	const struct runtime_fact *facts;
	size_t n_facts;
};

/* ---- completions: FAILURE is NULL on success, and nothing else is set when it is not ---- */

typedef void runtime_done_fn(const struct runtime_failure *failure, void *arg);
typedef void runtime_dial_fn(struct transport *t, const struct runtime_failure *failure, void *arg); /* takes T */
typedef void runtime_text_fn(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg);
typedef void runtime_info_fn(const struct runtime_info *info, const struct runtime_failure *failure, void *arg);
typedef void runtime_stats_fn(const struct runtime_stats *stats, const struct runtime_failure *failure, void *arg);
typedef void runtime_snapshot_fn(const struct runtime_snapshot *made, const struct runtime_failure *failure, void *arg);
typedef void runtime_snapshots_fn(const struct runtime_snapshots *found, const struct runtime_failure *failure, void *arg);
typedef void runtime_names_fn(const char *const *names, size_t n, const struct runtime_failure *failure, void *arg);
typedef void runtime_list_fn(const struct runtime_box *boxes, size_t n, const struct runtime_failure *failure, void *arg);

#define RUNTIME_LOG_MAX ((size_t)1024 * 1024) /* bytes of one answer */
struct runtime_log_query {
	unsigned tail;     /* lines, the newest; 1 or more */
	uint64_t since_ms; /* not older than this; 0: any age */
};

struct runtime_ops {
	void (*create)(struct runtime *rt, const struct runtime_spec *spec, runtime_done_fn *fn, void *arg);
	void (*pause)(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg);
	void (*resume)(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg);
	/* Its processes are proven gone when it succeeds, and mounts, network and files go by themselves, also over restarts
	 * (G10). May be repeated after a failure. */
	void (*remove)(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg);
	/* A connection to a port of the sandbox's own loopback, or, where that refuses, of its own address. PORT_EGRESS leads to
	 * what keeps its policy, also where the sandbox does not run. */
	void (*dial)(struct runtime *rt, const char *id, unsigned port, runtime_dial_fn *fn, void *arg);
	/* What it may reach now, as the text of a policy: that may have changed since its create. ERR_NOT_FOUND: nobody keeps one
	 * for it. NULL: the runtime has no networks. */
	void (*policy)(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg);
	/* What it has tried to reach, and what came of it, as a JSON object (specs/server.yml: NetworkActivity). As policy(). */
	void (*activity)(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg);
	/* What the sandbox wrote: whole lines, oldest first, each with an RFC 3339 time in front. */
	void (*logs)(struct runtime *rt, const char *id, const struct runtime_log_query *query, runtime_text_fn *fn, void *arg);
	void (*inspect)(struct runtime *rt, const char *id, runtime_info_fn *fn, void *arg);
	void (*stats)(struct runtime *rt, const char *id, runtime_stats_fn *fn, void *arg);
	/* What the control plane wants to have back should its own database be lost: RUNTIME_RECORD_MAX bytes at most, kept with
	 * the sandbox, unread. A create brings the first. The other one gives it back: ERR_NOT_FOUND when there is none,
	 * ERR_INVALID when it is damaged. NULL: the runtime keeps none. */
	void (*record_set)(struct runtime *rt, const char *id, struct str record, runtime_done_fn *fn, void *arg);
	void (*record_get)(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg);
	/* Everything that is ours by name and owner, half-made and ended ones included. */
	void (*list)(struct runtime *rt, runtime_list_fn *fn, void *arg);
	/* At once, into RET: the reference that a snapshot with this id has of a sandbox that stands on BASE (NULL: on its image alone).
	 * It is always the same, so that it can be recorded before the snapshot is taken. ERR_LIMIT: nothing more can stand on BASE. */
	int (*snapshot_reference)(struct runtime *rt, const char *id, const char *base, struct buf *ret, struct err *e);
	/* Of a sandbox that runs or is paused, which it is afterwards as well. Takes 600 s at most. */
	void (*snapshot)(struct runtime *rt, const char *id, const char *reference, runtime_snapshot_fn *fn, void *arg);
	/* The control plane refers to it no more. It goes sooner or later, with what nobody else stands on (struct runtime_users). Of what
	 * is not there succeeds. */
	void (*snapshot_remove)(struct runtime *rt, const char *reference, runtime_done_fn *fn, void *arg);
	/* After a start, once: what there is. From then on the runtime removes what nobody refers to; LEAVES_UNKNOWN: but for what is there
	 * now, which is somebody else's. */
	void (*snapshots)(struct runtime *rt, bool leaves_unknown, runtime_snapshots_fn *fn, void *arg);
	/* The same as record_set(), of a snapshot that is there: the record stays with it, and goes with it. An empty one removes it,
	 * also of what is not there. With the list of snapshots(), and whenever it looks again, the runtime gives the record back of
	 * what has one and is recorded nowhere (struct runtime_users); of what has none, it was cut off, or was to go. NULL: the
	 * runtime keeps none. */
	void (*snapshot_record_set)(struct runtime *rt, const char *reference, struct str record, runtime_done_fn *fn, void *arg);
	/* At once: whether what stands on OTHER stands on REFERENCE as well. */
	bool (*snapshot_is_below)(struct runtime *rt, const char *reference, const char *other);
	/* A hint: something that referred to a snapshot has gone, or refers to another one. */
	void (*snapshots_released)(struct runtime *rt);
	/* As an image of its own, with the layers of the image below it. Takes 2 h for each layer at most. SNAPSHOT::NOT_EXPORTABLE: that
	 * image is not one whose layers there are. */
	void (*snapshot_export)(struct runtime *rt, const struct runtime_export *o, runtime_parts_fn *fn, void *arg);
	/* Volumes with a name of ours (id_valid()). What was made is on the disk when this succeeds, whatever happens; making one
	 * that is there succeeds. LIMIT_BYTES 0: none, where disks have none. One is removed when no sandbox has it. NULL: the
	 * runtime has no volumes at all. */
	void (*volume_make)(struct runtime *rt, const char *id, uint64_t limit_bytes, runtime_done_fn *fn, void *arg);
	void (*volumes)(struct runtime *rt, runtime_names_fn *fn, void *arg); /* the ids of all that there are */
	void (*volume_remove)(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg);
	/* A create in progress may fail as soon as that can be; its completion comes all the same. May be NULL. */
	void (*cancel)(struct runtime *rt, const char *id);
	/* Before the first call of others and before the store is started: reads what it keeps there. NULL: nothing. */
	int (*open)(struct runtime *rt, struct store *s, enum store_fault *ret_fault, struct err *e);
	/* Images that it keeps. A failure's `err` says why, with words for clients unless it is ERR_IO or ERR_INTERNAL; its status and
	 * code are those of a route only where it was out of memory. */
	void (*images)(struct runtime *rt, runtime_images_fn *fn, void *arg);
	/* URI: a name, or the digest of a manifest: all that it names, of any platform. ERR_NOT_FOUND; ERR_CONFLICT: somebody stands on
	 * what is left. */
	void (*image_remove)(struct runtime *rt, const char *uri, runtime_done_fn *fn, void *arg);
	/* PROGRESS may be NULL. A pull that nobody waits for ends. */
	void (*image_pull)(struct runtime *rt, const struct runtime_image_order *o, runtime_image_progress_fn *progress, runtime_image_fn *fn,
			   void *arg);
	/* The archive is to be written to *ret_pipe, which does not block and is the caller's to close: its end is the archive's. -1: E,
	 * and no completion. */
	int (*image_load)(struct runtime *rt, const struct runtime_image_load *o, int *ret_pipe, runtime_images_fn *fn, void *arg,
			  struct err *e);
	/* What is not there is pulled. */
	void (*image_save)(struct runtime *rt, const struct runtime_image_order *o, runtime_parts_fn *fn, void *arg);
	void (*image_cancel)(struct runtime *rt, void *arg); /* no completion of the last three comes to ARG any more */
	/* At once: whether anything may be begun that takes room: ERR_LIMIT with ENOSPC in `sys` (L7). NULL: the room is not ours. */
	int (*check_room)(struct runtime *rt, struct err *e);
	/* At once: whether the image can be named like that. ERR_INVALID and a message that says which forms there are. */
	int (*check_image)(struct runtime *rt, const char *uri, struct err *e);
	void (*free)(struct runtime *rt);
};

/* Something that a sandbox was not let reach, told once in a while for the same target. Texts may be empty. */
struct runtime_denial {
	struct str id, at; /* RFC 3339 */
	struct str kind;   /* "dns", "tcp" */
	struct str target, address, reason;
	unsigned port;     /* 0: none */
	uint64_t lost;     /* this many before it could not be told */
};

/* ---- what a runtime can do ---- */

struct runtime_platform {
	const char *os, *arch; /* "linux", "amd64" */
};

/* What is not here is refused before the runtime is asked (model/capability.h). An operation that is missing may be NULL. */
struct runtime_capabilities {
	const struct runtime_platform *platforms; /* of sandboxes; the first is what one is that names none */
	size_t n_platforms;
	unsigned limits;   /* of enum runtime_limit */
	unsigned networks; /* 1 << of enum runtime_network */
	const char *network_lacks; /* what networks need and this host does not have, for clients; NULL: nothing that is known */
	bool pauses;
	bool snapshots, exports_snapshots, forks, rolls_back;
	bool images, image_archives; /* kept by the runtime: listed, pulled ahead, removed; loaded from archives and saved to them */
	bool volumes, host_paths;    /* named ones, and folders of the host */
	bool logs, stats;
};

/* What the runtime tells by itself, from the loop. */
struct runtime_events {
	/* It ended; its record and files stay until it is removed. Also while an operation on it is in progress, never
	 * before its create has completed, at most once. */
	void (*ended)(const char *id, const struct runtime_end *end, void *arg);
	/* It is RUNTIME_RUNNING or RUNTIME_PAUSED now, and no call has asked for that: somebody did it beside the server. What is gone
	 * altogether has ended as RUNTIME_END_LOST. May be NULL. */
	void (*changed)(const char *id, enum runtime_state state, void *arg);
	void (*denied)(const struct runtime_denial *d, void *arg); /* may be NULL */
	/* The runtime was away and can be asked again. What was in progress has failed, but may have been done; what ended
	 * meanwhile was not told. May be NULL. */
	void (*returned)(void *arg);
	/* Of a create: which image its name stands for ("sha256:..."), before anything is made of it. May come during the call
	 * itself. May be NULL. */
	void (*resolved)(const char *id, const char *digest, void *arg);
	/* Of a create whose image is being fetched, often. May be NULL. */
	void (*progress)(const char *id, const struct runtime_progress *p, void *arg);
};

/* What the control plane has use for still. Asked from the loop. */
typedef void runtime_reference_fn(const char *reference, void *arg);

struct runtime_users {
	bool (*uses_image)(const char *digest, void *arg); /* a sandbox or a snapshot stands on the image with this manifest */
	/* Calls FN for each reference of a snapshot that is recorded, that a sandbox stands on, or that one is about to. */
	void (*each_reference)(runtime_reference_fn *fn, void *fn_arg, void *arg);
	/* The same for snapshots that are recorded, in whatever state, and for nothing else. */
	void (*each_snapshot)(runtime_reference_fn *fn, void *fn_arg, void *arg);
	/* There is a snapshot, with the record that was kept with it, which is none of those. 0: it is from now on. -1: the record is no
	 * good, which E tells: the snapshot is left alone until the next start. */
	int (*adopt)(const char *reference, struct str record, struct err *e, void *arg);
};

/* The head of every runtime; its own state follows. */
struct runtime {
	const struct runtime_ops *ops;
	const char *name;        /* "native" */
	const char *code_prefix; /* "NATIVE" */
	struct runtime_capabilities can;
	bool shares_egress;      /* PORT_EGRESS is the same for all sandboxes: "/sandboxes/ID" goes before each target */
	const struct runtime_events *events; /* set by the control plane before its first call */
	void *events_arg;
	const struct runtime_users *users; /* likewise, before its store is started; NULL: nobody says, so all may be used */
	void *users_arg;
};

static inline bool runtime_has_network(const struct runtime *rt, enum runtime_network network)
{
	return rt->can.networks & 1U << network;
}

/* No completion and no event comes after this. */
static inline void runtime_free(struct runtime *rt)
{
	if (rt)
		rt->ops->free(rt);
}
DEFINE_AUTO(struct runtime *, runtime_free)
