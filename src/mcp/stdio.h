// SPDX-License-Identifier: Apache-2.0
/* mcp/stdio.h - the transport over two descriptors: a line per message. */
#pragma once
#include "base/own.h"

struct engine;
struct err;
struct stdio;

/* ENDED is called when there will be no more to do: IN has ended and everything was answered, or OUT is
 * broken. Neither descriptor is changed or closed: they may be shared with others, who would not expect them
 * not to block. */
struct stdio *stdio_new(struct engine *en, int in, int out, void (*ended)(void *arg), void *arg,
			struct err *e);
void stdio_free(struct stdio *s);
DEFINE_AUTO(struct stdio *, stdio_free)
