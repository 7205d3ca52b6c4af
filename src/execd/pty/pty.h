// SPDX-License-Identifier: Apache-2.0
/* execd/pty/pty.h - terminals: a shell that a client uses through a WebSocket, and that survives the client's
 * disconnect.
 *
 * A session has at most one shell and at most one client. The shell is started when a client connects and
 * there is none; it has a terminal of its own, or three pipes. All output goes to a ring of PTY_RING bytes in
 * an unnamed file on the sandbox's disk (not in our memory, which 32 rings would exhaust), and on to the
 * client. Offsets count the bytes of all shells of the session.
 *
 * A slow client makes the shell wait, but not for ever: after PTY_STALL_MS the shell may write PTY_ALLOWANCE
 * bytes more, and so on; the client gets them from the ring, in replay messages. Output that has left the
 * ring by then is skipped, which the offset of the next replay message shows. At most one message is buffered
 * for a client.
 *
 * The writer of a pipe waits for its reader: with pipes, a client gets every byte, and may take
 * PTY_PIPE_STALL_MS for it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "base/str.h"
#include "execd/command/execution.h"

struct err;
struct execd_config;
struct init;
struct pty;
struct pty_client;
struct request;

#define PTYS_MAX 32
#define PTY_RING (UINT64_C(1024) * 1024)
#define PTY_STALL_MS 5000 /* who takes nothing for twice as long is disconnected, see WS_OPTIONS */
#define PTY_PIPE_STALL_MS (3600 * 1000)
#define PTY_ALLOWANCE ((size_t)512 * 1024)
#define PTY_IDLE_MS (UINT64_C(3600) * 1000) /* without a shell and a client: it is forgotten */
#define PTY_SPARE_MS (UINT64_C(60) * 1000)  /* and after this, when there are PTYS_MAX and one more is wanted */
#define PTY_CLIENT_MEMORY ((size_t)64 * 1024) /* taken from the budget for each client */

struct ptys {
	struct execution_host host;
	struct init *init;
	const struct execd_config *config; /* for what a shell is started with */
	const char *temp_dir;
	int devpts; /* /dev/pts from before any program ran, or -1 */
	struct random_pool random;
	struct pty *first;
	struct pty_client *clients; /* those that were sent away included, until they are gone */
	unsigned n;
	bool is_stopping; /* no more shells */
};

void ptys_done(struct ptys *ps); /* ends none of the shells */
void ptys_signal(struct ptys *ps, int signo); /* to all shells and what runs in front of them */

/* No process is started yet. COMMAND: what the shell runs, NULL for an interactive one. ERR_LIMIT: there are
 * too many. */
struct pty *pty_new(struct ptys *ps, const char *cwd, const char *command, struct err *e);
struct pty *pty_find(const struct ptys *ps, struct str id);
const char *pty_id(const struct pty *p);
bool pty_is_running(const struct pty *p);
uint64_t pty_offset(const struct pty *p); /* bytes ever written */
void pty_delete(struct pty *p);           /* and its shell; the client is informed */
bool pty_has_room(const struct ptys *ps); /* one more could be made */

struct pty_attach {
	uint64_t since;   /* replay from this offset on */
	bool is_pipe;     /* for a shell that is to be started: pipes, no terminal */
	bool takes_over;  /* from the client that there is */
};

bool pty_is_held(const struct pty *p); /* by a client, or one whose handshake is on its way */
/* Answers the request, as a handler: with the handshake, or with what is wrong about it. */
int pty_attach(struct pty *p, const struct pty_attach *how, struct request *rq, struct reply *rp,
	       struct err *e);
