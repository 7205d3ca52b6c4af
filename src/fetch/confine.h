// SPDX-License-Identifier: Apache-2.0
/* fetch/confine.h - the confinement of the fetcher (P1): it keeps its files, sockets, and a thread for name
 * lookups.
 *
 * It has a user of its own and no capabilities when it starts. */
#pragma once
struct err;
struct order;

int confine_fetcher(struct err *e);
/* Files, too, where the kernel has Landlock (the preflight tells where it has not): BLOBS is all that it can
 * still write. Needs the above. */
int confine_files(const struct order *o, int blobs, struct err *e);
