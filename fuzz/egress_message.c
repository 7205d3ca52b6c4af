// SPDX-License-Identifier: Apache-2.0
/* What warden and egress take for a message of each other: what passes can be acted upon as it is. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/uuid.h"
#include "box/egress_wire.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void require_net(const struct egress_net *n)
{
	require(n->prefix <= 32 && n->is_allowed <= 1);
	require(n->prefix == 32 || (ntohl(n->address) & (UINT32_MAX >> n->prefix)) == 0);
}

/* The first byte is whose side it came to, the second how many descriptors came with it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct egress_message m;
	struct err e;
	bool is_warden;

	if (size < 2)
		return 0;
	is_warden = data[0] & 1;
	if (egress_message_check(data + 2, size - 2, data[1], is_warden, &m, &e) < 0) {
		require(e.code == ERR_INVALID);
		return 0;
	}
	require(egress_message_size(&m) == size - 2 && m.n_rules <= EGRESS_RULES_MAX);
	require(is_warden == (m.call >= EGRESS_BOUND));
	for (size_t i = 0; i < m.n_rules; i++)
		require_net(&m.rules[i]);
	if (m.call == EGRESS_BIND || m.call == EGRESS_BOUND || m.call == EGRESS_UNBIND)
		require(id_valid(str_of(m.id)));
	if (m.call == EGRESS_LEARN)
		require(m.net.prefix == 32 && m.seconds > 0 && m.ports[0] > 0);
	return 0;
}
