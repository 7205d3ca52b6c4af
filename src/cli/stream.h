// SPDX-License-Identifier: Apache-2.0
/* cli/stream.h - runs a command in a sandbox and prints its output unchanged. */
#pragma once
struct cli;
struct osb_command;
struct osb_sandbox;

/* Both return the exit status for osb, which is the command's own, or 124 where its time was over. */

/* Bytes as they are, up to the last one; the command reads an empty input. It ends with osb, unless that is
 * killed. */
int stream_command(struct cli *cli, struct osb_sandbox *s, const struct osb_command *command);

/* In a session that stands: line by line, and each has an end. */
int stream_session(struct cli *cli, struct osb_sandbox *s, const char *session_id,
		   const struct osb_command *command);
