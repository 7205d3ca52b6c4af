// SPDX-License-Identifier: Apache-2.0
/* base/random.h - bytes from the kernel's random source, good enough for ids, tokens and keys. */
#pragma once
#include <stddef.h>

#include "base/own.h"

struct err;

/* All N bytes or an error, never fewer; may wait for the kernel's source early at boot. */
int random_bytes(void *p, size_t n, struct err *e);

/* The same bytes at a fraction of the system calls, for hot paths. The pool is embedded by its owner and
 * used by one thread; bytes are wiped from it as they are handed out. A child that goes on after fork()
 * calls random_pool_done() first: otherwise parent and child would draw the same bytes. */
#define RANDOM_POOL_SIZE 512
struct random_pool {
	unsigned char bytes[RANDOM_POOL_SIZE];
	size_t left; /* unused bytes, at the end of the array */
};

#define RANDOM_POOL_INIT ((struct random_pool){ 0 })

int random_pool_take(struct random_pool *pool, void *p, size_t n, struct err *e);
void random_pool_done(struct random_pool *pool); /* wipes; usable again */
DEFINE_AUTO_DONE(struct random_pool, random_pool_done)
