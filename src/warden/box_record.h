// SPDX-License-Identifier: Apache-2.0
/* warden/box_record.h - the file "record" in the folder of each box: enough to adopt the box when its other
 * files, or the server's database, are lost or damaged.
 *
 * It contains a copy of the box's file at that time, the box's layers, and data of the server
 * (WIRE_RECORD_SET) that is not read here. One SHA-256 covers all of it. Like the box's file, it survives a
 * SIGKILL, not a loss of power. */
#pragma once
#include "base/own.h"
#include "warden/box_file.h"
#include "warden/stack.h"

struct buf;
struct err;

#define BOX_RECORD_NAME "record"

/* In the folder DIR. SEALED holds the server's part, WIRE_RECORD_MAX bytes at most. Only box_record_replace()
 * leaves either the old record or the new one when it is cut off; it is for a box that has one. */
int box_record_write(int dir, const struct box_file *f, const struct stack *s, int sealed, struct err *e);
int box_record_replace(int dir, const struct box_file *f, const struct stack *s, int sealed, struct err *e);

/* Either of RET_FILE with RET_STACK and TEXT (the server's part is appended) may be NULL. ERR_NOT_FOUND:
 * there is no record. ERR_INVALID: it is damaged. */
int box_record_read(int dir, struct box_file *ret_file, struct stack *ret_stack, struct buf *text,
		    struct err *e);
