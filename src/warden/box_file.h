// SPDX-License-Identifier: Apache-2.0
/* warden/box_file.h - the file "box" in the folder of each box: its sandbox and its stage.
 *
 * It is written before anything of the box is given to the sandbox, and at each step that a restart must
 * know. It has to survive a SIGKILL of its writer, not a loss of power, which no box survives: so it is not
 * flushed to disk, and files of another boot are removed. */
#pragma once
#include <stdint.h>

#include "base/str.h"
#include "box/slot.h"
#include "box/wire.h"
#include "sys/boot.h"

struct err;

#define BOX_FILE_NAME "box"

enum box_stage {
	BOX_STARTING = 1, /* not acknowledged: never becomes a sandbox after a restart */
	BOX_RUNNING,      /* or paused, which the kernel knows */
	BOX_OVER,         /* `ending` says how */
	BOX_REMOVING,
};

struct box_file {
	enum box_stage stage;
	char id[WIRE_ID_SIZE];
	char boot[BOOT_ID_SIZE];
	pid_t pid; /* of PID 1, with the time of its start: together they name one process of this boot */
	uint64_t pid_start;
	char layer[SLOT_LAYER_NAME_MAX + 1]; /* which must stay as long as the box runs; "": none is ours */
	struct wire_ending ending;
	enum wire_network network;
};

#define BOX_FILE_BYTES 240

void box_file_encode(const struct box_file *f, unsigned char out[BOX_FILE_BYTES]);
/* ERR_INVALID for anything that box_file_encode() does not write. */
int box_file_decode(struct str bytes, struct box_file *ret, struct err *e);

/* In the folder DIR, replaced as a whole. */
int box_file_write(int dir, const struct box_file *f, struct err *e);
int box_file_read(int dir, struct box_file *ret, struct err *e); /* ERR_NOT_FOUND: there is none */
