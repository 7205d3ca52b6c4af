// SPDX-License-Identifier: Apache-2.0
/* What is in a pool: which state each is in, and whether it is well. */
#include "base/log.h"
#include "net/http/client.h"
#include "server/model/pool_impl.h"

#include "base/banned.h"

#define CHECK_MS 5000     /* between two rounds */
#define PING_EVERY_MS 9000 /* for each, at least; with what a round may add, its connection is kept for longer */
#define YOUNG_MS 10000    /* what does not live longer was made wrong */
#define PINGS_MAX 128     /* of one round */
#define PING_MS 3000      /* for an answer */

/* ---- states ---- */

static struct list *list_of(const struct member *m)
{
	return m->state == MEMBER_IDLE ? &m->pool->idle : &m->pool->others;
}

static void list_out(struct member *m)
{
	list_remove(list_of(m), &m->at);
	m->pool->count[m->state]--;
	m->pool->set->n_making -= m->state == MEMBER_MAKING;
}

static void list_in(struct member *m)
{
	list_append(list_of(m), &m->at);
	m->pool->count[m->state]++;
	m->pool->set->n_making += m->state == MEMBER_MAKING;
}

void member_set(struct member *m, enum member_state state)
{
	list_out(m);
	m->state = state;
	list_in(m);
}

struct member *member_new(struct pool *pool, struct sandbox *sb, enum member_state state)
{
	struct member *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->pool = pool;
	m->sb = sb;
	m->state = state;
	sb->member = m;
	list_in(m);
	return m;
}

void member_free(struct member *m)
{
	http_fetch_cancel(m->ping);
	list_out(m);
	m->sb->member = NULL;
	free(m);
}

void member_remove(struct member *m)
{
	member_set(m, MEMBER_LEAVING);
	sandbox_discard(m->sb);
	pools_poke(m->pool->set);
}

/* ---- what the sandboxes tell ---- */

void pools_gone(struct pools *p, struct sandbox *sb)
{
	struct member *m = sb->member;
	struct pool *pool;
	struct take *t;

	if (!m)
		return;
	pool = m->pool;
	t = m->take;
	member_free(m);
	if (t)
		take_bereaved(t);
	pool_unref(pool);
	pools_poke(p);
}

/* A template whose sandboxes do not live must not keep the host busy with making them. */
static void replace(struct member *m, const char *why)
{
	log_warn("an idle sandbox is not well, replacing it", LOG_S("id", m->sb->row.id), LOG_S("pool", m->pool->name), LOG_S("why", why));
	if (m->made_ms != 0 && loop_now_ms(m->pool->set->loop) - m->made_ms < YOUNG_MS)
		pool_died_young(m->pool);
	member_remove(m);
}

void pools_ended(struct pools *p, struct sandbox *sb)
{
	struct member *m = sb->member;

	(void)p;
	if (m && m->state == MEMBER_IDLE) /* who is about to get it finds out; who has it decides */
		replace(m, "it has ended");
}

/* ---- whether it is well ---- */

/* Not when the runtime cannot be asked, or we have no descriptor left: that tells nothing about the sandbox. */
static bool is_told_by(const struct err *e)
{
	return !(e->code == ERR_UNAVAILABLE && e->sys == 0) && e->sys != EMFILE && e->sys != ENFILE && e->sys != ENOMEM &&
	       e->sys != ENOBUFS;
}

static void on_pinged(const struct http_answer *answer, const struct err *e, void *arg)
{
	struct member *m = arg;
	struct take *t = m->take;
	bool is_well = answer && answer->head->status == 200, is_known = answer || is_told_by(e);

	m->ping = NULL;
	m->pinged_ms = loop_now_ms(m->pool->set->loop);
	if (is_known && !is_well) {
		m->take = NULL;
		replace(m, e ? e->msg : "it answers /ping with another status than 200");
	} else if (m->pinged_ms - m->made_ms >= YOUNG_MS) {
		m->pool->young_ms = 0;
	}
	if (t)
		take_pinged(t, is_known, is_well);
}

int member_ping(struct member *m, struct err *e)
{
	static const struct http_deadlines deadlines = { PING_MS, PING_MS, PING_MS, PING_MS };
	struct plane *plane = m->pool->set->spec.plane;
	struct http_client *client = plane->spec.parts->execd(plane, m->sb, e);
	char token[SANDBOX_TOKEN_LEN + 1];
	struct http_header header = { .name = STR("X-EXECD-ACCESS-TOKEN"), .value = { token, SANDBOX_TOKEN_LEN } };
	struct http_request rq = { .method = STR("GET"), .target = STR("/ping"), .host = STR("sandbox"), .headers = &header,
				   .n_headers = 1, .max_body = 1024, .deadlines = &deadlines };

	if (!client)
		return -1;
	if (m->ping)
		return 0;
	sandbox_token(m->sb, "execd", token);
	m->ping = http_fetch(client, &rq, on_pinged, m, e);
	secret_wipe(token, sizeof(token));
	return m->ping ? 0 : -1;
}

static unsigned check_pool(struct pool *pool, unsigned n)
{
	uint64_t now = loop_now_ms(pool->set->loop);

	LIST_EACH (struct member, m, &pool->idle, at) {
		if (n == PINGS_MAX)
			break;
		if (m->ping || (m->pinged_ms != 0 && now - m->pinged_ms < PING_EVERY_MS))
			continue;
		(void)member_ping(m, &(struct err){ 0 }); /* if not now, then in the next round */
		n++;
	}
	return n;
}

void pools_check(void *arg)
{
	struct pools *p = arg;
	bool has_idle = false;
	unsigned n = 0;

	LIST_EACH (struct pool, pool, &p->pools, at) {
		n = check_pool(pool, n);
		has_idle |= pool->idle.first != NULL;
	}
	if (has_idle)
		timer_in(&p->check, CHECK_MS);
}
