// SPDX-License-Identifier: Apache-2.0
/* warden/calls.h - one function for each request of box/wire.h.
 *
 *     CREATE  ERR_INVALID when the entrypoint cannot be started, with execd's message, or the image cannot be used; with
 *             WIRE_FAULT_IMAGE_START in `sys`, when its USER or WORKDIR cannot be used.
 *             The limits of CPU, memory, processes and disk hold from the first instruction, or the create fails
 *             (ERR_UNAVAILABLE; with EDQUOT in `sys` for the disk: a store of plain folders accepts the default without
 *             enforcing it, and refuses all other limits). Inodes are limited by the disk's limit, as bytes.
 *             ERR_INVALID with an enum wire_volume_fault in `sys`: one of its volumes.
 *     PAUSE, RESUME  ERR_CONFLICT in any other state.
 *     REMOVE  answered when no process is left, without a time limit; the rest is removed in the background. A box that
 *             does not exist is answered at once.
 *     LAYER_ADD  ERR_INVALID when the blob does not match or breaks a rule of I2 and I3; ERR_LIMIT without room for it.
 *             A layer appears only when all of it is on the disk.
 *     LAYER_DROP  ERR_CONFLICT while a box uses it. Its files are removed in the background.
 *     DIAL    ERR_CONFLICT unless the box runs.
 *     SNAPSHOT, SNAPSHOT_REMOVE, SNAPSHOTS  see snapshot.h. */
#pragma once
struct passed;
struct ticket;
struct warden;
struct wire_request;
struct wire_volumes;

/* RQ has been checked; the ticket is answered now or later. */
void calls_handle(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes,
		  const struct ticket *t,
		  struct passed *got);
