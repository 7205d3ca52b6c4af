// SPDX-License-Identifier: Apache-2.0
#include "box/egress_wire.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/own.h"
#include "base/str.h"
#include "base/uuid.h"

#include "base/banned.h"

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "a message with %s", what);
}

bool egress_net_has(const struct egress_net *net, uint32_t address)
{
	return net->prefix == 0 || (ntohl(net->address ^ address) >> (32 - net->prefix)) == 0;
}

size_t egress_message_size(const struct egress_message *m)
{
	return offsetof(struct egress_message, rules) + (m->call == EGRESS_RULES ? m->n_rules * sizeof(m->rules[0]) : 0);
}

static bool is_from_warden(uint32_t call)
{
	return call >= EGRESS_HELLO && call <= EGRESS_DONE;
}

static bool has_id(const struct egress_message *m)
{
	return memchr(m->id, '\0', sizeof(m->id)) && id_valid(str_of(m->id));
}

static bool is_net(const struct egress_net *net)
{
	return net->prefix <= 32 && net->is_allowed <= 1 && net->pad == 0 &&
	       (net->prefix == 32 || (ntohl(net->address) & (UINT32_MAX >> net->prefix)) == 0);
}

static int check_rules(const struct egress_message *m, struct err *e)
{
	if (m->allows > EGRESS_REST_NOT_RESOLVERS)
		return bad(e, "a value out of range");
	for (size_t i = 0; i < m->n_rules; i++)
		if (!is_net(&m->rules[i]))
			return bad(e, "a bad network");
	return 0;
}

static int check_learned(const struct egress_message *m, struct err *e)
{
	if (m->net.prefix != 32 || !is_net(&m->net) || m->ports[0] == 0)
		return bad(e, "no host and port");
	if (m->call == EGRESS_LEARN && (m->seconds == 0 || m->seconds > EGRESS_SECONDS_MAX))
		return bad(e, "a time out of range");
	for (size_t i = 0; i < EGRESS_PORTS_MAX && m->ports[i]; i++)
		if (m->ports[i] == 80 || m->ports[i] == 443) /* W8: those pass by way of the relay alone */
			return bad(e, "a port that is the relay's");
	return 0;
}

static int check_answer(const struct egress_message *m, struct err *e)
{
	if (m->serial == 0 || m->failed > 1 || !memchr(m->err.msg, '\0', sizeof(m->err.msg)))
		return bad(e, "no answer that could be");
	if (m->failed && (m->err.code <= ERR_NONE || m->err.code > ERR_INTERNAL))
		return bad(e, "an unknown error");
	return 0;
}

static size_t fds_of(const struct egress_message *m, size_t n_fds)
{
	if (m->call == EGRESS_HELLO)
		return EGRESS_FDS;
	if (m->call == EGRESS_BIND && m->network == WIRE_NET_POLICY)
		return n_fds > 0; /* of one that was made before, its policy is known */
	return 0;
}

static int check_call(const struct egress_message *m, struct err *e)
{
	switch ((enum egress_call)m->call) {
	case EGRESS_HELLO:
	case EGRESS_SYNCED: return 0;
	case EGRESS_BIND:
		if (m->serial == 0 || (m->network != WIRE_NET_OPEN && m->network != WIRE_NET_POLICY))
			return bad(e, "an unknown network");
		return has_id(m) && m->address ? 0 : bad(e, "a bad id");
	case EGRESS_UNBIND: return has_id(m) && m->address ? 0 : bad(e, "a bad id");
	case EGRESS_BOUND:
		if (!has_id(m))
			return bad(e, "a bad id");
		return check_answer(m, e);
	case EGRESS_DONE: return check_answer(m, e);
	case EGRESS_RULES: return check_rules(m, e);
	case EGRESS_LEARN:
	case EGRESS_FORGET: return check_learned(m, e);
	case EGRESS_CUT: return is_net(&m->net) ? 0 : bad(e, "a bad network");
	}
	return bad(e, "an unknown call");
}

int egress_message_check(const void *bytes, size_t n, size_t n_fds, bool is_warden, struct egress_message *ret, struct err *e)
{
	const size_t head = offsetof(struct egress_message, rules);

	if (n < head || n > sizeof(*ret))
		return bad(e, "another size");
	memset(ret, 0, head);
	memcpy(ret, bytes, n);
	if (ret->version != EGRESS_WIRE_VERSION)
		return bad(e, "another version");
	if (ret->call < EGRESS_HELLO || ret->call > EGRESS_CUT || is_from_warden(ret->call) == is_warden)
		return bad(e, "an unknown call");
	if (ret->call != EGRESS_RULES)
		ret->n_rules = 0;
	if (ret->n_rules > EGRESS_RULES_MAX || n != egress_message_size(ret))
		return bad(e, "another size than its rules have");
	if (n_fds != fds_of(ret, n_fds))
		return bad(e, "the wrong descriptors");
	return check_call(ret, e);
}
