// SPDX-License-Identifier: Apache-2.0
/* box/wire.h - the protocol between server and warden: fixed messages over a SEQPACKET socket.
 *
 * The server sends requests. The warden answers each once, by its serial, and reports ends of boxes by
 * itself. Messages contain numbers, enums, ids and descriptors, but no text of clients: the data for execd is
 * in a sealed descriptor that the warden passes on unread. Both sides check every field: the warden does not
 * trust the unprivileged server, and the server does not trust what sandboxes caused the warden to report.
 * Both are of one build; another version is refused at the first message. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

#define WIRE_VERSION 3
#define WIRE_ID_SIZE 64   /* of a sandbox: NUL-terminated, id_valid() */
#define WIRE_IMAGE_HOST 0 /* the host's own programs; others are numbered as the operator lists them */
#define WIRE_IMAGE_NONE UINT32_MAX /* nothing below the layers */
#define WIRE_LAYERS_MAX 255 /* 128 of an image (I2) with 127 snapshots above it; an image of the operator is one more */
#define WIRE_LAYER_SIZE 32
#define WIRE_SNAPSHOT_SIZE 16

enum wire_call {
	/* With the sealed spec, the sealed record (below), and with WIRE_NET_POLICY the sealed policy.
	 * ERR_UNAVAILABLE and EDQUOT: disks cannot be limited here; and ENETDOWN: there is no network, or
	 * nobody who watches over it. */
	WIRE_CREATE = 1,
	WIRE_PAUSE,
	WIRE_RESUME,
	WIRE_REMOVE,
	/* answered with an unconnected socket of the box's network, for `port`; 0: connected to execd's */
	WIRE_DIAL,
	WIRE_LOGS,  /* answered with the two log segments, readable */
	WIRE_STATS,
	WIRE_LIST,  /* answered with one row per box, then one without an id */
	/* of the sandbox, as the layer layers[0]; ERR_CONFLICT: it does not run, nor is it paused */
	WIRE_SNAPSHOT,
	WIRE_SNAPSHOT_REMOVE, /* of the layer layers[0], if it is there; ERR_CONFLICT: a sandbox uses it */
	WIRE_SNAPSHOTS,       /* answered with one row per layer, then one without a name */
	/* With a readable descriptor of the blob that layers[0] names, which is opened by nobody for writing
	 * any more. Answered when the layer is there: at once when it was there before. */
	WIRE_LAYER_ADD,
	WIRE_LAYER_DROP, /* layers[0]; not there is fine, ERR_CONFLICT while a box has it */
	WIRE_LAYERS, /* answered with one row per layer of an image, then one without a kind */
	/* The layer layers[0], of either kind, as an uncompressed tar of an OCI layer: with a descriptor of
	 * an empty file, which it is written to, disk_bytes of the limits at most. Answered with the digest
	 * of it as the name of a blob. */
	WIRE_LAYER_PACK,
	/* a named volume: its id, and disk_bytes of the limits (0: none). Once it is there, nothing
	 * changes */
	WIRE_VOLUME_MAKE,
	WIRE_VOLUME_REMOVE, /* with all that is in it; of what is not there at once */
	WIRE_VOLUMES, /* answered with one row per named volume, its id in the place of a sandbox's, then one without */
	/* The record is the server's own copy of what its database says of the sandbox. The warden keeps it beside the box, unread,
	 * so that a database that was lost or damaged costs no sandbox that runs. With the snapshot layers[0], both are about the
	 * record of that one, which an empty record removes, and which goes with its layer; the id is only checked. */
	WIRE_RECORD_SET, /* with a sealed record, which replaces the one that there is; not of a box that is being removed */
	WIRE_RECORD_GET, /* answered with a sealed descriptor of it; ERR_NOT_FOUND: there is none; ERR_INVALID: it is damaged */
	WIRE_ENDED, /* from the warden, serial 0: a box has ended */
};

enum wire_state { WIRE_STARTING, WIRE_RUNNING, WIRE_PAUSED, WIRE_OVER };
enum wire_end { WIRE_END_EXITED, WIRE_END_INIT, WIRE_END_KILLED, WIRE_END_LOST };

enum wire_layer_kind {
	WIRE_LAYER_BLOB = 1, /* of an image: digest_name() of what it was unpacked from */
	WIRE_LAYER_SNAPSHOT, /* of a sandbox: 16 random bytes, then zeroes */
};

/* What of the network a sandbox has. */
enum wire_network {
	WIRE_NET_NONE,   /* its own loopback */
	WIRE_NET_OPEN,   /* the public Internet */
	/* what a policy allows of that: its text is a second sealed descriptor, handed on unread to egress */
	WIRE_NET_POLICY,
};

struct wire_layer {
	uint32_t kind; /* enum wire_layer_kind */
	unsigned char name[WIRE_LAYER_SIZE];
};

struct wire_limits {
	uint64_t cpu_milli, memory_bytes, pids, disk_bytes;
	uint64_t reserved; /* names and inodes count as bytes of the disk, and have no limit of their own */
};

struct wire_request {
	uint32_t version;
	uint32_t call; /* enum wire_call */
	uint64_t serial; /* not 0 */
	char id[WIRE_ID_SIZE]; /* not looked at where neither a sandbox nor a volume is meant */
	uint32_t image;  /* of a create: what is lowest */
	uint32_t port;   /* of a dial */
	uint32_t network; /* of a create: enum wire_network */
	struct wire_limits limits;
	struct digest blob;    /* of WIRE_LAYER_ADD: whose name is that of the layer */
	struct digest diff_id; /* likewise: of what is in the blob, decompressed */
	uint32_t n_layers; /* of a create: above the image; 1 where one layer is meant */
	/* the uppermost first; only those that there are belong to the message */
	struct wire_layer layers[WIRE_LAYERS_MAX];
};

size_t wire_request_size(const struct wire_request *rq);

/* A create is followed by those that the sandbox has, in the same message: its size tells how many. Those
 * whose place is in another's come behind it. */
#define WIRE_VOLUMES_MAX 16
#define WIRE_PATH_SIZE 1024 /* with its NUL */

enum wire_volume_kind { WIRE_VOLUME_HOST = 1, WIRE_VOLUME_NAMED };

struct wire_volume {
	uint32_t kind;   /* enum wire_volume_kind */
	uint32_t prefix; /* of the host's: which of the folders that the operator has listed, from 0 on */
	uint32_t is_read_only; /* 0 or 1 */
	char id[WIRE_ID_SIZE]; /* of a named one, else empty */
	/* in there: words with one '/' between them, none "." or ".."; empty: all of it */
	char path[WIRE_PATH_SIZE];
	/* in the sandbox: likewise, each after a '/'; not in /proc, /sys or /dev */
	char mount_path[WIRE_PATH_SIZE];
};

struct wire_create { /* room for the largest of all requests: volumes follow the layers that there are */
	struct wire_request rq;
	struct wire_volume volumes[WIRE_VOLUMES_MAX];
};
/* Both as one message; returns its size. */
size_t wire_pack(const struct wire_request *rq, const struct wire_volume *volumes, size_t n,
		 struct wire_create *ret);

struct wire_volumes { /* those that came with one */
	size_t n;
	struct wire_volume at[WIRE_VOLUMES_MAX];
};

/* Why a create failed because of a volume: `sys` of the error, where no errno is as high. */
enum wire_volume_fault {
	WIRE_FAULT_HOST_PATH = 4097, /* it cannot be allowed: a symlink, a device, our own state */
	WIRE_FAULT_HOST_CREATE,      /* it is not there and cannot be made */
	WIRE_FAULT_IDS,              /* its file system cannot show it with the sandbox's ids */
	WIRE_FAULT_SUB_PATH,         /* of a named volume */
	WIRE_FAULT_NO_VOLUME,        /* there is none of this id */
	WIRE_FAULT_MOUNT_PATH,
};
/* In the same way: what its image says of programs, user and directory, cannot be had in it. */
#define WIRE_FAULT_IMAGE_START 4160

#define WIRE_POLICY_MAX (1 << 20) /* bytes of the text of a policy */
#define WIRE_RECORD_MAX ((size_t)4 << 20) /* bytes of a record */
#define WIRE_FDS_MAX 3 /* of a request */

struct wire_stats {
	uint64_t cpu_usec, memory_bytes, memory_peak_bytes, pids, disk_bytes, oom_kills;
	/* from and to disks, as far as the kernel knows whose they are */
	uint64_t io_read_bytes, io_written_bytes;
	/* as the sandbox sees it; 0 without a network */
	uint64_t net_in_bytes, net_out_bytes, net_in_packets, net_out_packets;
	uint64_t net_refused_packets; /* of those that it has sent: dropped by what it may not reach */
};

struct wire_snapshot {
	unsigned char name[WIRE_SNAPSHOT_SIZE];
	uint64_t flush_us;  /* what it took to write back, while the sandbox went on */
	uint64_t frozen_us; /* how long it was frozen */
	uint32_t has_record; /* 0 or 1, of a row */
	uint32_t reserved;
};

/* How a box ended. */
struct wire_ending {
	uint32_t reason; /* enum wire_end */
	int32_t exit_code, signal;
	uint32_t oom; /* 0 or 1 */
};

struct wire_reply {
	uint32_t version;
	uint32_t call;
	uint64_t serial;
	char id[WIRE_ID_SIZE];
	uint32_t failed; /* 0 or 1: then `err` gives the reason */
	uint32_t state;  /* enum wire_state, of a row */
	struct wire_ending ending; /* of WIRE_ENDED, and of a row that is over */
	struct wire_stats stats;
	struct wire_snapshot snapshot; /* of WIRE_SNAPSHOT; only the name and the last one, of a row */
	struct wire_layer layer; /* of a row of WIRE_LAYERS, and of WIRE_LAYER_PACK */
	struct err err;
};

bool wire_is_about_one(uint32_t call); /* whether it is about a sandbox, which it names */

/* Whether bytes that came are a message of this kind: size, version, enums, termination. ERR_INVALID. */
int wire_check_request(const void *bytes, size_t n, size_t n_fds, struct wire_request *ret, struct err *e);
/* What comes behind RQ, which has passed. */
int wire_check_volumes(const void *bytes, size_t n, const struct wire_request *rq, struct wire_volumes *ret,
		       struct err *e);
/* For both sides: whether paths are as struct wire_volume has them. */
bool wire_path_valid(const char *path);       /* relative; "" is one */
bool wire_mount_path_valid(const char *path);
bool wire_path_within(const char *path, const char *other); /* it is OTHER or in it: of two that are valid */
int wire_check_reply(const void *bytes, size_t n, struct wire_reply *ret, struct err *e);
