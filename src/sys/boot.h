// SPDX-License-Identifier: Apache-2.0
/* sys/boot.h - the id of the current boot. Pids, mounts and interface names of an earlier boot mean nothing
 * in this one (S6). */
#pragma once
struct err;

#define BOOT_ID_SIZE 40 /* with its NUL */

/* The kernel's name of this boot: id_valid(). */
int boot_id_read(char out[BOOT_ID_SIZE], struct err *e);
