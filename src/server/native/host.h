// SPDX-License-Identifier: Apache-2.0
/* server/native/host.h - what the processes of the native runtime find when they start: a user for the server, folders, and
 * the warden's socket.
 *
 *     state_dir/          root's, 0711: nobody else can put anything of theirs in the warden's way
 *     state_dir/server/   the server's, 0700: database and audit log
 *     state_dir/server/blobs/  layers on their way from registries to the warden: of the user that opensandbox-fetch runs as,
 *                         02750 with the server's group, which reads them
 *     run_dir/warden.sock the server's, 0600: the way to ask the warden
 *     run_dir/fetch.sock  the same: each connection is an order to opensandbox-fetch
 *     state_dir/egress/   of the user that opensandbox-egress runs as, 0700: the policies of sandboxes
 *     run_dir/egress.sock the server's, 0600: the HTTP API of egress
 *     run_dir/egress-warden.sock  egress's, 0600: the way from egress to the warden */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/own.h"

struct config;
struct err;

struct native_host {
	uid_t uid; /* that the server runs with */
	gid_t gid;
	uid_t egress_uid; /* that egress runs with: another one */
	gid_t egress_gid;
	uid_t fetch_uid; /* that fetchers run with: neither of them, as the warden knows its peers by their ids */
	gid_t fetch_gid;
	char server_dir[PATH_MAX], blobs_dir[PATH_MAX];
	char socket[PATH_MAX], fetch_socket[PATH_MAX];
	char egress_dir[PATH_MAX], egress_socket[PATH_MAX], egress_warden_socket[PATH_MAX];
	char warden[PATH_MAX], execd[PATH_MAX], fetch[PATH_MAX], egress[PATH_MAX]; /* programs */
	int lock, run_lock; /* of the two folders, for this process */
	int listener, fetch_listener; /* on the sockets */
	int blobs; /* the folder */
	int egress_listener, egress_warden_listener, egress_state; /* its two sockets, its folder */
};

#define NATIVE_HOST_INIT \
	((struct native_host){ .lock = -1, .run_lock = -1, .listener = -1, .fetch_listener = -1, .blobs = -1, \
			  .egress_listener = -1, .egress_warden_listener = -1, .egress_state = -1 })

/* Names only: nothing is made or opened. ERR_LIMIT for folders with names too long for a socket. */
int native_host_names(const struct config *c, struct native_host *n, struct err *e);
int native_host_programs(const struct config *c, struct native_host *n, struct err *e); /* of these, only the programs */

/* Makes what is missing. *ret_is_taken: it failed because another server runs there. Needs root. */
int native_host_prepare(const struct config *c, struct native_host *n, bool *ret_is_taken, struct err *e);
void native_host_done(struct native_host *n);
DEFINE_AUTO_DONE(struct native_host, native_host_done)
