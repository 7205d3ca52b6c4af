// SPDX-License-Identifier: Apache-2.0
/* fetch/confine.h - what a process that speaks to strangers keeps (P1): its files, sockets, and a thread to look up names.
 *
 * It has ids of its own and no capabilities when it begins. */
#pragma once
struct err;
struct order;

int confine_fetcher(struct err *e);
/* Files, too, where the kernel has Landlock (the preflight tells where it has not): BLOBS is all that it can still write. Needs the
 * above. */
int confine_files(const struct order *o, int blobs, struct err *e);
