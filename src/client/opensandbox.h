// SPDX-License-Identifier: Apache-2.0
/* opensandbox.h - libopensandbox, the C library of OpenSandbox.
 *
 *     struct osb_client *c = osb_client_new(&OSB_OPTIONS, NULL);       address and key come from the environment
 *     struct osb_sandbox *s = NULL;
 *     struct osb_execution *x = NULL;
 *
 *     if (osb_sandbox_create(c, &(struct osb_create){ .image = "host" }, &s, NULL) < 0 ||
 *         osb_command_run(s, &(struct osb_command){ .command = "echo hello" }, NULL, NULL, &x, NULL) < 0)
 *             errx(1, "%s", osb_client_error(c)->message);
 *     puts(x->stdout_text);
 *
 * OPERATIONS take a `struct osb_call *` as their last parameter and return 0 or -1.
 *   - NULL: the operation is over when the function returns; osb_client_error() says what went wrong.
 *   - A call: it carries a deadline, a request id and the error, and can be cancelled. Without osb_call_on_done() the function
 *     waits in the same way. With it the function only begins the operation; osb_client_dispatch() drives it, and calls back
 *     exactly once, also for what failed at once: the function itself then returns 0. Input is copied when the function is
 *     called; what it points *ret at is written before the call back and must live until then.
 * Waiting inside a call back is refused (OSB_INVALID).
 *
 * RESULTS (everything that comes by a `**ret` but handles) are one block each: osb_free() frees it with all
 * that it points to. Strings in them may be NULL where it says so. Times are RFC 3339 as the server wrote
 * them; osb_time_ms() reads them.
 *
 * STRUCTS that go in begin with zeroes: what is zero or NULL has its default. Members are only ever added at
 * the end. `size` says how much of a struct there is (sizeof); 0: as much as in version 1. Without a `size`
 * it never grows.
 *
 * THREADS: a client, with all that was made from it, is used by one thread at a time. osb_call_cancel() is
 * for all threads and for signal handlers. A struct osb_pool is for all threads. */
#ifndef OPENSANDBOX_H
#define OPENSANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OSB_API __attribute__((visibility("default")))

struct osb_call;
struct osb_client;
struct osb_pool;
struct osb_pty;
struct osb_sandbox;

OSB_API const char *osb_version(void); /* "0.1.0" */

/* ---- errors -------------------------------------------------------------------------------------------------- */

enum osb_kind {
	OSB_OK,
	OSB_INVALID,   /* an argument; code INVALID_ARGUMENT */
	OSB_ANSWER,    /* the server answered with an error: http_status, and its code and message */
	/* it could not be reached, or what came is no answer; code INTERNAL_UNKNOWN_ERROR or
	 * UNEXPECTED_RESPONSE */
	OSB_NETWORK,
	OSB_TIMEOUT,   /* code TIMEOUT */
	OSB_CANCELLED, /* code CANCELLED */
	OSB_NOT_READY, /* the sandbox did not answer in time; code READY_TIMEOUT, or UNHEALTHY */
	OSB_POOL,      /* of a pool; codes POOL_EMPTY, POOL_ACQUIRE_FAILED, POOL_NOT_RUNNING, POOL_STATE_STORE_UNAVAILABLE,
			* POOL_STATE_STORE_CONTENTION */
	OSB_MEMORY,
	OSB_LOCAL,     /* a function of the caller's stopped it, or a local file failed */
};

struct osb_error {
	enum osb_kind kind;
	int http_status;      /* 0: there was no answer */
	char code[64];        /* "SANDBOX::INVALID_PARAMETER" */
	char message[512];    /* a sentence for people: "create sandbox: no such image 'x'" */
	/* of the answer, or of the request that got none; to be found in the server's log; "" */
	char request_id[128];
};

/* ---- small types --------------------------------------------------------------------------------------------- */

struct osb_strings {
	const char *const *items;
	size_t n;
};
struct osb_pair {
	const char *key, *value;
};
struct osb_map {
	const struct osb_pair *items;
	size_t n;
};
struct osb_bytes { /* with a NUL behind them that does not count */
	const char *data;
	size_t n;
};

/* Where a body comes from: bytes put into OUT, 0 at the end, -1 to give up. And where one goes: 0, or -1 to
 * give up. */
typedef long osb_read_fn(char *out, size_t max, void *arg);
typedef int osb_write_fn(const char *data, size_t n, void *arg);

OSB_API void osb_free(const void *result); /* NULL is fine */
/* A result as the JSON that the other SDKs show: snake_case names, null for what is not there. free() it;
 * NULL: no memory. */
OSB_API char *osb_to_json(const void *result);
OSB_API int64_t osb_time_ms(const char *rfc3339); /* since 1970; -1: it is no time */

/* ---- the client ---------------------------------------------------------------------------------------------- */

struct osb_options {
	size_t size;
	const char *api_key;  /* NULL: OPEN_SANDBOX_API_KEY, or none */
	/* "host:port", with or without a scheme; NULL: OPEN_SANDBOX_DOMAIN, or localhost:8080 */
	const char *domain;
	/* "http" or "https"; NULL: OPEN_SANDBOX_PROTOCOL, or http. A scheme in the domain outranks it */
	const char *protocol;
	unsigned request_timeout_ms; /* of a request up to its answer, not of a stream; 0: 30,000 */
	bool use_server_proxy;       /* reach sandboxes through the server */
	const char *ca_file;         /* roots to trust for https; NULL: the system's */
	bool is_insecure;            /* take any certificate */
	const char *user_agent;      /* NULL: the library's */
	struct osb_map headers;      /* sent with every request to the server */
	unsigned max_idle;           /* connections kept per target for 30 s; 0: 20 */
};
#ifdef __cplusplus
#define OSB_OPTIONS ([] { osb_options zeroes = osb_options(); zeroes.size = sizeof(zeroes); return zeroes; }())
#else
#define OSB_OPTIONS ((struct osb_options){ .size = sizeof(struct osb_options) })
#endif

/* NULL, and *e if it is not NULL. */
OSB_API struct osb_client *osb_client_new(const struct osb_options *options, struct osb_error *e);
/* Its calls are cancelled (and stay to be freed), its sandboxes and terminals go with it. Not inside a call
 * back. */
OSB_API void osb_client_free(struct osb_client *c);
/* Of the last operation that waited: kind OSB_OK after one that did not fail. Valid until the next. */
OSB_API const struct osb_error *osb_client_error(const struct osb_client *c);

/* For event loops: watch the descriptor for reading, and call dispatch when it is readable or when timeout_ms
 * (-1: none) have passed. dispatch waits for at most WAIT_MS (-1: until something happens) and returns -1
 * only if the client is beyond use. */
OSB_API int osb_client_fd(const struct osb_client *c);
OSB_API int osb_client_timeout_ms(const struct osb_client *c);
OSB_API int osb_client_dispatch(struct osb_client *c, int wait_ms);

/* ---- calls --------------------------------------------------------------------------------------------------- */

typedef void osb_done_fn(struct osb_call *call, void *arg);

/* NULL: no memory. For one operation at a time, then the next */
OSB_API struct osb_call *osb_call_new(struct osb_client *c);
/* an operation that is under way ends without a call back; fine inside one */
OSB_API void osb_call_free(struct osb_call *call);
OSB_API void osb_call_on_done(struct osb_call *call, osb_done_fn *fn, void *arg);
/* of each whole operation, streams included; 0: none */
OSB_API void osb_call_set_deadline(struct osb_call *call, unsigned ms);
/* X-Request-ID; NULL: one is made up */
OSB_API void osb_call_set_request_id(struct osb_call *call, const char *id);
OSB_API void osb_call_cancel(struct osb_call *call); /* what is under way ends with OSB_CANCELLED */
OSB_API bool osb_call_is_busy(const struct osb_call *call);
OSB_API const struct osb_error *osb_call_error(const struct osb_call *call);

/* ---- sandboxes: the server's side ---------------------------------------------------------------------------- */

struct osb_page {
	int64_t page, page_size, total_items, total_pages;
	bool has_next_page;
};
struct osb_status {
	const char *state; /* Pending, Running, Pausing, Paused, Stopping, Terminated, Failed, Unknown */
	const char *reason, *message, *last_transition_at; /* or NULL */
};
struct osb_platform {
	const char *os, *arch; /* both NULL: none was said */
};
struct osb_sandbox_info {
	const char *id;
	struct osb_status status;
	struct osb_strings entrypoint;
	const char *expires_at; /* NULL: it ends by kill alone */
	const char *created_at;
	const char *image;       /* NULL: made from a snapshot */
	const char *snapshot_id; /* or NULL */
	struct osb_platform platform;
	struct osb_map metadata;
};
struct osb_sandboxes {
	const struct osb_sandbox_info *items;
	size_t n;
	struct osb_page pagination;
};

struct osb_rule {
	const char *action, *target; /* "allow" or "deny"; a name, "*.name", an address or a range */
};
struct osb_policy {
	const char *default_action; /* "allow" or "deny"; NULL: deny */
	const struct osb_rule *egress;
	size_t n_egress;
};
struct osb_volume {
	const char *name, *mount_path, *sub_path; /* sub_path or NULL */
	bool read_only;
	const char *host_path;  /* one of these two, */
	const char *claim_name; /* of a named volume, */
	bool create_if_missing, delete_with_sandbox;
	const char *storage;   /* its size, or NULL */
	const char *json;      /* or a whole volume as the API knows it, instead of everything above */
};

#define OSB_TTL_DEFAULT 0 /* 600 s */
#define OSB_TTL_NONE (-1) /* until it is killed */

struct osb_create {
	size_t size;
	const char *image;       /* one of image, */
	const char *snapshot_id; /* and snapshot */
	const char *image_username, *image_password;
	int64_t timeout_s; /* until it ends by itself, or OSB_TTL_* */
	struct osb_strings entrypoint; /* none: tail -f /dev/null */
	struct osb_map env, metadata, extensions;
	struct osb_map resource; /* none: cpu 1, memory 2Gi */
	const struct osb_policy *network_policy; /* or NULL */
	const struct osb_volume *volumes;
	size_t n_volumes;
	struct osb_platform platform;
	bool secure_access, credential_proxy;
	bool skip_health_check;    /* return without a look whether it answers */
	unsigned ready_timeout_ms; /* 0: 30,000 */
	unsigned poll_ms;          /* between looks; 0: 200 */
	const char *idempotency_key; /* repeated creates with the same one make one sandbox; or NULL */
};
struct osb_connect {
	size_t size;
	bool skip_health_check;
	unsigned ready_timeout_ms, poll_ms; /* 0: 30,000 and 200 */
};
struct osb_list {
	size_t size;
	struct osb_strings states; /* any of them */
	struct osb_map metadata;   /* all of them */
	int64_t page, page_size;   /* 0: the server's defaults */
};
struct osb_endpoint {
	const char *endpoint; /* without a scheme: "host:port/path" */
	const char *url;      /* with it */
	struct osb_map headers; /* to be sent there */
};
struct osb_fork {
	size_t size;
	int64_t count;     /* 0: 1 */
	int64_t timeout_s; /* or OSB_TTL_* */
	struct osb_map env, metadata, resource;
	const struct osb_policy *network_policy; /* NULL: the source's */
	const char *name; /* keep what they begin with as a snapshot of this name; or NULL */
};
struct osb_expiry {
	const char *expires_at;
};

/* Makes one, asks for its endpoints and waits until it answers. If that fails after it was made, it is
 * killed. */
OSB_API int osb_sandbox_create(struct osb_client *c, const struct osb_create *create,
			       struct osb_sandbox **ret, struct osb_call *call);
/* OPTIONS may be NULL here and below. */
OSB_API int osb_sandbox_connect(struct osb_client *c, const char *id, const struct osb_connect *options,
				struct osb_sandbox **ret,
				struct osb_call *call);
OSB_API int osb_sandbox_resume(struct osb_client *c, const char *id, const struct osb_connect *options,
			       struct osb_sandbox **ret,
			       struct osb_call *call);
OSB_API int osb_sandbox_get(struct osb_client *c, const char *id, struct osb_sandbox_info **ret,
			    struct osb_call *call);
OSB_API int osb_sandbox_list(struct osb_client *c, const struct osb_list *filter, struct osb_sandboxes **ret,
			     struct osb_call *call);
OSB_API int osb_sandbox_pause(struct osb_client *c, const char *id, struct osb_call *call);
OSB_API int osb_sandbox_kill(struct osb_client *c, const char *id, struct osb_call *call);
/* It ends TIMEOUT_S from now on. RET may be NULL. */
OSB_API int osb_sandbox_renew(struct osb_client *c, const char *id, int64_t timeout_s,
			      struct osb_expiry **ret, struct osb_call *call);
/* A value of NULL removes the key. RET may be NULL. */
OSB_API int osb_sandbox_patch_metadata(struct osb_client *c, const char *id, const struct osb_map *patch,
				       struct osb_sandbox_info **ret,
				       struct osb_call *call);
/* EXPIRES: seconds since 1970 until which a signed endpoint is good; 0: not signed. */
OSB_API int osb_sandbox_endpoint(struct osb_client *c, const char *id, unsigned port, int64_t expires,
				 struct osb_endpoint **ret,
				 struct osb_call *call);
OSB_API int osb_sandbox_fork(struct osb_client *c, const char *id, const struct osb_fork *fork,
			     struct osb_sandboxes **ret,
			     struct osb_call *call);
/* RET may be NULL. */
OSB_API int osb_sandbox_rollback(struct osb_client *c, const char *id, const char *snapshot_id,
				 const struct osb_map *env,
				 struct osb_sandbox_info **ret, struct osb_call *call);

/* ---- diagnostics ---- */

struct osb_diagnostics {
	const char *sandbox_id, *kind, *scope, *delivery, *content_type;
	bool truncated;
	const char *content, *content_url; /* one of them, the other NULL */
	int64_t content_length;            /* -1: not said */
	const char *expires_at;            /* or NULL */
	struct osb_strings warnings;
};
/* KIND: "logs" (scopes lifecycle, container, all) or "events" (lifecycle, runtime, all). */
OSB_API int osb_diagnostics(struct osb_client *c, const char *id, const char *kind, const char *scope,
			    struct osb_diagnostics **ret,
			    struct osb_call *call);
/* As plain text. KIND: "logs", "inspect", "events" or "summary". QUERY: tail, since, limit, event_limit; may
 * be NULL. */
OSB_API int osb_diagnostics_text(struct osb_client *c, const char *id, const char *kind,
				 const struct osb_map *query,
				 struct osb_bytes **ret, struct osb_call *call);
/* What it tried to reach, as JSON. */
OSB_API int osb_diagnostics_network(struct osb_client *c, const char *id, struct osb_bytes **ret,
				    struct osb_call *call);

/* ---- snapshots ---- */

struct osb_snapshot {
	const char *id, *sandbox_id, *name; /* the name or NULL */
	struct osb_status status;           /* Creating, Ready, Deleting, Failed */
	const char *created_at;
	int64_t size_bytes; /* -1: not said */
};
struct osb_snapshots {
	const struct osb_snapshot *items;
	size_t n;
	struct osb_page pagination;
};
struct osb_snapshot_list {
	size_t size;
	const char *sandbox_id; /* or NULL */
	struct osb_strings states;
	int64_t page, page_size;
};
OSB_API int osb_snapshot_create(struct osb_client *c, const char *sandbox_id, const char *name,
				struct osb_snapshot **ret,
				struct osb_call *call);
OSB_API int osb_snapshot_get(struct osb_client *c, const char *id, struct osb_snapshot **ret,
			     struct osb_call *call);
OSB_API int osb_snapshot_list(struct osb_client *c, const struct osb_snapshot_list *filter,
			      struct osb_snapshots **ret,
			      struct osb_call *call);
OSB_API int osb_snapshot_delete(struct osb_client *c, const char *id, struct osb_call *call);
OSB_API int osb_snapshot_export(struct osb_client *c, const char *id, osb_write_fn *write, void *arg,
				struct osb_call *call);
OSB_API int osb_snapshot_import(struct osb_client *c, const char *name, osb_read_fn *read, void *arg,
				struct osb_snapshot **ret,
				struct osb_call *call);

/* ---- pools of the server, images, volumes: as JSON objects of the API where there is no struct ---- */

/* BODY: what POST and PUT take. *ret: the pool, as the API has it. */
OSB_API int osb_server_pool_create(struct osb_client *c, const char *json, struct osb_bytes **ret,
				   struct osb_call *call);
OSB_API int osb_server_pool_get(struct osb_client *c, const char *name, struct osb_bytes **ret,
				struct osb_call *call);
OSB_API int osb_server_pool_list(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call);
OSB_API int osb_server_pool_update(struct osb_client *c, const char *name, const char *json,
				   struct osb_bytes **ret,
				   struct osb_call *call);
OSB_API int osb_server_pool_delete(struct osb_client *c, const char *name, struct osb_call *call);

struct osb_pull {
	size_t size;
	const char *image, *username, *password;
	struct osb_platform platform;
};
struct osb_progress { /* of a pull; -1: not known yet */
	const char *status, *layer; /* the layer or NULL */
	int64_t done_bytes, total_bytes, percent;
};
typedef void osb_progress_fn(const struct osb_progress *p, void *arg);

OSB_API int osb_image_pull(struct osb_client *c, const struct osb_pull *pull, osb_progress_fn *progress,
			   void *arg, struct osb_call *call);
OSB_API int osb_image_list(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call);
OSB_API int osb_image_remove(struct osb_client *c, const char *image, struct osb_call *call);
/* An archive as READ gives it; NAME may be NULL. *ret: the images, as the API lists them. */
OSB_API int osb_image_load(struct osb_client *c, const char *name, osb_read_fn *read, void *arg,
			   struct osb_bytes **ret,
			   struct osb_call *call);
OSB_API int osb_image_save(struct osb_client *c, const struct osb_pull *pull, osb_write_fn *write, void *arg,
			   struct osb_call *call);
OSB_API int osb_volume_list(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call);
OSB_API int osb_volume_delete(struct osb_client *c, const char *name, struct osb_call *call);
/* -1: it does not answer, or is not well */
OSB_API int osb_server_health(struct osb_client *c, struct osb_call *call);

/* ---- sandboxes: the inside ----------------------------------------------------------------------------------- */

OSB_API const char *osb_sandbox_id(const struct osb_sandbox *s);
OSB_API struct osb_client *osb_sandbox_client(const struct osb_sandbox *s);
/* the handle; the sandbox lives on. What is under way with it is cancelled */
OSB_API void osb_sandbox_free(struct osb_sandbox *s);
OSB_API int osb_sandbox_ping(struct osb_sandbox *s, struct osb_call *call);

/* ---- commands ---- */

enum osb_event_kind {
	OSB_EVENT_INIT,   /* text: the execution's id */
	/* text: of commands and sessions a line without its end (an empty one is "\n"), of code as it
	 * comes */
	OSB_EVENT_STDOUT,
	OSB_EVENT_STDERR,
	OSB_EVENT_RESULT, /* results */
	OSB_EVENT_COUNT,  /* number */
	OSB_EVENT_COMPLETE, /* number: milliseconds */
	OSB_EVENT_ERROR,  /* name, value, traceback */
	OSB_EVENT_STATUS, /* text */
};
struct osb_event {
	enum osb_event_kind kind;
	int64_t timestamp_ms;
	const char *text; /* NUL-terminated; NULL where there is none */
	size_t n_text;
	int64_t number;
	/* "text" and MIME types; values are text, or JSON where they are no strings */
	struct osb_map results;
	const char *name, *value;
	struct osb_strings traceback;
};
typedef void osb_event_fn(const struct osb_event *event, void *arg); /* the event is valid during the call */

struct osb_text {
	const char *text;
	int64_t timestamp_ms;
};
struct osb_result {
	struct osb_map values;
	const char *text; /* of the values, or NULL */
	int64_t timestamp_ms;
};
struct osb_execution {
	const char *id; /* or NULL */
	int64_t execution_count; /* -1: none */
	const struct osb_result *results;
	size_t n_results;
	const struct osb_text *stdout_lines, *stderr_lines;
	size_t n_stdout, n_stderr;
	const char *stdout_text, *stderr_text; /* the same in one piece */
	const char *error_name, *error_value;  /* NULL: it did not fail */
	struct osb_strings traceback;
	int64_t error_timestamp_ms;
	int64_t complete_timestamp_ms, execution_time_ms; /* -1: it did not complete */
	int64_t exit_code; /* -1 with has_exit_code false: not known (background, code, could not start) */
	bool has_exit_code;
};

struct osb_command {
	size_t size;
	const char *command; /* for a shell */
	const char *working_directory; /* or NULL */
	bool background;
	int64_t timeout_ms; /* 0: none */
	struct osb_map env;
	int64_t uid, gid;
	bool has_uid, has_gid;
	bool skip_accumulation; /* the execution has no lines and results, the events had them */
};
/* EVENTS may be NULL; so may RET. 0 when the stream ended as it should, also if the command failed. */
OSB_API int osb_command_run(struct osb_sandbox *s, const struct osb_command *command, osb_event_fn *events,
			    void *arg,
			    struct osb_execution **ret, struct osb_call *call);
OSB_API int osb_command_interrupt(struct osb_sandbox *s, const char *execution_id, struct osb_call *call);

struct osb_command_status {
	const char *id, *content;
	bool running;
	int64_t exit_code; /* with has_exit_code */
	bool has_exit_code;
	const char *error, *started_at, *finished_at; /* or NULL */
};
struct osb_command_logs {
	const char *content;
	size_t n_content;
	int64_t cursor; /* for the next time; -1: not said */
};
OSB_API int osb_command_status(struct osb_sandbox *s, const char *execution_id,
			       struct osb_command_status **ret, struct osb_call *call);
OSB_API int osb_command_logs(struct osb_sandbox *s, const char *execution_id, int64_t cursor,
			     struct osb_command_logs **ret,
			     struct osb_call *call); /* CURSOR: 0, or from the last time */
/* The same for logs of any length: each piece goes to WRITE, which ends it by -1 when it has enough. *ret,
 * which may be NULL, has no content; a deadline is the call's to set. */
OSB_API int osb_command_logs_stream(struct osb_sandbox *s, const char *execution_id, int64_t cursor,
				    osb_write_fn *write, void *arg,
				    struct osb_command_logs **ret, struct osb_call *call);

/* ---- sessions: shells that stay ---- */

struct osb_session {
	const char *id;
};
OSB_API int osb_session_create(struct osb_sandbox *s, const char *working_directory, struct osb_session **ret,
			       struct osb_call *call);
/* Of COMMAND: command, working_directory, timeout_ms, skip_accumulation. */
OSB_API int osb_session_run(struct osb_sandbox *s, const char *session_id, const struct osb_command *command,
			    osb_event_fn *events,
			    void *arg, struct osb_execution **ret, struct osb_call *call);
OSB_API int osb_session_delete(struct osb_sandbox *s, const char *session_id, struct osb_call *call);

/* ---- terminals ---- */

struct osb_pty_options {
	size_t size;
	const char *command, *working_directory; /* NULL: a shell, where execd runs */
	const char *session_id; /* attach to one that stands, instead; replay what it wrote from `since` on */
	int64_t since;
	bool takeover;
	bool pipes; /* no terminal: stdout and stderr apart, bytes as they were written */
	unsigned columns, rows; /* 0: 80 and 24 */
};
/* Call backs come from dispatch, and from whatever waits. on_exit or on_lost is the last one. */
struct osb_pty_ops {
	void (*on_output)(struct osb_pty *p, bool is_stderr, const char *data, size_t n, void *arg);
	/* room again, after a short write; may be NULL */
	void (*on_drained)(struct osb_pty *p, void *arg);
	/* 128 + n where a signal ended it, -1: not known */
	void (*on_exit)(struct osb_pty *p, int exit_code, void *arg);
	void (*on_lost)(struct osb_pty *p, const struct osb_error *e, void *arg);
};
OSB_API int osb_pty_open(struct osb_sandbox *s, const struct osb_pty_options *options,
			 const struct osb_pty_ops *ops, void *arg,
			 struct osb_pty **ret, struct osb_call *call);
OSB_API const char *osb_pty_id(const struct osb_pty *p);
OSB_API size_t osb_pty_write(struct osb_pty *p, const char *data, size_t n); /* bytes taken */
/* with pipes: the program reads the end of its input; -1: no room now, see on_drained */
OSB_API int osb_pty_end_input(struct osb_pty *p);
/* no on_output until it is resumed: the program waits, if it has pipes for an hour */
OSB_API void osb_pty_pause(struct osb_pty *p);
OSB_API void osb_pty_resume(struct osb_pty *p);
OSB_API void osb_pty_resize(struct osb_pty *p, unsigned columns, unsigned rows);
OSB_API void osb_pty_signal(struct osb_pty *p, const char *name); /* "SIGINT" */
OSB_API void osb_pty_free(struct osb_pty *p); /* detaches: the program goes on; no call back after it */
OSB_API int osb_pty_delete(struct osb_sandbox *s, const char *session_id, struct osb_call *call);

/* ---- files ---- */

struct osb_file_info {
	const char *path, *type; /* file, directory, symlink, other; or NULL */
	int64_t size;
	int mode; /* digits of the octal number: 755 */
	const char *owner, *group, *modified_at, *created_at;
};
struct osb_files {
	const struct osb_file_info *items;
	size_t n;
};
/* what a new file or folder is to be; zeroes and NULL: as it is, or the server's default */
struct osb_entry {
	const char *path, *owner, *group;
	int mode; /* 755 */
};
struct osb_read {
	size_t size;
	const char *range;     /* "bytes=0-9", or NULL */
	int64_t offset, limit; /* lines, from 1; 0: all */
};
struct osb_move {
	const char *source, *destination;
};
struct osb_replace {
	const char *path, *old_content, *new_content;
};
struct osb_replaced {
	const char *path;
	int64_t replaced_count; /* -1: the server did not say */
};
struct osb_replacements {
	const struct osb_replaced *items;
	size_t n;
};
OSB_API int osb_file_read(struct osb_sandbox *s, const char *path, const struct osb_read *how,
			  struct osb_bytes **ret, struct osb_call *call);
OSB_API int osb_file_download(struct osb_sandbox *s, const char *path, const struct osb_read *how,
			      osb_write_fn *write, void *arg,
			      struct osb_call *call);
OSB_API int osb_file_write(struct osb_sandbox *s, const struct osb_entry *entry, const char *data, size_t n,
			   struct osb_call *call);
/* SIZE: of what READ gives; -1: not known. */
OSB_API int osb_file_upload(struct osb_sandbox *s, const struct osb_entry *entry, int64_t size,
			    osb_read_fn *read, void *arg,
			    struct osb_call *call);
OSB_API int osb_file_info(struct osb_sandbox *s, const struct osb_strings *paths, struct osb_files **ret,
			  struct osb_call *call);
OSB_API int osb_file_search(struct osb_sandbox *s, const char *path, const char *pattern,
			    struct osb_files **ret, struct osb_call *call);
OSB_API int osb_file_delete(struct osb_sandbox *s, const struct osb_strings *paths, struct osb_call *call);
OSB_API int osb_file_move(struct osb_sandbox *s, const struct osb_move *moves, size_t n,
			  struct osb_call *call);
OSB_API int osb_file_chmod(struct osb_sandbox *s, const struct osb_entry *entries, size_t n,
			   struct osb_call *call);
OSB_API int osb_file_replace(struct osb_sandbox *s, const struct osb_replace *replaces, size_t n,
			     struct osb_replacements **ret,
			     struct osb_call *call); /* RET may be NULL */
OSB_API int osb_directory_create(struct osb_sandbox *s, const struct osb_entry *entries, size_t n,
				 struct osb_call *call);
OSB_API int osb_directory_delete(struct osb_sandbox *s, const struct osb_strings *paths,
				 struct osb_call *call);
OSB_API int osb_directory_list(struct osb_sandbox *s, const char *path, int64_t depth, struct osb_files **ret,
			       struct osb_call *call);

/* ---- metrics ---- */

struct osb_metrics {
	double cpu_count, cpu_used_percentage, memory_total_mib, memory_used_mib;
	int64_t timestamp_ms;
};
/* one of them, the other NULL */
typedef void osb_metrics_fn(const struct osb_metrics *m, const char *error, void *arg);
OSB_API int osb_metrics_get(struct osb_sandbox *s, struct osb_metrics **ret, struct osb_call *call);
/* until it is cancelled */
OSB_API int osb_metrics_watch(struct osb_sandbox *s, osb_metrics_fn *fn, void *arg, struct osb_call *call);

/* ---- code ---- */

struct osb_context {
	const char *id, *language, *cwd; /* the last or NULL */
};
struct osb_contexts {
	const struct osb_context *items;
	size_t n;
};
struct osb_code {
	size_t size;
	const char *code;
	const char *language;   /* NULL: python */
	const char *context_id; /* NULL: the language's own */
	bool skip_accumulation;
};
OSB_API int osb_code_run(struct osb_sandbox *s, const struct osb_code *code, osb_event_fn *events, void *arg,
			 struct osb_execution **ret, struct osb_call *call);
OSB_API int osb_code_interrupt(struct osb_sandbox *s, const char *execution_or_context_id,
			       struct osb_call *call);
OSB_API int osb_context_create(struct osb_sandbox *s, const char *language, const char *cwd,
			       struct osb_context **ret,
			       struct osb_call *call);
OSB_API int osb_context_get(struct osb_sandbox *s, const char *id, struct osb_context **ret,
			    struct osb_call *call);
OSB_API int osb_context_list(struct osb_sandbox *s, const char *language, struct osb_contexts **ret,
			     struct osb_call *call);
OSB_API int osb_context_delete(struct osb_sandbox *s, const char *id, struct osb_call *call);
OSB_API int osb_context_delete_all(struct osb_sandbox *s, const char *language, struct osb_call *call);

/* ---- what it may reach ---- */

struct osb_policy_status {
	const char *status, *mode, *enforcement_mode, *reason; /* or NULL */
	struct osb_policy policy;
};
OSB_API int osb_egress_get(struct osb_sandbox *s, struct osb_policy_status **ret, struct osb_call *call);
OSB_API int osb_egress_put(struct osb_sandbox *s, const struct osb_policy *policy,
			   struct osb_policy_status **ret, struct osb_call *call);
OSB_API int osb_egress_patch(struct osb_sandbox *s, const struct osb_rule *rules, size_t n,
			     struct osb_policy_status **ret,
			     struct osb_call *call); /* RET may be NULL here and below */
OSB_API int osb_egress_delete(struct osb_sandbox *s, const struct osb_strings *targets,
			      struct osb_policy_status **ret,
			      struct osb_call *call);
/* The credential vault, as JSON: METHOD on "/credential-vault" + PATH. BODY and RET may be NULL. */
OSB_API int osb_vault(struct osb_sandbox *s, const char *method, const char *path, const char *body,
		      struct osb_bytes **ret,
		      struct osb_call *call);

/* ---- a pool on the client's side ----------------------------------------------------------------------------- */

enum osb_pool_policy { OSB_POOL_DIRECT_CREATE, OSB_POOL_FAIL_FAST };
enum osb_pool_state { OSB_POOL_NOT_STARTED, OSB_POOL_STARTING, OSB_POOL_RUNNING, OSB_POOL_DRAINING,
		      OSB_POOL_STOPPED };
enum osb_pool_health { OSB_POOL_HEALTHY, OSB_POOL_DEGRADED, OSB_POOL_HEALTH_DRAINING,
		       OSB_POOL_HEALTH_STOPPED };

/* Prepares a sandbox before it waits in the pool; from the pool's own thread, with its client. -1: it is
 * killed. While it waits in a function of this library's the pool is there for others; for osb_pool_* itself
 * it must not wait. */
typedef int osb_prepare_fn(struct osb_sandbox *s, void *arg);

struct osb_pool_options {
	size_t size;
	const char *name; /* needed */
	unsigned max_idle;
	const struct osb_options *connection;
	const struct osb_create *spec; /* no snapshot; its timeout is idle_timeout_s */
	/* state shared with other processes, also of other languages; NULL: of this pool alone */
	const char *redis_url;
	const char *key_prefix; /* NULL: opensandbox:pool */
	const char *owner_id;   /* NULL: pool-owner-<uuid> */
	unsigned warmup_concurrency;  /* 0: a fifth of max_idle, at least 1 */
	unsigned lock_ttl_ms, reconcile_ms, drain_ms; /* 0: 60,000, 30,000, 30,000 */
	unsigned degraded_threshold;  /* 0: 3 */
	int64_t idle_timeout_s;       /* 0: a day */
	/* of one that is handed out; 0: a minute, or half of idle_timeout_s if that is less */
	int64_t min_remaining_s;
	osb_prepare_fn *prepare;
	void *prepare_arg;
};
struct osb_pool_idle {
	const char *id;
	int64_t expires_ms;
};
struct osb_pool_snapshot {
	enum osb_pool_state state;
	enum osb_pool_health health;
	size_t max_idle, failures;
	const char *last_error; /* or NULL */
	const struct osb_pool_idle *idle;
	size_t n_idle;
};
OSB_API struct osb_pool *osb_pool_new(const struct osb_pool_options *options, struct osb_error *e);
OSB_API int osb_pool_start(struct osb_pool *p, struct osb_error *e); /* E may be NULL here and below */
/* One that waits, or by policy a new one; it is the caller's to kill. C is the caller's client. TIMEOUT_S 0:
 * as it is. */
OSB_API int osb_pool_acquire(struct osb_pool *p, struct osb_client *c, int64_t timeout_s,
			     enum osb_pool_policy policy,
			     struct osb_sandbox **ret, struct osb_call *call);
OSB_API int osb_pool_resize(struct osb_pool *p, unsigned max_idle, struct osb_error *e);
/* the number of those that it killed */
OSB_API int osb_pool_release_all_idle(struct osb_pool *p, struct osb_error *e);
OSB_API int osb_pool_snapshot(struct osb_pool *p, struct osb_pool_snapshot **ret, struct osb_error *e);
OSB_API int osb_pool_shutdown(struct osb_pool *p, bool graceful, struct osb_error *e);
/* Shuts it down, not gracefully, if nobody did. Those that wait in it are killed, unless others know of them
 * by Redis. */
OSB_API void osb_pool_free(struct osb_pool *p);

#ifdef __cplusplus
}
#endif
#endif
