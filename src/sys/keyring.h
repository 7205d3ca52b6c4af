// SPDX-License-Identifier: Apache-2.0
/* sys/keyring.h - key rings of the kernel. */
#pragma once
struct err;

/* The calling process leaves the session key ring that it inherited for a new, empty, nameless one: what it
 * runs finds no key of whoever started it. A kernel without keys has none to find: 0. */
int keyring_join_fresh(struct err *e);
