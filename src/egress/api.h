// SPDX-License-Identifier: Apache-2.0
/* egress/api.h - the HTTP API, on a unix socket that only the server can reach; the server has authenticated
 * the client.
 *
 *     /sandboxes/ID/policy    GET, POST, PUT, PATCH, DELETE
 *     /sandboxes/ID/healthz   whether its policy is in force
 *     /sandboxes/ID/activity  what it has tried to reach
 *     /denials/N              denials of all sandboxes, from number N on
 *     /healthz, /metrics      of the process
 *
 * A sidecar has one sandbox: /policy, /healthz, /activity and /metrics, at a port of its own and with a token
 * of its own. */
#pragma once
struct egress;
struct err;

#define API_BODY_MAX (1024 * 1024)

/* Takes *fd, which listens, on success. */
int api_start(struct egress *g, int *fd, struct err *e);
void api_stop(struct egress *g);
