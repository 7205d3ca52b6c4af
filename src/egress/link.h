// SPDX-License-Identifier: Apache-2.0
/* egress/link.h - the connection to the warden (box/egress_wire.h): connects, reconnects, sends requests and
 * receives announcements.
 *
 * While it is down, nothing can be opened or cut, and open requests fail; rules that are in force stay. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"
#include "box/egress_wire.h"

struct link;
struct loop;

#define LINK_AGAIN_MS 100
#define LINK_ANSWER_MS 5000 /* the warden's time for one message */
#define LINK_PENDING_MAX 16384

/* Announcements of the warden. FDS may be taken (take_fd()). */
typedef void link_told_fn(const struct egress_message *m, int *fds, size_t n_fds, void *arg);
/* The answer to what was asked; E is NULL when it is in force. */
typedef void link_done_fn(const struct err *e, void *arg);

struct link *link_new(struct loop *l, const char *path, link_told_fn *told, void *arg, struct err *e);
/* Over *fd, which is taken on success: when that is lost there is no other, and the loop is stopped. */
struct link *link_new_fd(struct loop *l, int *fd, link_told_fn *told, void *arg, struct err *e);
void link_free(struct link *l); /* what was asked is not answered any more; NULL is fine */

/* Gives the connection up: what was asked fails, and the next one begins with everything anew, which takes
 * back what the other side has of this one. */
void link_renew(struct link *l, const struct err *why);
bool link_is_up(const struct link *l); /* connected, and greeted */
/* Sends M, whose version and serial are set here. DONE is called once, later, unless -1 was returned; it may
 * be NULL. */
int link_ask(struct link *l, struct egress_message *m, link_done_fn *done, void *arg, struct err *e);
void link_forget(struct link *l, void *arg); /* replies for this ARG are dropped */
int link_tell(struct link *l, struct egress_message *m, struct err *e); /* as it is, with its serial */
