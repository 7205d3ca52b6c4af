// SPDX-License-Identifier: Apache-2.0
/* sys/message_queue.h - messages that a SEQPACKET socket (sys/passing.h) has no room for. They leave in their order, with
 * descriptors of their own. How many there may be is the owner's to say: messages.n and bytes. */
#pragma once
#include <stddef.h>

#include "base/list.h"

struct err;

struct message_queue { /* zeroed: an empty one */
	struct list messages;
	size_t bytes;
};

void message_queue_done(struct message_queue *q); /* drops what waits; it can be used again */
static inline bool message_queue_is_empty(const struct message_queue *q)
{
	return !q->messages.first;
}

/* Copies. ERR_LIMIT: more descriptors than a message may have. */
int message_queue_add(struct message_queue *q, const void *bytes, size_t n, const int *fds, size_t n_fds, struct err *e);

/* Sends it, or queues it behind those that wait. */
int message_queue_send(struct message_queue *q, int fd, const void *bytes, size_t n, const int *fds, size_t n_fds, struct err *e);

/* Sends what FD has room for. -1: E, and the one that failed is dropped. */
int message_queue_flush(struct message_queue *q, int fd, struct err *e);
