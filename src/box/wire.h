// SPDX-License-Identifier: Apache-2.0
/* box/wire.h - the whole language between the server and the warden: fixed messages over a SEQPACKET socket.
 *
 * The server asks, the warden answers each request once, by its serial, and tells of ends by itself. Numbers, enums, ids
 * and descriptors, no text of clients: what execd needs travels in a sealed descriptor that the warden hands on unread.
 * Both sides check every field of what they get: the server holds no privileges that the warden would trust, and the
 * warden relays what sandboxes have done. Both are of one build; another version is refused at the first message. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WIRE_VERSION 1
#define WIRE_ID_SIZE 64   /* of a sandbox: NUL-terminated, id_valid() */
#define WIRE_IMAGE_HOST 0 /* the host's own programs; others are numbered as the operator lists them */
#define WIRE_IMAGE_NONE UINT32_MAX /* nothing below the layers */
#define WIRE_LAYERS_MAX 127 /* above the image, which may be one more */
#define WIRE_LAYER_SIZE 32
#define WIRE_SNAPSHOT_SIZE 16

enum wire_call {
	WIRE_CREATE = 1, /* with the sealed spec; ERR_UNAVAILABLE and EDQUOT: disks cannot be limited here */
	WIRE_PAUSE,
	WIRE_RESUME,
	WIRE_REMOVE,
	WIRE_DIAL,  /* answered with an unconnected socket of the box's network, for `port`; 0: connected to execd's */
	WIRE_LOGS,  /* answered with the two log segments, readable */
	WIRE_STATS,
	WIRE_LIST,  /* answered with one row per box, then one without an id */
	WIRE_SNAPSHOT,        /* of the sandbox, as the layer layers[0]; ERR_CONFLICT: it does not run, nor is it paused */
	WIRE_SNAPSHOT_REMOVE, /* of the layer layers[0], if it is there; ERR_CONFLICT: a sandbox stands on it */
	WIRE_SNAPSHOTS,       /* answered with one row per layer, then one without a name */
	/* With a readable descriptor of the blob that layers[0] names, which is opened by nobody for writing any more. Answered
	 * when the layer is there: at once when it was there before. */
	WIRE_LAYER_ADD,
	WIRE_LAYER_DROP, /* layers[0]; not there is fine, ERR_CONFLICT while a box has it */
	WIRE_LAYERS, /* answered with one row per layer of an image, then one without a kind */
	WIRE_ENDED, /* from the warden, serial 0: a box has ended */
};

enum wire_state { WIRE_STARTING, WIRE_RUNNING, WIRE_PAUSED, WIRE_OVER };
enum wire_end { WIRE_END_EXITED, WIRE_END_INIT, WIRE_END_KILLED, WIRE_END_LOST };

enum wire_layer_kind {
	WIRE_LAYER_BLOB = 1, /* of an image: the sha256 of what it was unpacked from */
	WIRE_LAYER_SNAPSHOT, /* of a sandbox: 16 random bytes, then zeroes */
};

struct wire_layer {
	uint32_t kind; /* enum wire_layer_kind */
	unsigned char name[WIRE_LAYER_SIZE];
};

struct wire_limits {
	uint64_t cpu_milli, memory_bytes, pids, disk_bytes, inodes;
};

struct wire_request {
	uint32_t version;
	uint32_t call; /* enum wire_call */
	uint64_t serial; /* not 0 */
	char id[WIRE_ID_SIZE]; /* not looked at where no sandbox is meant */
	uint32_t image;  /* of a create: what is lowest */
	uint32_t port;   /* of a dial */
	struct wire_limits limits;
	unsigned char diff_id[WIRE_LAYER_SIZE]; /* of WIRE_LAYER_ADD: the sha256 of what is in the blob, decompressed */
	uint32_t n_layers; /* of a create: above the image; 1 where one layer is meant */
	struct wire_layer layers[WIRE_LAYERS_MAX]; /* the uppermost first; only those that there are belong to the message */
};

size_t wire_request_size(const struct wire_request *rq);

struct wire_stats {
	uint64_t cpu_usec, memory_bytes, memory_peak_bytes, pids, disk_bytes, oom_kills;
};

struct wire_snapshot {
	unsigned char name[WIRE_SNAPSHOT_SIZE];
	uint64_t flush_us;  /* what it took to write back, while the sandbox went on */
	uint64_t frozen_us; /* how long it was frozen */
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
	uint32_t failed; /* 0 or 1: then `err` says why */
	uint32_t state;  /* enum wire_state, of a row */
	struct wire_ending ending; /* of WIRE_ENDED, and of a row that is over */
	struct wire_stats stats;
	struct wire_snapshot snapshot; /* of WIRE_SNAPSHOT; only the name, of a row */
	struct wire_layer layer; /* of a row of WIRE_LAYERS */
	struct err err;
};

bool wire_is_about_one(uint32_t call); /* whether it is about a sandbox, which it names */

/* Whether bytes that came are a message of this kind: size, version, enums, termination. ERR_INVALID. */
int wire_check_request(const void *bytes, size_t n, size_t n_fds, struct wire_request *ret, struct err *e);
int wire_check_reply(const void *bytes, size_t n, struct wire_reply *ret, struct err *e);
