// SPDX-License-Identifier: Apache-2.0
/* execd/pty/pty_impl.h - shared by the files of terminals: pty.c moves the output and keeps the list,
 * pty_shell.c starts shells, pty_client.c is the WebSocket. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/uuid.h"
#include "execd/init.h"
#include "execd/io/tail_file.h"
#include "execd/pty/pty.h"
#include "execd/pty/pty_frame.h"
#include "net/loop.h"

struct ws_conn;

enum pty_state {
	PTY_IDLE,     /* no shell */
	PTY_STARTING, /* on its way to exec */
	PTY_UP,
	/* collected, but not all that it wrote has been read, or the client does not know yet */
	PTY_ENDING,
};

struct pty_pipe {
	struct pty *of;
	int fd; /* -1: none, or at its end */
	struct io io;
	enum pty_tag tag;
	uint64_t left; /* while ENDING: bytes that still count, should somebody else go on writing */
};

struct pty {
	struct ptys *of;
	struct pty *prev, *next;
	char id[UUID_LEN + 1];
	struct arena arena; /* for the two below */
	const char *cwd, *command;
	size_t granted; /* of the budget, for the arena */
	enum pty_state state;
	bool is_deleted;
	bool is_over; /* its command has ended, and who was there knows how */

	struct child child;
	bool is_pipe;
	struct pty_pipe out[2]; /* of a terminal the first one alone */
	int in;                 /* of a terminal a copy of out[0].fd */
	struct io in_io;        /* while stdin waits */
	struct process_end end;

	struct tail_file ring;
	struct pty_client *client; /* open, not sent away */
	unsigned n_opening;        /* handshakes on their way */
	struct timer stall;
	size_t allowance; /* may be read although the client is behind */
	struct timer idle;
	uint64_t idle_since_ms;
	struct deferred later;
};

struct pty_client {
	struct ptys *ptys;
	struct pty *of; /* NULL: it was sent away, or the session is gone */
	struct pty_client *prev, *next;
	struct ws_conn *ws;
	struct pty_attach how;
	bool is_open;
	bool is_greeted; /* "connected" was said */
	bool is_live;    /* has all that was read; otherwise from `at` on it is read from the ring */
	uint64_t at;
	struct str typed; /* stdin that waits, in the memory of the WebSocket or in `copy` */
	struct buf copy;
	size_t held; /* of the budget, without PTY_CLIENT_MEMORY */
};

/* pty.c */
/* moves what can be moved; P may lose its client, and is freed later at the earliest */
void pty_pump(struct pty *p);
void pty_ended(struct pty *p, const struct process_end *end);
void pty_failed(struct pty *p, const struct err *why);
void pty_detached(struct pty *p); /* its client has gone */

/* pty_shell.c */
int pty_shell_start(struct pty *p, struct err *e); /* as its client asks for */
void pty_shell_signal(const struct pty *p, int signo); /* to what runs in front */
void pty_shell_kill(const struct pty *p);
void pty_shell_resize(const struct pty *p, uint16_t cols, uint16_t rows);
void pty_shell_release(struct pty *p); /* its descriptors; what is left running can write on */

/* pty_client.c */
void client_catch_up(struct pty_client *c); /* from the ring, as far as there is room */
void client_feed(struct pty_client *c);     /* stdin that waits */
bool client_has_room(const struct pty_client *c);
void client_send(const struct pty_client *c, struct str message);
void client_say_exit(struct pty_client *c, const struct process_end *end); /* these three send it away */
void client_say_failed(struct pty_client *c, const char *code, const char *why);
void client_drop(struct pty_client *c); /* without a word */
