// SPDX-License-Identifier: Apache-2.0
/* net/tls_hello.h - the server name in the first message of a TLS client, before encryption begins (RFC 8446,
 * RFC 6066).
 *
 * The message may span several records. Nothing is decrypted; of the rest of the message only the framing is
 * checked. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "net/host_name.h"

#define TLS_HELLO_MAX (16 * 1024) /* bytes of the message, and of the records around it */
#define TLS_HELLO_RECORDS_MAX 64

struct tls_hello {
	bool has_name;
	bool has_encrypted; /* another, encrypted hello is in it (ECH): the name is the outer one */
	char name[HOST_NAME_LEN_MAX + 1]; /* as host_name() writes it */
};

/* IN is everything received so far. 1: *ret is complete; 0: more is needed; -1: it is no such message, and
 * *ret_why gives the reason. */
int tls_hello_parse(struct str in, struct tls_hello *ret, const char **ret_why);
