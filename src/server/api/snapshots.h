// SPDX-License-Identifier: Apache-2.0
/* server/api/snapshots.h - shared by the handlers of snapshots. */
#pragma once

struct reply;
struct request;
struct snapshot;

int reply_snapshot(struct reply *rp, unsigned status, const struct snapshot *sn);
/* That of params[0]. NULL: the 404 is on its way. */
struct snapshot *request_snapshot(const struct request *rq, struct reply *rp);
