// SPDX-License-Identifier: Apache-2.0
/* execd/execd.h - the exec daemon: what its routes share. daemon.c makes and runs it, service.c has the table
 * of routes and what they have in common; one file per resource (command_api.c; sessions, PTYs, files, code
 * and metrics have their place beside it) decodes, acts and answers. */
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "execd/budget.h"
#include "execd/code/code.h"
#include "execd/code/code_warm.h"
#include "execd/command/command.h"
#include "execd/command/session.h"
#include "execd/env.h"
#include "execd/init.h"
#include "execd/io/drain.h"
#include "execd/io/output.h"
#include "execd/launch.h"
#include "execd/metrics.h"
#include "execd/proxy.h"
#include "execd/pty/pty.h"
#include "execd/users.h"
#include "execd/work.h"
#include "net/http/server.h"
#include "net/log_limit.h"

#define EXECD_PORT 44772

struct string_map;

/* What to run, from the spec of a guest or from a command line. */
struct execd_config {
	struct str token;     /* empty: none is asked for */
	struct env env;       /* of programs, without our secrets */
	const char *jupyter_host;   /* URL of a server that runs kernels; NULL: there is none */
	const char *jupyter_token;  /* for it; "": none */
	const char *env_file; /* EXECD_ENVS, or NULL */
	const char *cwd;      /* where programs start */
	char *const *argv;    /* the entrypoint; NULL: there is none */
	bool has_identity;
	struct identity as;   /* of programs that name no user */
	struct leaf leaf;
	struct cgroup_gauges gauges; /* taken */
	bool is_guest;
	bool is_image_bad;    /* it failed because of GUEST_FLAG_IMAGE */
	struct segments segments;
	int listen_fd;        /* taken */
	unsigned port;        /* that it listens on; 0: none */
	int ready_fd;         /* taken; -1: none */
	int state_fd;         /* -1: none */
};

struct execd {
	const struct execd_config *config;
	struct loop *loop;
	struct http_server *http;
	struct http_service service;
	struct init init;
	struct budget budget;
	struct drains drains;
	struct commands commands;
	struct sessions sessions;
	struct codes codes;
	struct code_warm warm;
	struct workers workers;
	struct ptys ptys;
	struct proxy proxy;
	struct metrics metrics;
	struct output output;
	struct child entrypoint;
	uint64_t oom_before;
	struct timer stop_timer;
	struct log_limit strangers; /* requests that anybody can make */
	bool is_stopping;
	int exit_code;
	int ready_fd;
};

static inline struct execd *execd_of(const struct request *rq)
{
	return rq->ctx;
}

/* Runs until the entrypoint ends or a signal says so. Returns the exit code, or -1 when it could not start; a
 * FAILED record has been written then. */
int execd_run(struct execd_config *config, struct err *e);

/* service.c */
void execd_service_init(struct http_service *s, struct execd *x);
extern const struct http_limits service_limits;

/* Codes of error answers. */
#define CODE_INVALID_BODY "INVALID_REQUEST_BODY"
#define CODE_RUNTIME "RUNTIME_ERROR"
#define CODE_DISK_FULL "INSUFFICIENT_STORAGE" /* always with 507 */
#define CODE_NOT_FOUND "NOT_FOUND"
#define CODE_MISSING_QUERY "MISSING_QUERY"
#define CODE_NO_CONTEXT "CONTEXT_NOT_FOUND"
#define CODE_NOT_SUPPORTED "NOT_SUPPORTED"
#define CODE_TOO_LARGE "CONTENT_TOO_LARGE"
#define CODE_TOO_MANY "TOO_MANY_REQUESTS"
#define CODE_MISSING_QUERY "MISSING_QUERY"
#define CODE_FILE_NOT_FOUND "FILE_NOT_FOUND"
#define CODE_INVALID_FILE "INVALID_FILE"
#define CODE_INVALID_CONTENT "INVALID_FILE_CONTENT"
#define CODE_INVALID_METADATA "INVALID_FILE_METADATA"
#define CODE_UNKNOWN "UNKNOWN"
#define CODE_ALREADY_CONNECTED "ALREADY_CONNECTED"

/* Answers 429 with a Retry-After. */
int reply_too_many(struct reply *rp, const char *what);

/* The environment of a program: ours, then what the file of EXECD_ENVS says now; one that cannot be read
 * counts as empty. */
int execd_env(const struct execd_config *config, struct arena *a, struct env *ret, struct err *e);
/* The directory of a shell, absolute and made if it is missing; ours by default. 1 after having answered. */
int execd_make_cwd(struct execd *x, const char *cwd, struct arena *a, struct reply *rp, const char **ret,
		   struct err *e);

/* ---- routes ---- */

handler_fn command_post;
handler_fn command_status;
handler_fn command_logs;
handler_fn command_delete;
handler_fn session_post;
handler_fn session_run_post;
handler_fn session_delete_route;
handler_fn code_post, code_context_post, code_contexts_get, code_contexts_delete_route, code_context_get,
	code_context_delete_route;
handler_fn pty_post;
handler_fn pty_get;
handler_fn pty_delete_route;
handler_fn pty_ws;
handler_fn metrics_get;
handler_fn metrics_watch;
handler_fn proxied_any;
handler_fn proxied_no_port;
#define COMMAND_TEXT_MAX 131071 /* one argument of exec, with its NUL */
#define COMMAND_BODY_MAX ((uint64_t)2 * 1024 * 1024) /* the longest command and environment, each byte escaped */
#define COMMAND_ENVS_MAX 256
#define CODE_BODY_MAX ((uint64_t)7 * 512 * 1024) /* the longest code, most of its characters written as they are */

const char *check_envs(const void *value); /* of FIELD_MAP: sizes that an environment can have */
const char *bad_env_name(const struct string_map *envs); /* the first that is no name, or NULL */
int refuse_env_name(struct reply *rp, const char *field, const char *name); /* answers 400; 1 */
/* As POST /command with nothing but the command. */
int command_run_text(struct execd *x, const char *text, bool is_background, struct arena *a, struct reply *rp,
		     struct err *e);

handler_fn files_info_get, files_delete, files_permissions_post, files_mv_post, files_search_get,
	files_replace_post;
handler_fn files_upload_post, files_download_get, directories_post, directories_delete, directories_list_get;
#define UPLOAD_BODY_MAX ((uint64_t)8 * 1024 * 1024 * 1024)
