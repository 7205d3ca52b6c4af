// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_process.h - the driver for languages with a program of ours (code_language.h).
 *
 * The program says what it has to say in messages (code_frame.h) on one socket, in order; what other programs write to its descriptors 1
 * and 2 comes by pipes. It sends no message while its pipes hold anything that was written before, so messages are read first. All that
 * comes is bounded: a message is passed on in pieces, or collected by the budget's leave, or left out. One that makes no sense ends the
 * process, and nobody else's. */
#pragma once

struct code_driver_type;

extern const struct code_driver_type code_process;
