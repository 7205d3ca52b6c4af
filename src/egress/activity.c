// SPDX-License-Identifier: Apache-2.0
#include "egress/activity.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json_out.h"
#include "base/own.h"
#include "base/rfc3339.h"

#include "base/banned.h"

static void unlink_row(struct activity *a, struct activity_row *r)
{
	*(r->prev ? &r->prev->next : &a->first) = r->next;
	*(r->next ? &r->next->prev : &a->last) = r->prev;
}

static void push_row(struct activity *a, struct activity_row *r)
{
	r->prev = NULL;
	r->next = a->first;
	*(a->first ? &a->first->prev : &a->last) = r;
	a->first = r;
}

static void drop_row(struct activity *a, struct activity_row *r)
{
	(void)map_del(&a->rows, (struct str){ r->key, r->key_n });
	unlink_row(a, r);
	a->n--;
	free(r);
}

void activity_done(struct activity *a)
{
	while (a->first)
		drop_row(a, a->first);
	map_done(&a->rows);
}

static struct activity_row *make_row(const struct activity_event *ev)
{
	struct activity_row *r = calloc(1, sizeof(*r));
	int n;

	if (!r)
		return NULL;
	r->kind = ev->kind;
	r->is_allowed = ev->is_allowed;
	r->port = ev->port;
	r->address = ev->address;
	r->why = ev->why;
	(void)snprintf(r->target, sizeof(r->target), "%s", ev->target);
	/* The addresses of a name change with every answer: they make no row of their own. */
	n = snprintf(r->key, sizeof(r->key), "%d %d %u %x %s %s", ev->kind, ev->is_allowed, ev->port,
		     ev->kind == ACTIVITY_DNS ? 0 : ev->address, r->target, ev->why ? ev->why : "");
	r->key_n = MIN((size_t)n, sizeof(r->key) - 1);
	return r;
}

bool activity_add(struct activity *a, const struct activity_event *ev)
{
	struct activity_row *r = make_row(ev);
	struct activity_row *old;
	bool is_new;

	if (!r)
		return false;
	old = map_get(&a->rows, (struct str){ r->key, r->key_n });
	is_new = !old;
	if (old) {
		old->address = r->address;
		free(r);
		r = old;
		unlink_row(a, r);
	} else if (!map_put(&a->rows, (struct str){ r->key, r->key_n }, r)) {
		free(r);
		return false;
	} else {
		r->first_us = clock_wall_us();
		a->n++;
	}
	r->last_us = clock_wall_us();
	r->count++;
	push_row(a, r);
	if (a->n > ACTIVITY_ROWS_MAX) {
		drop_row(a, a->last);
		a->forgotten++;
	}
	return is_new;
}

static void write_time(struct json_out *o, const char *key, int64_t us)
{
	char text[RFC3339_SIZE];

	(void)rfc3339_format_ms(timespec_from_us(us), text);
	json_key(o, key), json_cstr(o, text);
}

void activity_write_target(const struct activity_event *ev, struct json_out *o)
{
	char text[INET_ADDRSTRLEN];

	json_key(o, "kind"), json_cstr(o, ev->kind == ACTIVITY_DNS ? "dns" : "tcp");
	json_key(o, "decision"), json_cstr(o, ev->is_allowed ? "allow" : "deny");
	if (ev->target[0])
		json_key(o, "target"), json_cstr(o, ev->target);
	if (ev->address)
		json_key(o, "address"), json_cstr(o, inet_ntop(AF_INET, &ev->address, text, sizeof(text)));
	if (ev->kind == ACTIVITY_TCP)
		json_key(o, "port"), json_uint(o, ev->port);
	if (ev->why)
		json_key(o, "reason"), json_cstr(o, ev->why);
}

static void write_row(const struct activity_row *r, struct json_out *o)
{
	json_open(o, '{');
	activity_write_target(&(struct activity_event){ .kind = r->kind, .is_allowed = r->is_allowed, .target = r->target,
							.address = r->address, .port = r->port, .why = r->why }, o);
	json_key(o, "count"), json_uint(o, r->count);
	write_time(o, "first", r->first_us);
	write_time(o, "last", r->last_us);
	json_close(o, '}');
}

void activity_write(const struct activity *a, struct json_out *o)
{
	json_open(o, '[');
	for (const struct activity_row *r = a->first; r; r = r->next)
		write_row(r, o);
	json_close(o, ']');
}
