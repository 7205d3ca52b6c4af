// SPDX-License-Identifier: Apache-2.0
/* sys/passing.h - messages with descriptors between processes of this host, over SEQPACKET sockets: a message
 * arrives whole or not at all. All sockets are non-blocking and close-on-exec. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/own.h"

struct err;

#define PASSING_FDS_MAX 40

int passing_pair(int ret_fds[2], struct err *e);
int passing_connect(const char *path, struct err *e);

/* From now on each message says who sent it, as the kernel sees them. */
int passing_want_sender(int fd, struct err *e);

/* What came with a message. The descriptors are close-on-exec and the receiver's to close: passed_done(), or
 * take_fd() of each one that is kept. */
struct passed {
	size_t n; /* bytes */
	size_t n_fds;
	int fds[PASSING_FDS_MAX];
	bool has_sender;
	struct ucred sender; /* when has_sender */
};

#define PASSED_INIT ((struct passed){ 0 })
void passed_done(struct passed *p);
DEFINE_AUTO_DONE(struct passed, passed_done)

/* 1 sent, 0 no room at the moment, -1. An empty message cannot be told from the end and is refused. The
 * descriptors stay the sender's, too. */
int passing_send(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds, struct err *e);

enum { PASSING_END = 0, PASSING_MESSAGE = 1, PASSING_NONE = 2 };

/* One of the above or -1. A message that is larger than CAP or carries more than MAX_FDS descriptors is
 * ERR_LIMIT and lost; so is one whose descriptors find no free numbers here, with EMFILE as its errno.
 * Whatever came with it is closed. *ret must not own descriptors; it is written in any case so that
 * passed_done() is right after each call. */
int passing_recv(int fd, void *bytes, size_t cap, size_t max_fds, struct passed *ret, struct err *e);
