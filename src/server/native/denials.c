// SPDX-License-Identifier: Apache-2.0
/* What egress has denied, asked for now and then and told as events: nothing waits for it, and egress counts what came too late. What was
 * told is acknowledged at once, so that the next server begins with what this one did not come to. Killed in between, it tells a
 * few of them twice rather than never. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/arena.h"
#include "base/json.h"
#include "net/http/client.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

#define ASK_EVERY_MS 2000
#define ANSWER_MAX ((size_t)4 * 1024 * 1024)
#define TREE_MAX ((size_t)32 * 1024 * 1024)

struct denials_watch {
	struct native *n;
	struct timer timer;
	struct http_client *client;
	int64_t since;  /* of the process that the number is of; 0: none has answered */
	uint64_t after; /* the last that is known */
};

static void tell(const struct denials_watch *w, const struct json *item, uint64_t lost)
{
	const struct runtime_events *events = w->n->rt.events;
	const struct runtime_denial d = {
		.id = json_text(item, "sandboxId"), .at = json_text(item, "at"), .kind = json_text(item, "kind"), .target = json_text(item, "target"),
		.address = json_text(item, "address"), .reason = json_text(item, "reason"), .port = (unsigned)(json_count(item, "port") & 0xffff),
		.lost = lost,
	};

	if (events && events->denied)
		events->denied(&d, w->n->rt.events_arg);
}

static void on_acknowledged(const struct http_answer *answer, const struct err *e, void *arg)
{
	struct denials_watch *w = arg;

	(void)answer, (void)e; /* an egress that is gone has nothing to tell again */
	timer_in(&w->timer, ASK_EVERY_MS);
}

static int ask(struct denials_watch *w, struct str method, const char *what, http_fetch_fn *done)
{
	char target[64];
	struct http_request rq = { .method = method, .host = STR("egress"), .max_body = ANSWER_MAX };

	(void)snprintf(target, sizeof(target), "/denials/%s", what);
	rq.target = str_of(target);
	return http_fetch(w->client, &rq, done, w, &(struct err){ 0 }) ? 0 : -1;
}

static int ask_number(struct denials_watch *w, struct str method, http_fetch_fn *done)
{
	char number[24];

	(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)w->after);
	return ask(w, method, number, done);
}

/* A new process begins to count anew: then what there is of it is asked for again, from its beginning. */
static void take(struct denials_watch *w, const struct json *v)
{
	const struct json *since = json_get(v, "since");
	uint64_t next = json_count(v, "next"), lost = json_count(v, "lost");

	if (!since || since->type != JSON_INT || next == 0)
		return;
	if (since->i != w->since) {
		bool is_first = w->after == 0;

		w->since = since->i;
		w->after = 0;
		if (!is_first)
			return;
	}
	w->after = next - 1;
	for (const struct json *item = json_first(json_get(v, "items")); item; item = item->next, lost = 0)
		if (item->type == JSON_OBJECT)
			tell(w, item, lost);
}

static void on_answer(const struct http_answer *answer, const struct err *e, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	struct denials_watch *w = arg;
	const struct json_limits limits = { .values = 262144 };
	const struct json *v = NULL;
	uint64_t before = w->after;

	if (!e && answer->head->status == 200)
		v = json_parse(&a, answer->body, &limits, NULL, &(struct err){ 0 });
	if (v && v->type == JSON_OBJECT)
		take(w, v);
	if (w->after <= before || ask_number(w, STR("PUT"), on_acknowledged) < 0)
		timer_in(&w->timer, ASK_EVERY_MS);
}

static void on_tick(void *arg)
{
	struct denials_watch *w = arg;
	bool is_asked = false;

	if (runtime_has_network(&w->n->rt, RUNTIME_NET_OPEN)) /* where it is not running nobody is denied anything */
		is_asked = (w->since ? ask_number(w, STR("GET"), on_answer) : ask(w, STR("GET"), "new", on_answer)) == 0;
	if (!is_asked)
		timer_in(&w->timer, ASK_EVERY_MS);
}

int native_denials_open(struct native *n, struct err *e)
{
	struct http_client_options o = HTTP_CLIENT_OPTIONS;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct denials_watch *w;

	if (!n->egress_path[0])
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_no_memory(e);
	w->n = n;
	n->denials = w;
	memcpy(to.sun_path, n->egress_path, MIN(sizeof(to.sun_path), sizeof(n->egress_path)));
	o.to = (struct sockaddr *)&to;
	o.to_len = sizeof(to);
	o.max_idle = 1;
	w->client = http_client_new(n->loop, &o, e);
	if (!w->client || timer_init(&w->timer, n->loop, on_tick, w, "denials", e) < 0)
		return -1;
	timer_in(&w->timer, ASK_EVERY_MS);
	return 0;
}

void native_denials_done(struct native *n)
{
	struct denials_watch *w = take_ptr(&n->denials);

	if (!w)
		return;
	timer_done(&w->timer);
	http_client_free(w->client);
	free(w);
}
