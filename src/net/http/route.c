// SPDX-License-Identifier: Apache-2.0
/* Matching a path against the route table, by whole segments that were decoded once. */
#include "base/err.h"
#include "net/http/server_impl.h"
#include "net/http/url.h"

#include "base/banned.h"

#define SEGMENTS_MAX 16

struct path {
	struct str segments[SEGMENTS_MAX]; /* decoded */
	struct str after[SEGMENTS_MAX + 1]; /* raw: what follows the first i segments, with its slash */
	size_t n;
	bool is_whole;       /* all of the path is in segments */
	bool trailing_slash;
	struct err bad;      /* why it is not whole, when a segment could not be decoded */
};

static void path_split(struct path *p, struct request *rq)
{
	struct url_segments it = url_segments(rq->path);
	struct str raw;

	*p = (struct path){ .is_whole = true };
	p->after[0] = rq->path;
	while (url_segment_next(&it, &raw)) {
		if (p->n == SEGMENTS_MAX || url_segment_decode(raw, rq->arena, &p->segments[p->n], &p->bad) < 0) {
			p->is_whole = false;
			return;
		}
		p->after[++p->n] = it.rest;
	}
	p->trailing_slash = it.trailing_slash;
}

/* Whether PATTERN matches the segments from FROM on; fills RQ on the way (a later match overwrites). */
static bool pattern_matches(const char *pattern, const struct path *p, size_t from, struct request *rq)
{
	struct str left = str_of(pattern + 1), want;
	size_t at = from, n_params = 0;

	while (left.n > 0) {
		(void)str_cut(left, '/', &want, &left);
		if (str_eq(want, STR("*"))) {
			rq->rest = str_skip(p->after[at], p->after[at].n > 0);
			return true;
		}
		if (at == p->n)
			return false;
		if (want.p[0] == ':')
			rq->params[n_params++] = p->segments[at];
		else if (!str_eq(want, p->segments[at]))
			return false;
		at++;
	}
	return p->is_whole && at == p->n;
}

static bool has_rest(const struct route *r)
{
	return str_ends(str_of(r->path), STR("/*"));
}

static bool method_matches(const struct route *r, struct str method)
{
	return str_is(method, r->method) || str_eq(str_of(r->method), STR("*")) ||
	       (str_eq(method, STR("HEAD")) && str_eq(str_of(r->method), STR("GET")));
}

static void allow_add(struct buf *allow, const char *method)
{
	buf_addf(allow, "%s%s", allow->n > 0 ? ", " : "", method);
	if (str_eq(str_of(method), STR("GET")))
		buf_addf(allow, ", HEAD");
}

enum route_result route_find(const struct http_service *service, struct request *rq, struct buf *allow, struct err *e)
{
	struct path p;
	bool is_prefixed;

	path_split(&p, rq);
	is_prefixed = service->prefix && p.n > 0 && str_is(p.segments[0], service->prefix);
	for (const struct route *r = service->routes; r->method; r++) {
		if (!pattern_matches(r->path, &p, 0, rq) &&
		    !(is_prefixed && !(r->flags & ROUTE_ROOT) && pattern_matches(r->path, &p, 1, rq)))
			continue;
		if (p.trailing_slash && p.n > 0 && !has_rest(r))
			return ROUTE_SLASH;
		if (!method_matches(r, rq->head->method)) {
			allow_add(allow, r->method);
			continue;
		}
		rq->route = r;
		return ROUTE_FOUND;
	}
	if (allow->n > 0)
		return ROUTE_METHOD;
	if (p.bad.code != ERR_NONE) {
		*e = p.bad;
		return ROUTE_BAD;
	}
	return ROUTE_NONE;
}
