// SPDX-License-Identifier: Apache-2.0
/* cli/attach.h - connects our standard streams, or our terminal, to a program in a sandbox, until one of the
 * two ends.
 *
 * With a terminal: ours is raw meanwhile, the remote one follows its size, and the keys of keys.h are handled
 * here. Without: bytes are copied unchanged both ways, standard error separately, and the end of our input
 * ends theirs. A slow reader on our side slows the program.
 *
 * Signals come from a descriptor of the caller (TERMINAL_SIGNALS, blocked), so that no signal leaves a
 * terminal raw. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "client/opensandbox.h"

enum attach_end {
	ATTACH_EXIT,     /* the program ended: code is its status */
	ATTACH_SIGNAL,   /* by a signal: code is its number */
	ATTACH_CLOSED,   /* our output was closed */
	ATTACH_LOST,     /* the connection, or the sandbox: error gives the reason */
	ATTACH_TIMEOUT,
	ATTACH_LEFT,     /* by key: the program is to end */
	ATTACH_DETACHED, /* by key: it goes on */
};

struct attach_spec {
	struct osb_sandbox *sandbox;
	struct osb_pty_options options;
	bool is_terminal; /* standard input is one */
	bool has_keys;
	bool no_input;
	int signals;
	uint64_t deadline_ms; /* by clock_mono_ms(); 0: none */
	uint64_t renew_ms;    /* call `renew` every so often; 0: never */
	void (*renew)(void *arg);
	void *arg;
};

struct attach_result {
	enum attach_end end;
	int code;
	struct osb_error error;
	char session[128]; /* to come back to */
};

/* -1 with *e filled: it could not be begun. */
int attach(const struct attach_spec *spec, struct attach_result *ret, struct osb_error *e);

/* What a program that runs another one exits with: the status of it, 128 + signal, 124 for a timeout, 125 for
 * what is lost. */
int attach_status(const struct attach_result *r);
#define ATTACH_STATUS_FAILED 125
