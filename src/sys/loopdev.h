// SPDX-License-Identifier: Apache-2.0
/* sys/loopdev.h - a file as a block device, for as long as the device is open or mounted.
 *
 * The kernel removes the device with its last user, so nothing has to be cleaned up after a kill. Writes to
 * the file bypass the page cache where its file system supports that: the pages above the device are enough.
 * When the file system of the file is full, writes to the device fail with EIO. */
#pragma once
#include <stdint.h>

struct err;

#define LOOPDEV_PATH_MAX 32 /* "/dev/loop1048575" */

/* The device that has FILE already, or a free one that has it from now on: two devices over one file would
 * destroy it. Only one process may do this for a file at a time. Returns the open device, for as long as
 * nothing is mounted. */
int loopdev_attach(int file, char path[LOOPDEV_PATH_MAX], struct err *e);

/* The former alone: ERR_NOT_FOUND when no device has it. */
int loopdev_find(int file, char path[LOOPDEV_PATH_MAX], struct err *e);

/* Resizes the device to its file's current size, and returns that size. */
int loopdev_resize(int dev, uint64_t *ret_bytes, struct err *e);
