// SPDX-License-Identifier: Apache-2.0
/* server/boot/supervise.h - the process that outlives the others: starts the warden, egress and the server, and starts them again.
 *
 * It holds root's rights and the listening sockets, parses nothing once it runs, and touches no sandbox. The warden is a
 * program of its own with root's rights; opensandbox-egress is another one, as a user without any; the server is a copy of this
 * process without any (confine.h). Programs that the server
 * needs and could not start itself are started when it connects to their socket: opensandbox-fetch. A child that dies is
 * replaced, faster than clients notice: connections wait in the sockets meanwhile. When this process dies, they end;
 * sandboxes go on in any case. */
#pragma once
struct err;
struct serve_spec;

/* Runs until SIGTERM or SIGINT has ended the server, which drains first, and then the warden; who does not end in time is
 * killed. SIGHUP goes to the server. A child that never came up ends it with that child's status, in *spec->ret_status; so
 * does the end of a job (spec->job). The calling process must have one thread and have called signals_prepare(). */
int supervise(const struct serve_spec *spec, struct err *e);
