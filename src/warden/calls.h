// SPDX-License-Identifier: Apache-2.0
/* warden/calls.h - what each request of box/wire.h does.
 *
 *     CREATE  ERR_INVALID when the entrypoint cannot be started, with execd's own words, or the image cannot be used. The limits of cpu, memory and pids
 *             hold from the first instruction on, or the create fails (ERR_UNAVAILABLE). disk_bytes and inodes are not
 *             enforced on plain directories: who advertises them must not before a store with quotas is in use.
 *     PAUSE, RESUME  ERR_CONFLICT in any other state.
 *     REMOVE  answered when nothing is left, however long that takes; of what is not there at once.
 *     DIAL    ERR_CONFLICT unless it runs: nobody would answer. */
#pragma once
struct passed;
struct ticket;
struct warden;
struct wire_request;

/* RQ has been checked; the ticket is answered now or later. */
void calls_handle(struct warden *w, const struct wire_request *rq, const struct ticket *t, struct passed *got);
