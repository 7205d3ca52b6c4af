// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_process.h - the driver for languages with a program of ours (code_language.h).
 *
 * The program sends messages (code_frame.h) on one socket, in order; output of other programs on its
 * descriptors 1 and 2 comes through pipes. It sends no message while its pipes hold earlier output, so
 * messages are read first. All input is bounded: a message is passed on in pieces, or collected if the budget
 * grants it, or omitted. An invalid message ends that process only. */
#pragma once

struct code_driver_type;

extern const struct code_driver_type code_process;
