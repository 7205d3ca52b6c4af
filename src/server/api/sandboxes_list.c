// SPDX-License-Identifier: Apache-2.0
/* GET /sandboxes: filters, then pages. */
#include "base/err.h"
#include "base/json_out.h"
#include "net/http/url.h"
#include "server/api/api.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define LIST_BODY_MAX ((size_t)64 * 1024 * 1024)
#define PAGE_SIZE_MAX 200

const struct field paging_fields[] = {
	FIELD(struct paging, page, FIELD_INT, "page", .min = 1),
	FIELD(struct paging, page_size, FIELD_INT, "pageSize", .min = 1, .max = PAGE_SIZE_MAX),
	{ 0 },
};

struct filter {
	struct query query;    /* of the request: its "state" pairs */
	struct query metadata; /* pairs that must all be there */
};

/* Without "state" every state will do; with it, one of those that are named. */
static bool state_matches(const struct filter *f, const struct sandbox *sb)
{
	const struct query_pair *p = query_get(&f->query, "state");
	struct str state = str_of(sandbox_state_name(sb->row.state));

	if (!p)
		return true;
	for (; p; p = query_next(&f->query, "state", p))
		if (str_eq_nocase(p->value, state))
			return true;
	return false;
}

static bool has_pair(const struct string_map *m, const struct query_pair *p)
{
	for (size_t i = 0; i < m->n; i++)
		if (str_is(p->key, m->items[i].key))
			return str_is(p->value, m->items[i].value);
	return false;
}

static bool takes_all(const struct filter *f)
{
	return f->metadata.n == 0 && !query_get(&f->query, "state");
}

static bool matches(const struct filter *f, const struct sandbox *sb)
{
	for (size_t i = 0; i < f->metadata.n; i++)
		if (!has_pair(&sb->row.metadata, &f->metadata.pairs[i]))
			return false;
	return state_matches(f, sb);
}

/* 0, 1 (answered) or -1. */
static int make_filter(struct request *rq, struct reply *rp, struct filter *f, struct err *e)
{
	const struct query_pair *p;
	struct err bad = { 0 };

	if (query_parse(rq->query, rq->arena, &f->query, e) < 0)
		return -1;
	p = query_get(&f->query, "metadata");
	if (!p || query_parse_strict(p->value, rq->arena, &f->metadata, &bad) == 0)
		return 0;
	if (bad.code != ERR_INVALID && bad.code != ERR_LIMIT) {
		*e = bad;
		return -1;
	}
	(void)reply_error(rp, 400, "INVALID_METADATA_FORMAT", "metadata: bad query field: %s", bad.msg);
	return 1;
}

bool paging_has(const struct paging *p, size_t at)
{
	size_t first;

	return !__builtin_mul_overflow((size_t)(p->page - 1), (size_t)p->page_size, &first) && at >= first &&
	       at - first < (size_t)p->page_size;
}

static bool is_behind(const struct paging *p, size_t at)
{
	size_t end;

	return !__builtin_mul_overflow((size_t)p->page, (size_t)p->page_size, &end) && at >= end;
}

void write_pagination(struct json_out *o, const struct paging *p, size_t total)
{
	size_t size = (size_t)MAX(p->page_size, INT64_C(1)), pages = total / size + (total % size > 0);

	json_key(o, "pagination"), json_open(o, '{');
	json_key(o, "page"), json_int(o, p->page);
	json_key(o, "pageSize"), json_int(o, p->page_size);
	json_key(o, "totalItems"), json_uint(o, total);
	json_key(o, "totalPages"), json_uint(o, pages);
	json_key(o, "hasNextPage"), json_bool(o, (uint64_t)p->page < pages);
	json_close(o, '}');
}

/* Returns how many there are on all pages: without a filter that is known, and nobody behind the page is looked at. */
static size_t write_page(struct json_out *o, const struct sandboxes *s, const struct filter *f, const struct paging *p)
{
	bool is_known = takes_all(f);
	size_t n = 0;

	for (const struct sandbox *sb = sandboxes_newest(s); sb && !(is_known && is_behind(p, n)); sb = sb->older) {
		if (sb->row.is_idle || !matches(f, sb))
			continue;
		if (paging_has(p, n))
			write_sandbox(o, sb);
		n++;
	}
	return is_known ? sandboxes_count_owned(s) : n;
}

int sandboxes_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(LIST_BODY_MAX);
	struct json_out o = json_out(&body);
	struct paging paging = PAGING_INIT;
	struct filter filter = { 0 };
	size_t total;
	int rc = request_query(rq, rp, paging_fields, &paging, e);

	if (rc == 0)
		rc = make_filter(rq, rp, &filter, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	total = write_page(&o, plane_of(rq)->sandboxes, &filter, &paging);
	json_close(&o, ']');
	write_pagination(&o, &paging, total);
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}
