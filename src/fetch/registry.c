// SPDX-License-Identifier: Apache-2.0
#include "fetch/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/escape.h"
#include "fetch/auth.h"

#include "base/banned.h"

#define DOCKER_API_HOST "registry-1.docker.io"

/* ---- requests ---- */

void call_init(struct call *c, struct registry *r, const char *path)
{
	transfer_init(&c->t);
	c->r = r;
	c->redirects = c->tries = 0;
	c->was_challenged = false;
	c->again_ms = 0;
	(void)snprintf(c->path, sizeof(c->path), "%s", path); /* the parts of an order have their ceilings */
}

void call_done(struct call *c)
{
	transfer_done(&c->t);
}

static bool is_home(const struct call *c)
{
	return c->t.target.is_https == c->r->at.is_https && strcmp(c->t.target.place, c->r->at.place) == 0;
}

static int send_off(struct call *c, struct err *e)
{
	c->t.authorization = is_home(c) && c->r->authorization.n > 0 ? c->r->authorization.p : NULL;
	return transfer_begin(&c->r->session, &c->t, e);
}

int call_begin(struct call *c, struct err *e)
{
	c->redirects = 0;
	if (target_parse(c->r->root, c->path, &c->t.target, e) < 0)
		return -1;
	return send_off(c, e);
}

/* Only the operator's word makes plain http good enough. */
static int check_scheme(const struct call *c, const struct target *to, struct err *e)
{
	const struct registry_rule *rule = target_rule(c->r->order, to);

	if (to->is_https || (rule && rule->is_insecure))
		return 0;
	return err_set(e, ERR_DENIED, "'%s' sends on to '%s' without https", SHOWN(str_of(c->t.target.host)), SHOWN(str_of(to->host)));
}

static int redirect(struct call *c, struct err *e)
{
	struct target to;

	if (++c->redirects > REDIRECTS_MAX)
		return err_set(e, ERR_INVALID, "'%s' sends on more than %d times", SHOWN(str_of(c->r->at.host)), REDIRECTS_MAX);
	if (c->t.location.n == 0 || c->t.location.failed)
		return err_set(e, ERR_INVALID, "'%s' sends on without saying where to", SHOWN(str_of(c->t.target.host)));
	if (target_parse(c->t.target.url, c->t.location.p, &to, e) < 0 || check_scheme(c, &to, e) < 0)
		return -1;
	c->t.target = to;
	return send_off(c, e);
}

static int refused(const struct call *c, struct err *e)
{
	const struct order *o = c->r->order;

	if (o->username && c->r->has_credentials)
		return err_set(e, ERR_DENIED, "'%s' does not give access with these credentials, or has no such image",
			       SHOWN(str_of(c->r->at.host)));
	return err_set(e, ERR_DENIED, "'%s' gives no access without credentials, or has no such image", SHOWN(str_of(c->r->at.host)));
}

static enum call_step challenge(struct call *c, struct err *e)
{
	if (!is_home(c) || c->was_challenged || c->t.challenge.failed)
		return refused(c, e);
	c->was_challenged = true;
	if (auth_answer(c->r, buf_str(&c->t.challenge), e) < 0)
		return CALL_FAILED;
	return call_begin(c, e) < 0 ? CALL_FAILED : CALL_GOES_ON;
}

static enum call_step pause_or_fail(struct call *c, const struct err *why, struct err *e)
{
	if (++c->tries >= TRIES_MAX) {
		*e = *why;
		return CALL_FAILED;
	}
	c->again_ms = clock_mono_ms() + (PAUSE_MS << (c->tries - 1));
	return CALL_PAUSED;
}

static enum call_step on_status(struct call *c, struct err *e)
{
	unsigned status = c->t.status;
	struct err why = { 0 };

	switch (status) {
	case 200:
	case 206:
	case 404:
		return CALL_OVER;
	case 301:
	case 302:
	case 303:
	case 307:
	case 308:
		return redirect(c, e) < 0 ? CALL_FAILED : CALL_GOES_ON;
	case 401:
		return challenge(c, e);
	case 403:
		return refused(c, e);
	default:
		break;
	}
	(void)err_set(&why, ERR_UNAVAILABLE, "'%s' answers with status %u", SHOWN(str_of(c->t.target.host)), status);
	if (status >= 500 || status == 429 || status == 408)
		return pause_or_fail(c, &why, e);
	*e = why;
	return CALL_FAILED;
}

enum call_step call_step(struct call *c, struct err *e)
{
	if (c->t.err.code == ERR_NONE)
		return on_status(c, e);
	if (c->t.is_transient)
		return pause_or_fail(c, &c->t.err, e);
	*e = c->t.err;
	return CALL_FAILED;
}

static int wait_until(struct registry *r, uint64_t ms, struct err *e)
{
	while (clock_mono_ms() < ms)
		if (session_turn(&r->session, 100, e) < 0)
			return -1;
	return 0;
}

int call_follow(struct call *c, struct err *e)
{
	enum call_step step = call_begin(c, e) < 0 ? CALL_FAILED : CALL_GOES_ON;

	while (step == CALL_GOES_ON || step == CALL_PAUSED) {
		if (step == CALL_PAUSED && (wait_until(c->r, c->again_ms, e) < 0 || call_begin(c, e) < 0))
			return -1;
		if (session_wait(&c->r->session, &c->t, e) < 0)
			return -1;
		step = call_step(c, e);
	}
	return step == CALL_FAILED ? -1 : 0;
}

/* ---- the registry itself ---- */

void registry_close(struct registry *r)
{
	session_close(&r->session);
	if (r->authorization.p)
		secret_wipe(r->authorization.p, r->authorization.n);
	buf_done(&r->authorization);
}

/* Any answer at all says that this is the way to speak to it; a challenge is answered on the way. */
static int ping(struct registry *r, const char *scheme, const char *host, bool *ret_may_pass, struct err *e)
{
	AUTO(call_done) struct call c;

	(void)snprintf(r->root, sizeof(r->root), "%s://%s/v2/", scheme, host);
	call_init(&c, r, "");
	if (target_parse(NULL, r->root, &r->at, e) < 0)
		return -1;
	if (target_parse(NULL, r->root, &c.t.target, e) < 0 || transfer_begin(&r->session, &c.t, e) < 0 ||
	    session_wait(&r->session, &c.t, e) < 0)
		return -1;
	*ret_may_pass = c.t.is_transient || c.t.status >= 500;
	if (c.t.err.code != ERR_NONE) {
		*e = c.t.err;
		return -1;
	}
	if (c.t.status >= 500)
		return err_set(e, ERR_UNAVAILABLE, "'%s' answers with status %u", SHOWN(str_of(r->at.host)), c.t.status);
	if (c.t.status != 401)
		return 0;
	return c.t.challenge.failed ? err_set(e, ERR_INVALID, "the registry's challenge is too long") :
				      auth_answer(r, buf_str(&c.t.challenge), e);
}

/* A failure that another scheme could mend. */
static bool is_about_scheme(const struct err *e)
{
	return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT;
}

/* A registry that is just being restarted is worth a moment. */
static int connect_to(struct registry *r, const char *host, bool is_insecure, struct err *e)
{
	bool may_pass = false, plain_may_pass = false;
	struct err plain = { 0 };

	for (unsigned n = 0; n < 3; n++) {
		*e = (struct err){ 0 };
		if (ping(r, "https", host, &may_pass, e) == 0)
			return 0;
		if (is_insecure && is_about_scheme(e)) {
			if (ping(r, "http", host, &plain_may_pass, &plain) == 0)
				return 0;
			*e = plain;
			may_pass = plain_may_pass;
		}
		if (!may_pass || wait_until(r, clock_mono_ms() + (PAUSE_MS << n), &plain) < 0)
			return -1;
	}
	return -1;
}

int registry_open(struct registry *r, const struct registry_spec *spec, struct err *e)
{
	const char *host = strcmp(spec->host, REFERENCE_DEFAULT_REGISTRY) == 0 ? DOCKER_API_HOST : spec->host;
	const struct registry_rule *rule = order_rule(spec->order, str_of(spec->host));

	*r = (struct registry){
		.session = { .order = spec->order, .asker = spec->asker, .own = spec->own, .rule = rule,
			     .deadline_ms = spec->deadline_ms },
		.order = spec->order, .has_credentials = spec->order->username && !spec->is_mirror,
		.authorization = BUF_INIT(AUTHORIZATION_MAX),
	};
	if (session_open(&r->session, e) < 0)
		return -1;
	return connect_to(r, host, rule && rule->is_insecure, e);
}
