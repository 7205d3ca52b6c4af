// SPDX-License-Identifier: Apache-2.0
/* execd/command/history.h - records of commands: their result and their output.
 *
 * A record is made before the command starts and stays after its end, for clients that lost the stream. Ended
 * records are dropped, oldest first, when there are more than HISTORY_MAX or their outputs exceed
 * HISTORY_BYTES_MAX, and each HISTORY_KEEP_MS after its end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/str.h"
#include "base/uuid.h"
#include "execd/io/tail_file.h"

struct buf;
struct err;
struct process_end;

#define HISTORY_MAX 1000
#define HISTORY_BYTES_MAX (UINT64_C(256) * 1024 * 1024)
#define HISTORY_KEEP_MS (UINT64_C(24) * 3600 * 1000)
#define COMMAND_RECORD_CONTENT_MAX 2048 /* bytes of the command's text */

struct command_record {
	struct command_record *older, *newer;
	char id[UUID_HEX_LEN + 1];
	char *content;
	struct timespec started, finished; /* wall clock */
	uint64_t finished_ms;            /* the loop's clock */
	bool is_running;
	int exit_code;
	char error[96]; /* "exit status 1"; empty: none */
	struct tail_file output;
	void *user; /* the command itself while it has output to come, or NULL */
	void (*forget)(struct command_record *p); /* called before it goes, if there is a user */
};

struct history {
	struct command_record *oldest, *newest;
	size_t n;
	const char *dir; /* of the outputs */
};

/* A record of a command that is about to start. */
struct command_record *history_add(struct history *h, struct str id, struct str content, uint64_t now_ms,
				   struct err *e);
void history_end(struct command_record *p, int exit_code, const char *error, uint64_t now_ms);
struct command_record *history_find(struct history *h, struct str id, uint64_t now_ms); /* or NULL */
void history_done(struct history *h);

/* The object of GET /command/status. */
void command_record_write(const struct command_record *p, struct buf *json);
