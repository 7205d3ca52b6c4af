// SPDX-License-Identifier: Apache-2.0
/* Routes, and what all of them have in common: the token, request ids, errors, the log. */
#include "base/err.h"
#include "base/log.h"
#include "execd/execd.h"
#include "net/http/url.h"

#include "base/banned.h"

#define TOKEN_HEADER "X-EXECD-ACCESS-TOKEN"
#define REQUEST_ID_HEADER "X-Request-ID"

/* ---- routes ---- */

static int ping_get(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq;
	(void)e;
	return reply_empty(rp, 200);
}

/* Any other path, or another method on a known one. */
static int not_found(struct request *rq, struct reply *rp, struct err *e)
{
	struct url_segments it = url_segments(rq->path);
	struct str raw, text;

	(void)e;
	while (url_segment_next(&it, &raw)) {
		struct err why = { 0 };

		if (url_segment_decode(raw, rq->arena, &text, &why) < 0)
			return reply_error(rp, 400, CODE_INVALID_BODY, "invalid path: %s", why.msg);
	}
	return reply_error(rp, 404, CODE_NOT_FOUND, "there is no such route");
}

static const struct route routes[] = {
	{ "GET", "/ping", ping_get, 0, 0 },
	{ "POST", "/command", command_post, ROUTE_STREAM_IN, COMMAND_BODY_MAX },
	{ "DELETE", "/command", command_delete, 0, 0 },
	{ "GET", "/command/status/:id", command_status, 0, 0 },
	{ "GET", "/command/:id/logs", command_logs, 0, 0 },
	{ "POST", "/session", session_post, ROUTE_STREAM_IN, COMMAND_BODY_MAX },
	{ "POST", "/session/:id/run", session_run_post, ROUTE_STREAM_IN, COMMAND_BODY_MAX },
	{ "DELETE", "/session/:id", session_delete_route, 0, 0 },
	{ "POST", "/code", code_post, ROUTE_STREAM_IN, CODE_BODY_MAX },
	{ "DELETE", "/code", command_delete, 0, 0 },
	{ "POST", "/code/context", code_context_post, ROUTE_STREAM_IN, COMMAND_BODY_MAX },
	{ "GET", "/code/contexts", code_contexts_get, 0, 0 },
	{ "DELETE", "/code/contexts", code_contexts_delete_route, 0, 0 },
	{ "GET", "/code/contexts/:id", code_context_get, 0, 0 },
	{ "DELETE", "/code/contexts/:id", code_context_delete_route, 0, 0 },
	{ "GET", "/files/info", files_info_get, 0, 0 },
	{ "DELETE", "/files", files_delete, 0, 0 },
	{ "POST", "/files/permissions", files_permissions_post, ROUTE_STREAM_IN, WORK_JSON_MAX },
	{ "POST", "/files/mv", files_mv_post, ROUTE_STREAM_IN, WORK_JSON_MAX },
	{ "GET", "/files/search", files_search_get, 0, 0 },
	{ "POST", "/files/replace", files_replace_post, ROUTE_STREAM_IN, WORK_JSON_MAX },
	{ "POST", "/files/upload", files_upload_post, ROUTE_STREAM_IN, UPLOAD_BODY_MAX },
	{ "GET", "/files/download", files_download_get, 0, 0 },
	{ "POST", "/directories", directories_post, ROUTE_STREAM_IN, WORK_JSON_MAX },
	{ "DELETE", "/directories", directories_delete, 0, 0 },
	{ "GET", "/directories/list", directories_list_get, 0, 0 },
	{ "POST", "/pty", pty_post, ROUTE_STREAM_IN, COMMAND_BODY_MAX },
	{ "GET", "/pty/:id", pty_get, 0, 0 },
	{ "DELETE", "/pty/:id", pty_delete_route, 0, 0 },
	{ "GET", "/pty/:id/ws", pty_ws, 0, 0 },
	{ "GET", "/metrics", metrics_get, 0, 0 },
	{ "GET", "/metrics/watch", metrics_watch, 0, 0 },
	{ "*", "/proxy/:port/*", proxied_any, ROUTE_STREAM_IN, HTTP_LENGTH_MAX },
	{ "*", "/proxy/*", proxied_no_port, 0, 0 },
	{ "*", "/*", not_found, 0, 0 },
	{ 0 },
};

/* ---- hooks ---- */

/* Every request, whatever its path: nothing here is for those without the token. */
static int admit(struct request *rq, struct reply *rp, struct err *e)
{
	const struct execd *x = execd_of(rq);
	struct str id = request_header(rq, REQUEST_ID_HEADER);

	(void)e;
	if (http_is_request_id(id))
		rq->id = id;
	if (x->config->token.n > 0 && !secret_eq(request_header(rq, TOKEN_HEADER), x->config->token))
		return reply_bytes(rp, 401, "application/json",
				   STR("{\"error\":\"Unauthorized: invalid or missing header " TOKEN_HEADER "\"}"));
	(void)launch_keep_cwd(x->config->cwd);
	if (rq->head->size > EXECD_HEAD_MAX)
		return reply_error(rp, 431, "HEADERS_TOO_LARGE", "the head is larger than %zu bytes", EXECD_HEAD_MAX);
	return 0;
}

static void decorate(struct request *rq, struct reply *rp)
{
	if (rq->id.n > 0)
		(void)reply_header(rp, REQUEST_ID_HEADER, rq->id);
}

static void failed(const struct request *rq, const struct err *e)
{
	log_error("request failed", LOG_STR("path", rq->path), LOG_STR("request_id", rq->id), LOG_ERR(e));
}

/* Without the query, which may carry secrets. */
static void finished(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	struct execd *x = execd_of(rq);

	if ((status == 401 || !rq->route) && !log_limit_admits(&x->strangers, x->loop))
		return;
	log_info("request", LOG_STR("method", rq->head->method), LOG_STR("path", rq->path), LOG_U("status", status),
		 LOG_MS("took", loop_now_ms(request_loop(rq)) - rq->began_ms), LOG_U("bytes", body_bytes),
		 LOG_STR("request_id", rq->id));
}

int reply_too_many(struct reply *rp, const char *what)
{
	(void)reply_header(rp, "Retry-After", STR("1"));
	return reply_error(rp, 429, CODE_TOO_MANY, "too many %s at once", what);
}

void execd_service_init(struct http_service *s, struct execd *x)
{
	*s = (struct http_service){
		.routes = routes,
		.ctx = x,
		.admit = admit,
		.decorate = decorate,
		.error_code = CODE_RUNTIME,
		.failed = failed,
		.finished = finished,
	};
}

const struct http_limits service_limits = {
	.connections = EXECD_CONNECTIONS_MAX,
	.per_address = EXECD_CONNECTIONS_MAX,
	.streams = EXECD_CONNECTIONS_MAX,
	.head_ms = 10000,
	.body_idle_ms = 30000,
	.body_window_ms = 30000,
	.body_window_bytes = 30 * 1024,
	.keep_alive_ms = 120000,
	.reader_ms = 60000,
	.silent_ms = 3600000,
	.linger_ms = 2000,
	.high_water = EXECD_HIGH_WATER,
	.send_buffer = EXECD_SEND_BUFFER,
	.wide_files = EXECD_WIDE_FILES_MAX,
};
