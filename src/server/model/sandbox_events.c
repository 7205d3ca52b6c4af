// SPDX-License-Identifier: Apache-2.0
/* The diary of a sandbox. */
#include <stdarg.h>
#include <stdio.h>

#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define EVENT_MESSAGE_MAX 400

static const char *const scopes[] = {
	[EVENT_LIFECYCLE] = "lifecycle", [EVENT_CONTAINER] = "container", [EVENT_RUNTIME] = "runtime",
};

const char *event_scope_name(enum event_scope s)
{
	return scopes[s];
}

bool event_scope_parse(struct str name, enum event_scope *ret)
{
	for (unsigned i = 0; i < EVENT_SCOPES; i++) {
		if (str_is(name, scopes[i])) {
			*ret = (enum event_scope)i;
			return true;
		}
	}
	return false;
}

const char *event_type_known(struct str type)
{
	static const char *const types[] = {
		"Created", "Started", "Paused", "Resumed", "Renewed", "MetadataChanged", "Removing", "Expired",
		"Exited",  "Failed",  "OutOfMemory", "Adopted", "Recovered", "IgnoredKeys", "RemoveFailed", "Snapshot", "RolledBack",
		"Pulling", "HandedOut",
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_is(type, types[i]))
			return types[i];
	return "Event";
}

int box_add_event(struct box *b, int64_t at_us, enum event_scope scope, const char *type, const char *message)
{
	size_t n = strlen(message);
	struct sandbox_event *ev = malloc(sizeof(*ev) + n + 1);

	if (!ev)
		return -1;
	*ev = (struct sandbox_event){ .at_us = at_us, .scope = scope, .type = type };
	memcpy(ev->message, message, n + 1);
	*(b->newest_event ? &b->newest_event->next : &b->pub.oldest_event) = ev;
	b->newest_event = ev;
	if (++b->pub.n_events <= STORE_EVENTS_MAX)
		return 0;
	ev = b->pub.oldest_event;
	b->pub.oldest_event = ev->next;
	b->pub.n_events--;
	free(ev);
	return 0;
}

void box_prepend_events(struct box *b, struct box *from)
{
	if (!from->pub.oldest_event)
		return;
	from->newest_event->next = b->pub.oldest_event;
	if (!b->newest_event)
		b->newest_event = from->newest_event;
	b->pub.oldest_event = take_ptr(&from->pub.oldest_event);
	b->pub.n_events += from->pub.n_events;
	from->newest_event = NULL;
	from->pub.n_events = 0;
}

void box_event(struct box *b, struct store_tx *tx, enum event_scope scope, const char *type, const char *fmt, ...)
{
	struct store_event ev = { .sandbox_id = b->id, .at_us = sandboxes_wall_us(b->pub.set), .scope = scopes[scope] };
	char message[EVENT_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	type = event_type_known(str_of(type));
	(void)box_add_event(b, ev.at_us, scope, type, message); /* out of memory: a line of the diary is missing */
	ev.type = type;
	ev.message = message;
	if (tx)
		store_tx_event(tx, &ev);
}
