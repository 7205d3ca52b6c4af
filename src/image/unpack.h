// SPDX-License-Identifier: Apache-2.0
/* image/unpack.h - what opensandbox-unpack and who starts it agree on.
 *
 * It is started with root's rights, an empty environment and the descriptors below. Without an argument it reads the tar
 * of a root file system (ENTRY_TAR); with one, the blob of a layer (ENTRY_LAYER) whose bytes, decompressed, must have the
 * digest that the argument is, as digest_write() writes it. It gives the rights up before it reads the first byte of the tar:
 * what does so is root of USERNS alone, without a network, in a mount namespace whose root is TARGET. It writes one struct unpack_report, its error all zero on success, to REPORT and ends. What it says is as trustworthy
 * as the tar: only the words of an error are taken from it, and nothing but a report that says success is one.
 *
 * TARGET is an empty directory. Its files have the ids that USERNS maps, as the tar numbers them, from 0 on: they are
 * written through a mount that is mapped like USERNS.
 *
 * A directory of a layer that hides those below it needs a mark that only the host's root can set. It is sent to MARKS,
 * open for reading, with one byte; one byte comes back once it is marked.
 *
 * With the argument "pack" and two numbers it does the opposite (image/pack.h): it reads TARGET, of which it sees nothing but
 * what is there, and writes the tar of a layer to TAR, an empty file: as many bytes as the numbers say, and as many of them on
 * the disk. Paths that follow (PACK_LEFT_OUT_MAX at most) are left out. Directories are sent to MARKS then to ask whether they have the mark: PACK_OPAQUE or another byte comes back. MAP
 * is a user namespace that shows the ids of TARGET as USERNS's. */
#pragma once
#include "base/err.h"
#include "base/sha256.h"

enum unpack_fd {
	UNPACK_FD_TAR = 3, /* read from where it is */
	UNPACK_FD_TARGET,  /* a directory of the starter's mount namespace */
	UNPACK_FD_USERNS,
	UNPACK_FD_REPORT,
	UNPACK_FD_MARKS,   /* SEQPACKET, blocking */
	UNPACK_FD_MAP,     /* for packing alone */
	UNPACK_FDS_END,
};

#define PACK_OPAQUE 'y'
#define PACK_LEFT_OUT_MAX 8

struct unpack_report {
	struct err err;
	unsigned char digest[SHA256_SIZE]; /* of the tar that was packed */
};

#define UNPACK_SECONDS_MAX 1800
