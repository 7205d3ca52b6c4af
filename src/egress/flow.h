// SPDX-License-Identifier: Apache-2.0
/* egress/flow.h - connections of sandboxes to ports 80 and 443 that no network rule allows. Each names its
 * host, and is relayed only if the sandbox may reach that name and has resolved it to that address (W8). */
#pragma once
#include <stddef.h>

struct egress;
struct err;
struct flows;
struct sandbox;

#define FLOWS_MAX 1024         /* of one sandbox; never more than what is left of all */
#define FLOWS_ALL_MAX 16384    /* of all; fewer where descriptors are short */
#define FLOWS_HUGE 32          /* so few of all may have pipes of CONDUIT_HUGE bytes, half of what there is for pipes */
#define FLOW_FDS 6             /* of one that is spliced both ways */
#define FLOW_HELLO_MS 10000    /* for the host name to arrive */
#define FLOW_HELLO_MAX (32 * 1024) /* bytes in which it does */
#define FLOW_DIAL_MS 10000
#define FLOW_IDLE_MS 3600000

struct flows *flows_new(struct egress *g, struct err *e);
void flows_free(struct flows *f); /* no sandbox is left; NULL is fine */
int flows_listen(struct flows *f, int *fd, struct err *e); /* taken on success */
size_t flows_now(const struct flows *f);

void flows_review(struct sandbox *s); /* ends those that it may no longer have */
void flows_drop(struct sandbox *s);   /* ends all */
