// SPDX-License-Identifier: Apache-2.0
#include "fetch/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"
#include "fetch/asker.h"
#include "fetch/proxy.h"
#include "image/challenge.h"

#include "base/banned.h"

#define CONNECT_SECONDS 30
#define IGNORED_MAX ((size_t)64 * 1024)
#define CONNECTIONS_MAX 8
#define HEADER_LINE_MAX 16384

/* ---- addresses ---- */

static bool may_connect(const struct transfer *t, const struct sockaddr *sa)
{
	const struct session *s = t->session;
	const struct registry_rule *rule = target_rule(s->order, &t->target);

	if ((s->rule && s->rule->is_private) || (rule && rule->is_private))
		return true;
	return !address_is_reserved(sa) && !own_addresses_have(s->own, sa);
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct transfer *t = arg;

	(void)purpose;
	if (!t->uses_proxy && !may_connect(t, &a->addr)) {
		t->was_refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* ---- what comes back ---- */

static void keep_text(char *out, size_t size, struct str value)
{
	if (value.n < size) { /* one that is longer says nothing that we know */
		memcpy(out, value.p, value.n);
		out[value.n] = '\0';
	}
}

static void keep_range(struct transfer *t, struct str value)
{
	struct str unit, from;

	if (str_cut(value, ' ', &unit, &value) && str_is(unit, "bytes") && str_cut(value, '-', &from, &value))
		(void)str_to_u64(from, 0, INT64_MAX, &t->range_from);
}

static void keep_header(struct transfer *t, struct str name, struct str value)
{
	struct str type, params;

	if (str_eq_nocase(name, STR("content-type"))) {
		(void)str_cut(value, ';', &type, &params);
		keep_text(t->type, sizeof(t->type), str_trim(type));
	} else if (str_eq_nocase(name, STR("docker-content-digest"))) {
		keep_text(t->digest, sizeof(t->digest), value);
	} else if (str_eq_nocase(name, STR("location"))) {
		buf_clear(&t->location);
		buf_add_str(&t->location, value);
	} else if (str_eq_nocase(name, STR("www-authenticate"))) {
		if (t->challenge.n > 0)
			buf_add_str(&t->challenge, STR(", "));
		buf_add_str(&t->challenge, value);
	} else if (str_eq_nocase(name, STR("content-range"))) {
		keep_range(t, value);
	}
}

static void forget_answer(struct transfer *t)
{
	t->status = 0;
	t->type[0] = t->digest[0] = '\0';
	t->range_from = 0;
	buf_clear(&t->challenge);
	buf_clear(&t->location);
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	struct str line = { p, size * n }, name, value;

	if (line.n > HEADER_LINE_MAX)
		return 0;
	while (line.n > 0 && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r'))
		line.n--;
	if (str_starts(line, STR("HTTP/")))
		forget_answer(t); /* what went before was an interim answer */
	else if (str_cut(line, ':', &name, &value))
		keep_header(t, name, str_trim(value));
	return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	long status = 0;

	(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	n *= size;
	if ((status != 200 && status != 206) || (!t->body && !t->whole)) {
		t->ignored += n;
		return t->ignored > IGNORED_MAX ? 0 : n;
	}
	t->status = (unsigned)status;
	if (t->whole && !buf_add(t->whole, p, n)) {
		(void)err_set(&t->err, ERR_LIMIT, "'%s' sends more than %zu bytes", SHOWN(str_of(t->target.host)), t->whole->max);
		return 0;
	}
	if (t->whole)
		return n;
	return t->body(p, n, t->arg, &t->err) < 0 ? 0 : n;
}

/* ---- one of them ---- */

void transfer_init(struct transfer *t)
{
	*t = (struct transfer){ .challenge = BUF_INIT(CHALLENGE_MAX + 1), .location = BUF_INIT(URL_MAX) };
}

static void stop(struct transfer *t)
{
	if (t->easy && t->session && t->session->multi)
		(void)curl_multi_remove_handle(t->session->multi, t->easy);
	if (t->easy)
		curl_easy_cleanup(t->easy);
	curl_slist_free_all(t->headers);
	t->easy = NULL;
	t->headers = NULL;
}

void transfer_done(struct transfer *t)
{
	stop(t);
	buf_done(&t->challenge);
	buf_done(&t->location);
}

static int add_header(struct transfer *t, const char *name, const char *value, struct err *e)
{
	AUTO(buf_done) struct buf line = BUF_INIT((size_t)64 * 1024);
	struct curl_slist *list;

	buf_addf(&line, "%s: %s", name, value);
	list = line.failed ? NULL : curl_slist_append(t->headers, line.p);
	if (line.p)
		secret_wipe(line.p, line.n);
	if (!list)
		return err_no_memory(e);
	t->headers = list;
	return 0;
}

static int add_headers(struct transfer *t, struct err *e)
{
	char range[48];

	/* Not by libcurl's own option, which takes an answer from the start for a failure. */
	(void)snprintf(range, sizeof(range), "bytes=%llu-", (unsigned long long)t->from);
	if (t->from > 0 && add_header(t, "Range", range, e) < 0)
		return -1;
	if (t->authorization && add_header(t, "Authorization", t->authorization, e) < 0)
		return -1;
	for (size_t i = 0; t->accept && t->accept[i]; i++)
		if (add_header(t, "Accept", t->accept[i], e) < 0)
			return -1;
	return add_header(t, "User-Agent", "opensandbox", e);
}

#define SET(option, value) (rc = rc ? rc : curl_easy_setopt(t->easy, option, value))

static int set_up(const struct session *s, struct transfer *t, struct err *e)
{
	const struct registry_rule *rule = target_rule(s->order, &t->target);
	CURLcode rc = CURLE_OK;

	SET(CURLOPT_URL, t->target.url);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_PROXY, t->uses_proxy ? s->order->proxy : "");
	SET(CURLOPT_NOPROXY, "");
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* what a proxy says is not what the registry says */
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	SET(CURLOPT_LOW_SPEED_LIMIT, (long)FETCH_STALL_BYTES);
	SET(CURLOPT_LOW_SPEED_TIME, (long)s->order->stall_seconds);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, t);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, t);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, t);
	SET(CURLOPT_PRIVATE, t);
	SET(CURLOPT_HTTPHEADER, t->headers);
	SET(CURLOPT_NOBODY, t->is_head ? 1L : 0L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (rule && rule->is_insecure) {
		SET(CURLOPT_SSL_VERIFYPEER, 0L);
		SET(CURLOPT_SSL_VERIFYHOST, 0L);
	} else if (rule && rule->ca_file) {
		SET(CURLOPT_CAINFO, rule->ca_file);
	}
	return rc == CURLE_OK ? 0 : err_set(e, ERR_INTERNAL, "prepare a request: %s", curl_easy_strerror(rc));
}

int transfer_begin(struct session *s, struct transfer *t, struct err *e)
{
	stop(t);
	forget_answer(t);
	t->session = s;
	t->is_over = t->is_transient = t->was_refused = false;
	t->ignored = 0;
	t->err = (struct err){ 0 };
	if (t->whole)
		buf_clear(t->whole);
	t->easy = curl_easy_init();
	if (!t->easy)
		return err_no_memory(e);
	t->uses_proxy = proxy_is_for(s->order, &t->target);
	if (t->uses_proxy && proxy_check(s->order, &t->target, s->rule, e) < 0)
		return -1;
	if (add_headers(t, e) < 0 || set_up(s, t, e) < 0)
		return -1;
	return curl_multi_add_handle(s->multi, t->easy) == CURLM_OK ? 0 : err_no_memory(e);
}

/* ---- how it ended ---- */

static void explain(struct transfer *t, CURLcode rc)
{
	const char *host = t->target.host;

	if (t->was_refused) {
		(void)err_set(&t->err, ERR_DENIED, "'%s' is at a private address, or one of this host, which only the operator can "
			      "allow (images.registries, private)", SHOWN(str_of(host)));
	} else if (rc == CURLE_COULDNT_RESOLVE_PROXY || (t->uses_proxy && rc == CURLE_COULDNT_CONNECT)) {
		t->is_transient = rc == CURLE_COULDNT_CONNECT;
		(void)err_set(&t->err, ERR_UNAVAILABLE, "the proxy for images cannot be reached");
	} else if (t->uses_proxy && rc == CURLE_RECV_ERROR && t->proxy_status >= 400) {
		(void)err_set(&t->err, ERR_UNAVAILABLE, "the proxy for images does not lead to '%s': status %ld", SHOWN(str_of(host)),
			      t->proxy_status);
	} else if (rc == CURLE_OPERATION_TIMEDOUT) {
		(void)err_set(&t->err, ERR_TIMEOUT, "'%s' is too slow, or does not answer", SHOWN(str_of(host)));
	} else if (rc == CURLE_COULDNT_RESOLVE_HOST) {
		(void)err_set(&t->err, ERR_UNAVAILABLE,
			      "cannot resolve host '%s': no DNS answer; check its name and the resolver",
			      SHOWN(str_of(host)));
	} else if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE) {
		(void)err_set(&t->err, ERR_UNAVAILABLE, "'%s' has a certificate that is not trusted", SHOWN(str_of(host)));
	} else {
		t->is_transient = rc != CURLE_WRITE_ERROR && rc != CURLE_OUT_OF_MEMORY;
		(void)err_set(&t->err, ERR_UNAVAILABLE, "'%s': %s", SHOWN(str_of(host)), curl_easy_strerror(rc));
	}
}

static void end(struct transfer *t, CURLcode rc)
{
	long status = 0;

	(void)curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &t->proxy_status);
	if (rc != CURLE_OK && t->err.code == ERR_NONE)
		explain(t, rc);
	(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	t->status = (unsigned)status;
	t->is_over = true;
	stop(t);
}

static void collect(struct session *s)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(s->multi, &left))) {
		struct transfer *t = NULL;

		if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t) == CURLE_OK && t)
			end(t, m->data.result);
	}
}

/* ---- all of them ---- */

int session_open(struct session *s, struct err *e)
{
	s->multi = curl_multi_init();
	if (!s->multi)
		return err_no_memory(e);
	(void)curl_multi_setopt(s->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
	/* One connection per layer: what is at once is at once, whatever the registry's idea of a window is. */
	(void)curl_multi_setopt(s->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	return 0;
}

void session_close(struct session *s)
{
	if (s->multi)
		(void)curl_multi_cleanup(s->multi);
	s->multi = NULL;
}

int session_turn(struct session *s, int wait_ms, struct err *e)
{
	struct curl_waitfd asker = { .fd = s->asker->fd, .events = CURL_WAIT_POLLPRI };
	int running = 0;

	if (curl_multi_perform(s->multi, &running) != CURLM_OK)
		return err_no_memory(e);
	collect(s);
	if (curl_multi_poll(s->multi, &asker, 1, wait_ms, NULL) != CURLM_OK)
		return err_no_memory(e);
	if (curl_multi_perform(s->multi, &running) != CURLM_OK)
		return err_no_memory(e);
	collect(s);
	if (asker_is_gone(s->asker))
		return err_set(e, ERR_UNAVAILABLE, "cancelled by the client");
	if (clock_mono_ms() >= s->deadline_ms)
		return err_set(e, ERR_TIMEOUT, "it took longer than %lld seconds", (long long)s->order->seconds);
	return 0;
}

int session_wait(struct session *s, struct transfer *t, struct err *e)
{
	while (!t->is_over)
		if (session_turn(s, 250, e) < 0)
			return -1;
	return 0;
}
