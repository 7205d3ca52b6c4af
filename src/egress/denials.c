// SPDX-License-Identifier: Apache-2.0
#include "egress/denials.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json_out.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "box/wire.h"
#include "egress/activity.h"

#include "base/banned.h"

struct denial {
	int64_t at_us;
	char id[WIRE_ID_SIZE];
	enum activity_kind kind;
	uint32_t address; /* 0: none */
	uint16_t port;    /* of ACTIVITY_TCP */
	const char *why;  /* constant, or NULL */
	char target[ACTIVITY_TEXT_MAX];
};

void denials_init(struct denials *d)
{
	*d = (struct denials){ .since_us = clock_wall_us(), .next = 1 };
}

void denials_done(struct denials *d)
{
	free(d->ring);
	d->ring = NULL;
}

void denials_add(struct denials *d, const char *id, const struct activity_event *ev)
{
	struct denial *r;

	if (!d->ring)
		d->ring = calloc(DENIALS_MAX, sizeof(*d->ring));
	if (!d->ring) {
		d->lost++;
		return;
	}
	r = &d->ring[d->next++ % DENIALS_MAX];
	*r = (struct denial){ .at_us = clock_wall_us(), .kind = ev->kind, .address = ev->address, .port = ev->port, .why = ev->why };
	(void)snprintf(r->id, sizeof(r->id), "%s", id);
	(void)snprintf(r->target, sizeof(r->target), "%s", ev->target);
}

void denials_keep(struct denials *d, uint64_t number)
{
	if (number < d->next)
		d->kept = number;
}

static void write_one(const struct denial *r, struct json_out *o)
{
	char at[RFC3339_SIZE];

	json_open(o, '{');
	(void)rfc3339_format_ms(timespec_from_us(r->at_us), at);
	json_key(o, "at"), json_cstr(o, at);
	json_key(o, "sandboxId"), json_cstr(o, r->id);
	activity_write_target(&(struct activity_event){ .kind = r->kind, .target = r->target, .address = r->address, .port = r->port,
							.why = r->why }, o);
	json_close(o, '}');
}

void denials_write(const struct denials *d, uint64_t after, struct json_out *o)
{
	uint64_t first = d->next > DENIALS_MAX ? d->next - DENIALS_MAX : 1;
	uint64_t from = after < d->next - 1 ? after + 1 : d->next; /* a number of the future is nobody's */
	uint64_t missed = from < first ? first - from : 0;

	json_open(o, '{');
	json_key(o, "since"), json_int(o, d->since_us);
	json_key(o, "next"), json_uint(o, d->next);
	json_key(o, "lost"), json_uint(o, missed + d->lost);
	json_key(o, "items"), json_open(o, '[');
	for (uint64_t i = MAX(from, first); d->ring && i < d->next; i++)
		write_one(&d->ring[i % DENIALS_MAX], o);
	json_close(o, ']');
	json_close(o, '}');
}
