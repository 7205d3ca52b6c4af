// SPDX-License-Identifier: Apache-2.0
/* box/egress_start.h - the interface between the supervisor, opensandbox-egress and the warden at the start
 * of egress.
 *
 *     opensandbox-egress --warden PATH [--upstream ADDRESS[:PORT]]... [--rules-dir DIR] [--deny-webhook-fd N]
 *                        [--pulse-fd N] [--max-rules N] [--allow-private NETWORK]... [--log-level LEVEL] [--log-json]
 *
 * Egress is started as a user of its own, with an empty environment and the descriptors 0 to 2,
 * EGRESS_FD_API, EGRESS_FD_STATE, EGRESS_FD_PROGRAM (its program, which it closes) and those of its options.
 * It gives up all other privileges itself. PATH is run_dir/egress-warden.sock, a SEQPACKET socket that only
 * its user may connect to. Egress connects at start, and again after each restart of the warden. The warden
 * gets the listener of that socket as --egress-fd WARDEN_FD_EGRESS, and the user that may connect as
 * --egress-uid. */
#pragma once

#define EGRESS_FD_API 3     /* listens, SOCK_STREAM, on run_dir/egress.sock: its HTTP API, for the server */
#define EGRESS_FD_STATE 4   /* the folder state_dir/egress, its own, 0700: one file per sandbox */
#define EGRESS_FD_PROGRAM 5
#define EGRESS_FD_PROGRAM_TEXT "5"
#define EGRESS_FD_PULSE 6   /* a pipe: its signs of life (net/pulse.h) */
#define EGRESS_FD_PULSE_TEXT "6"
#define EGRESS_FD_WEBHOOK 7 /* a file with the URL of the webhook: it may hold a secret */
#define EGRESS_FD_WEBHOOK_TEXT "7"
#define WARDEN_FD_EGRESS 5
#define WARDEN_FD_EGRESS_TEXT "5"
