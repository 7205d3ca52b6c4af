// SPDX-License-Identifier: Apache-2.0
/* warden/calls.h - what each request of box/wire.h does.
 *
 *     CREATE  ERR_INVALID when the entrypoint cannot be started, with execd's own words, or the image cannot be used; with
 *             WIRE_FAULT_IMAGE_START in `sys` its USER or WORKDIR cannot.
 *             The limits of cpu, memory, pids and disk hold from the first instruction on, or the create fails (ERR_UNAVAILABLE; with EDQUOT in `sys` when it
 *             is the disk's: a store of plain directories takes the default, and does not hold it, but nothing else).
 *             There is no limit on inodes but the disk's, which counts them as bytes.
 *             ERR_INVALID with an enum wire_volume_fault in `sys`: one of its volumes.
 *     PAUSE, RESUME  ERR_CONFLICT in any other state.
 *     REMOVE  answered when no process is left, however long that takes, and the rest goes in the background; of what is
 *             not there at once.
 *     LAYER_ADD  ERR_INVALID when the blob is not what was announced or breaks a rule of I2 and I3; ERR_LIMIT when there is
 *             no room for it. Nothing is there of a layer before all of it is on the disk.
 *     LAYER_DROP  ERR_CONFLICT while a box has it. Its files go in the background.
 *     DIAL    ERR_CONFLICT unless it runs: nobody would answer.
 *     SNAPSHOT, SNAPSHOT_REMOVE, SNAPSHOTS  see snapshot.h. */
#pragma once
struct passed;
struct ticket;
struct warden;
struct wire_request;
struct wire_volumes;

/* RQ has been checked; the ticket is answered now or later. */
void calls_handle(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes, const struct ticket *t,
		  struct passed *got);
