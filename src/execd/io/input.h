// SPDX-License-Identifier: Apache-2.0
/* execd/io/input.h - text that a program reads as its standard input, followed by end of file.
 *
 * The text waits here until the program reads it, through a small pipe fed from the loop. The budget pays for
 * the text and for the pages of the pipe, which the kernel charges to us. */
#pragma once
#include <stddef.h>

#include "base/str.h"
#include "net/loop.h"

struct budget;
struct err;

#define INPUT_MAX ((size_t)1024 * 1024)
#define INPUT_PIPE ((size_t)4 * 1024)

struct input {
	struct budget *budget;
	size_t granted;
	int fd; /* the write end; -1: all has been written, or there was nothing to write */
	struct io io;
	char *bytes;
	size_t n, at;
};

#define INPUT_INIT ((struct input){ .fd = -1 })

/* Copies TEXT, begins to write it, and gives the read end, which is the caller's. ERR_UNAVAILABLE without a
 * grant. */
int input_open(struct input *in, struct loop *l, struct budget *budget, struct str text, int *ret_read,
	       struct err *e);
void input_done(struct input *in); /* the program finds the end where it is; fine when not opened, or twice */
