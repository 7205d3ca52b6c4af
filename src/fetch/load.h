// SPDX-License-Identifier: Apache-2.0
/* fetch/load.h - images from an archive: an OCI layout, the output of `docker save`, or a root file system.
 *
 * The archive is spooled first, because its kind is known only at its end. An OCI layout has a file
 * `oci-layout`, a Docker archive a `manifest.json` that lists images; anything else is one layer, and gets
 * the order's name. */
#pragma once
struct asker;
struct err;
struct order;

int load_archive(const struct order *o, struct asker *a, int archive, int blobs, struct err *e);
