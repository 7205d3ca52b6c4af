// SPDX-License-Identifier: Apache-2.0
/* Handles of sandboxes. */
#include "client/sandbox.h"

#include "base/err.h"
#include "client/client_impl.h"
#include "client/pty.h"

#include "base/banned.h"

struct osb_sandbox *sandbox_new(struct osb_client *c, const char *id)
{
	struct osb_sandbox *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->id = strdup(id);
	if (!s->id) {
		free(s);
		return NULL;
	}
	s->client = c;
	s->next = c->sandboxes;
	if (s->next)
		s->next->prev = s;
	c->sandboxes = s;
	return s;
}

/* What is being undone in it would be left with an endpoint that is gone. */
static void give_up(struct op *op, const struct osb_sandbox *s)
{
	if (op->sandbox != s)
		return;
	op_fail(op, OSB_CANCELLED, NULL, "the sandbox was freed");
	op_undone(op);
}

void osb_sandbox_free(struct osb_sandbox *s)
{
	struct osb_client *c = s ? s->client : NULL;

	if (!s)
		return;
	s->is_closing = true;
	for (struct osb_call *call = c->calls; call; call = call->next)
		give_up(&call->op, s);
	give_up(&c->own.op, s); /* inside a call back of an operation that is waited for */
	ptys_free(c, s);
	*(s->prev ? &s->prev->next : &c->sandboxes) = s->next;
	if (s->next)
		s->next->prev = s->prev;
	endpoint_done(&s->execd);
	endpoint_done(&s->egress);
	free(s->id);
	free(s);
}

const char *osb_sandbox_id(const struct osb_sandbox *s)
{
	return s->id;
}

struct osb_client *osb_sandbox_client(const struct osb_sandbox *s)
{
	return s->client;
}
