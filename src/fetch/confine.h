// SPDX-License-Identifier: Apache-2.0
/* fetch/confine.h - what a process that speaks to strangers keeps (P1): its files, sockets, and a thread to look up names.
 *
 * It has the server's ids and no capabilities when it begins. */
#pragma once
struct err;

int confine_fetcher(struct err *e);
void confine_fetcher_end(void); /* right before exit(): lets the leak checker of test builds do its work */
