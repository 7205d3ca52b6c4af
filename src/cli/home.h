// SPDX-License-Identifier: Apache-2.0
/* cli/home.h - what `osb up`, `osb down` and `osb doctor` use on this machine: the user's folder, the server
 * program beside osb, and the configuration that was made for it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/own.h"

struct arena;
struct buf;
struct cli;
struct err;
struct osb_client;

#define HOME_CONFIG "server.toml"
#define HOME_LOG "server.log"

struct home {
	int dirfd;           /* ~/.opensandbox, made if it was missing */
	const char *folder, *config, *log; /* paths */
	const char *program; /* opensandbox-server; NULL: it is not installed beside osb */
};

#define HOME_INIT ((struct home){ .dirfd = -1 })
int home_open(struct cli *cli, struct home *ret, struct err *e);
void home_done(struct home *h);
DEFINE_AUTO_DONE(struct home, home_done)

/* Where the server with this configuration serves, and its key (NULL: it asks for none); the environment
 * outranks the file. */
struct home_server {
	const char *host, *key;
	int64_t port;
	const char *address; /* "127.0.0.1:8080", for clients on this machine */
};
int home_server_read(struct cli *cli, const struct home *h, int64_t port, struct home_server *ret,
		     struct err *e);

/* A client for it, whatever the settings say. NULL: it has been said why. */
struct osb_client *home_client(struct cli *cli, const struct home_server *s);

/* Runs the server's program to its end; what it writes goes to OUT (NULL: to where ours goes). Its status, or
 * -1. */
int home_run(const struct home *h, char *const *argv, struct buf *out, struct err *e);
