// SPDX-License-Identifier: Apache-2.0
/* image/fetch.h - protocol between opensandbox-fetch and the process that orders from it.
 *
 * A fetcher is started for one order, as a user of its own without privileges, with an empty environment and
 * the descriptors below. The client sends one message: a struct fetch_request with a sealed memfd that holds
 * the order as JSON (fields: fetch/order.c). Credentials are there and nowhere else. Then the fetcher sends
 * messages of struct fetch_message:
 *
 *     pull   FOUND with two memfds, manifest and configuration, verified; the client replies with a struct fetch_request
 *            that selects the layers it wants. PROGRESS, now and then. DONE: each layer is in the folder, as sha256- and
 *            its digest_name() in hexadecimal, verified and synced. FOUND may be repeated with another image, after a
 *            mirror has failed half-way.
 *     check  DONE: the credentials are accepted for the image of that digest.
 *     sweep  DONE: the folder contains only files that the order names.
 *     load   with a third descriptor, an archive to read. PROGRESS; FOUND for each image in it, with its name, without
 *            a reply; DONE.
 *
 * FAILED instead of DONE carries the reason, as text for the user. The fetcher ends when its client hangs up,
 * and leaves only complete files. */
#pragma once
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "image/manifest.h"
#include "image/reference.h"

enum fetch_fd {
	FETCH_FD_ASKER = 3, /* SEQPACKET, connected */
	FETCH_FD_BLOBS,     /* the folder, open for its names */
	FETCH_FD_PROGRAM,   /* what it was started by, closed at once; need not be there */
	FETCH_FDS_END,
};
#define FETCH_FD_PROGRAM_TEXT "5"

#define FETCH_VERSION 1
#define FETCH_ORDER_MAX ((size_t)16 << 20) /* bytes of an order */
#define FETCH_SECONDS_MAX 1800             /* for all of a pull; an order can ask for less */
#define FETCH_STALL_SECONDS_MAX 60         /* below FETCH_STALL_BYTES a second for this long: it is given up */
#define FETCH_STALL_BYTES 1024
#define FETCH_KEEP_MAX 131072
#define FETCH_REGISTRIES_MAX 64
#define FETCH_PROXY_MAX 1024
#define FETCH_NO_PROXY_MAX 256
#define FETCH_NEW_PREFIX "new-"
#define FETCH_BLOB_PREFIX "sha256-"

enum fetch_request_kind { FETCH_ORDER = 1, FETCH_WANT };

struct fetch_request {
	uint32_t version, kind;
	uint64_t layers[MANIFEST_LAYERS_MAX / 64]; /* of FETCH_WANT: bit i is layer i, from the lowest */
};

enum fetch_message_kind { FETCH_FOUND = 1, FETCH_PROGRESS, FETCH_DONE, FETCH_FAILED, FETCH_MESSAGES_END };
enum fetch_phase { FETCH_RESOLVING, FETCH_DOWNLOADING, FETCH_READING, FETCH_PHASES_END };

struct fetch_message {
	uint32_t version, kind;
	uint32_t phase, layers, layers_done; /* of FETCH_PROGRESS */
	uint32_t padding;
	uint64_t bytes, total;               /* of FETCH_PROGRESS; total 0: not known */
	/* of FETCH_FOUND: what the manifest was asked for with, or its sha256 */
	struct digest digest;
	/* of FETCH_FOUND in a load: what the archive calls it; "": nothing */
	char name[REFERENCE_TEXT_MAX + 1];
	struct err err;                      /* of FETCH_FAILED */
};
