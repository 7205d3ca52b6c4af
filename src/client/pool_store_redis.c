// SPDX-License-Identifier: Apache-2.0
/* The store in Redis. Every order is one script, and every script answers with one text. */
#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/err.h"
#include "client/pool_store.h"
#include "net/loop.h"
#include "net/redis.h"
#include "net/tls.h"
#include "net/transport.h"

#include "base/banned.h"

#define PREFIX_DEFAULT "opensandbox:pool"
#define KEY_MAX ((size_t)POOL_PREFIX_MAX + 2 * (size_t)POOL_NAME_MAX + 32)
#define WORDS_MAX (3 + KEYS + 3)

enum { KEY_LIST, KEY_EXPIRES, KEY_LOCK, KEY_MAX_IDLE, KEY_TTL, KEYS };
static const char *const suffixes[KEYS] = { "idle:list", "idle:expires", "lock", "maxIdle", "idleTtlMillis" };

/* ---- texts ---- */

int pool_key(struct buf *out, const char *prefix, const char *name, const char *suffix, struct err *e)
{
	struct str n = str_of(name), p = str_of(prefix ? prefix : PREFIX_DEFAULT);

	if (str_trim(n).n == 0 || n.n > POOL_NAME_MAX)
		return err_set(e, ERR_INVALID, "the pool's name is missing, or longer than %d bytes", POOL_NAME_MAX);
	if (p.n > POOL_PREFIX_MAX)
		return err_set(e, ERR_INVALID, "a key prefix of more than %d bytes", POOL_PREFIX_MAX);
	buf_add_str(out, p);
	buf_addf(out, ":{");
	(void)base64_encode(out, n.p, n.n, BASE64_URL | BASE64_UNPADDED);
	buf_addf(out, "}:%s", suffix);
	return out->failed ? err_no_memory(e) : 0;
}

static bool take_id(struct str word, char out[POOL_ID_MAX + 1])
{
	if (word.n == 0 || word.n > POOL_ID_MAX)
		return false;
	memcpy(out, word.p, word.n);
	out[word.n] = '\0';
	return true;
}

int pool_text_parse(struct str text, struct pool_answer *ret, struct pool_entry entries[POOL_LIST_MAX])
{
	struct pool_answer a = { .entries = entries };
	struct str line, number, count, id;

	(void)str_cut(text, '\n', &line, &text);
	if (!str_take_word(&line, &number, 20) || !str_to_i64(number, -1, INT32_MAX, &a.number) || !str_take_word(&line, &count, 20) ||
	    !str_to_i64(count, 0, INT32_MAX, &a.count) || !str_take_word(&line, &id, POOL_ID_MAX))
		return -1;
	if (!str_is(id, "-") && !take_id(id, a.id))
		return -1;
	while (text.n > 0 && a.n < POOL_LIST_MAX) {
		struct pool_entry *entry = &entries[a.n++];
		struct str till;

		(void)str_cut(text, '\n', &line, &text);
		if (!str_take_word(&line, &id, POOL_ID_MAX) || !take_id(id, entry->id) || !str_take_word(&line, &till, 20) ||
		    !str_to_i64(till, 0, INT64_MAX, &entry->expires_ms))
			return -1;
	}
	*ret = a;
	return 0;
}

/* ---- scripts ---- */

/* KEYS: as above. ARGV: a number, a time in milliseconds, an id or an owner. What others put there and is no id is dropped. */
#define NOW \
	"local t = redis.call('TIME')\n" \
	"local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
#define LIST \
	"local out, size = {}, 0\n" \
	"local function add(id, till)\n" \
	"  if #id > 127 or not id:find('^[%w._:-]+$') then return end\n" \
	"  out[#out + 1] = id .. ' ' .. string.format('%.0f', till)\n" \
	"  size = size + #out[#out]\n" \
	"end\n" \
	"local function full() return #out >= 900 or size > 90000 end\n" \
	"local function answer(number, count, id)\n" \
	"  table.insert(out, 1, number .. ' ' .. count .. ' ' .. id)\n" \
	"  return table.concat(out, '\\n')\n" \
	"end\n"
#define NOTHING "return '0 0 -'\n"

static const char *const scripts[] = {
	[POOL_SETUP] = "redis.call('SET', KEYS[5], ARGV[2])\n"
		       "redis.call('SET', KEYS[4], ARGV[1])\n" NOTHING,
	[POOL_RESIZE] = "redis.call('SET', KEYS[4], ARGV[1])\n" NOTHING,
	[POOL_TAKE] = NOW LIST "while not full() do\n"
			       "  local id = redis.call('LPOP', KEYS[1])\n"
			       "  if not id then break end\n"
			       "  local till = tonumber(redis.call('HGET', KEYS[2], id) or '')\n"
			       "  redis.call('HDEL', KEYS[2], id)\n"
			       "  local good = #id <= 127 and id:find('^[%w._:-]+$') and id ~= '-'\n"
			       "  if good and till and till > now + ARGV[2] then return answer(0, 0, id) end\n"
			       "  if till and till > now then add(id, till) end\n"
			       "end\n"
			       "return answer(0, 0, '-')\n",
	[POOL_PUT] = NOW "local till = tonumber(redis.call('HGET', KEYS[2], ARGV[3]) or '')\n"
			 "if till and till > now then " NOTHING "end\n"
			 "local ttl = tonumber(redis.call('GET', KEYS[5]) or '') or 86400000\n"
			 "if not till then redis.call('RPUSH', KEYS[1], ARGV[3]) end\n"
			 "redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', now + math.max(1, ttl)))\n" NOTHING,
	[POOL_REMOVE] = "redis.call('HDEL', KEYS[2], ARGV[3])\n"
			"redis.call('LREM', KEYS[1], 0, ARGV[3])\n" NOTHING,
	[POOL_LOCK] = "if redis.call('SET', KEYS[3], ARGV[3], 'NX', 'PX', ARGV[2]) then return '1 0 -' end\n"
		      "if redis.call('GET', KEYS[3]) ~= ARGV[3] then " NOTHING "end\n"
		      "redis.call('PEXPIRE', KEYS[3], ARGV[2])\n"
		      "return '1 0 -'\n",
	[POOL_UNLOCK] = "if redis.call('GET', KEYS[3]) == ARGV[3] then redis.call('DEL', KEYS[3]) end\n" NOTHING,
	[POOL_REAP] = NOW LIST "local all = redis.call('HGETALL', KEYS[2])\n"
			       "for i = 1, #all, 2 do\n"
			       "  local till = tonumber(all[i + 1]) or 0\n"
			       "  if full() then break end\n"
			       "  if till <= now + ARGV[2] then\n"
			       "    redis.call('HDEL', KEYS[2], all[i])\n"
			       "    redis.call('LREM', KEYS[1], 0, all[i])\n"
			       "    if till > now then add(all[i], till) end\n"
			       "  end\n"
			       "end\n"
			       "return answer(0, 0, '-')\n",
	[POOL_LOOK] = LIST "for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, 899)) do\n"
			   "  local till = tonumber(redis.call('HGET', KEYS[2], id) or '')\n"
			   "  if till and not full() then add(id, till) end\n"
			   "end\n"
			   "local most = tonumber(redis.call('GET', KEYS[4]) or '') or -1\n"
			   "return answer(math.max(-1, math.min(most, 1000000)), redis.call('HLEN', KEYS[2]), '-')\n",
};

/* ---- the store ---- */

struct waiting {
	struct redis_store *s;
	struct waiting *prev, *next;
	pool_answer_fn *fn;
	void *arg;
};

struct redis_store {
	struct pool_store store;
	struct redis *redis;
	struct tls_client *tls;
	struct tls_target target;
	struct redis_dsn dsn;
	char *keys[KEYS];
	struct waiting *waiting;
	struct pool_entry told[POOL_LIST_MAX];
};

static void waiting_free(struct waiting *w)
{
	*(w->prev ? &w->prev->next : &w->s->waiting) = w->next;
	if (w->next)
		w->next->prev = w->prev;
	free(w);
}

static void on_reply(const struct redis_reply *reply, const struct err *why, void *arg)
{
	struct waiting w = *(struct waiting *)arg;
	struct pool_answer a = { 0 };
	struct err e = { 0 };

	waiting_free(arg);
	if (reply && (reply->kind != REDIS_BULK || pool_text_parse(reply->text, &a, w.s->told) < 0)) {
		(void)err_set(&e, ERR_IO, "Redis: malformed answer");
		why = &e;
	}
	w.fn(why ? NULL : &a, why, w.arg);
}

static int send_order(struct redis_store *s, const struct pool_order *o, struct waiting *w, struct err *e)
{
	char number[24], ttl[24];
	struct str words[WORDS_MAX] = { STR("EVAL"), str_of(scripts[o->kind]), STR("5") };
	size_t n = 3;

	for (int i = 0; i < KEYS; i++)
		words[n++] = str_of(s->keys[i]);
	(void)snprintf(number, sizeof(number), "%" PRId64, o->number);
	(void)snprintf(ttl, sizeof(ttl), "%" PRId64, o->ttl_ms);
	words[n++] = str_of(number);
	words[n++] = str_of(ttl);
	words[n++] = str_of(o->id ? o->id : o->owner ? o->owner : "");
	return redis_send(s->redis, words, n, POOL_STORE_MS, on_reply, w, e);
}

static void redis_order(struct pool_store *store, const struct pool_order *o, pool_answer_fn *fn, void *arg)
{
	struct redis_store *s = container_of(store, struct redis_store, store);
	struct waiting *w = malloc(sizeof(*w));
	struct err e = { 0 };

	if (!w) {
		(void)err_no_memory(&e);
		fn(NULL, &e, arg);
		return;
	}
	*w = (struct waiting){ .s = s, .next = s->waiting, .fn = fn, .arg = arg };
	if (w->next)
		w->next->prev = w;
	s->waiting = w;
	if (send_order(s, o, w, &e) == 0)
		return;
	waiting_free(w);
	fn(NULL, &e, arg);
}

static void redis_store_free(struct pool_store *store)
{
	struct redis_store *s = container_of(store, struct redis_store, store);

	redis_free(s->redis);
	tls_client_free(s->tls);
	while (s->waiting)
		waiting_free(s->waiting);
	for (int i = 0; i < KEYS; i++)
		free(s->keys[i]);
	secret_wipe(&s->dsn, sizeof(s->dsn));
	free(s);
}

static int open_store(struct redis_store *s, struct loop *l, const struct pool_store_spec *spec, struct err *e)
{
	struct transport_maker maker = { 0 };

	for (int i = 0; i < KEYS; i++) {
		struct buf key = BUF_INIT(KEY_MAX);

		if (pool_key(&key, spec->prefix, spec->name, suffixes[i], e) < 0) {
			buf_done(&key);
			return -1;
		}
		s->keys[i] = key.p;
	}
	if (redis_dsn_parse(str_of(spec->redis_url), &s->dsn, e) < 0 || redis_dsn_resolve(&s->dsn, e) < 0)
		return -1;
	if (s->dsn.is_tls) {
		s->tls = tls_client_new(&(struct tls_client_options){ 0 }, e);
		if (!s->tls)
			return -1;
		s->target = (struct tls_target){ s->tls, s->dsn.host };
		maker = tls_client_maker(&s->target);
	}
	s->redis = redis_new(l, &s->dsn, s->dsn.is_tls ? &maker : NULL, e);
	return s->redis ? 0 : -1;
}

struct pool_store *pool_store_redis(struct loop *l, const struct pool_store_spec *spec, struct err *e)
{
	static const struct pool_store_ops ops = { redis_order, redis_store_free };
	struct redis_store *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->store.ops = &ops;
	if (open_store(s, l, spec, e) == 0)
		return &s->store;
	redis_store_free(&s->store);
	return NULL;
}
