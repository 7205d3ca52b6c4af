// SPDX-License-Identifier: Apache-2.0
/* server/boot/recover.h - "opensandbox-server recover": a new database for sandboxes whose old one is damaged (S8).
 *
 * Asks the runtime what it has, moves the old database aside, and makes a new one from the records that can still be read
 * and from what runs. No sandbox is ended; the next start finds and settles the rest as after any crash. */
#pragma once
struct err;
struct serve_spec;

int recover(const struct serve_spec *spec, struct err *e); /* a job for supervise(); prints what it did */
