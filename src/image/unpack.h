// SPDX-License-Identifier: Apache-2.0
/* image/unpack.h - protocol between opensandbox-unpack and the warden.
 *
 * The program is started as root, with an empty environment and the descriptors below. Without an argument it
 * reads the tar of a root file system (ENTRY_TAR). With one it reads the blob of a layer (ENTRY_LAYER); the
 * argument is the digest of its decompressed bytes, as digest_write() formats it. Before the first byte of
 * the tar it gives up all privileges: it becomes root of USERNS alone, without network, in a mount namespace
 * whose root is TARGET. It writes one struct unpack_report to REPORT, with an all-zero error on success, and
 * ends. The report is as untrusted as the tar: only the text of an error is used, and only a complete report
 * means success.
 *
 * TARGET is an empty directory. Its files have the ids that USERNS maps, numbered from 0 as in the tar: they
 * are written through a mount that is mapped like USERNS.
 *
 * An opaque directory of a layer needs a mark that only the host's root can set. It is sent to MARKS, open
 * for reading, with one byte; one byte is returned once it is marked.
 *
 * With the argument "pack" and two numbers the program does the reverse (image/pack.h): it reads TARGET, the
 * only directory that it sees, and writes the tar of a layer to TAR, an empty file. The numbers limit the
 * bytes of the file and those on the disk. Paths that follow (PACK_LEFT_OUT_MAX at most) are omitted.
 * Directories are then sent to MARKS to ask for their mark: PACK_OPAQUE or another byte is returned. MAP is a
 * user namespace that shows the ids of TARGET as those of USERNS. */
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
