// SPDX-License-Identifier: Apache-2.0
/* server/api/create.h - the create request: its schema (422), and the values that are allowed here (400). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/decode.h"
#include "server/model/sandbox.h"

struct arena;
struct reply;
struct request;
struct snapshots;

#define CREATE_ENV_MAX 256
#define CREATE_ENV_BYTES_MAX ((size_t)128 * 1024)
#define CREATE_ARGS_MAX ROW_ARGS_MAX
#define CREATE_ARGS_BYTES_MAX ((size_t)128 * 1024)
#define CREATE_IMAGE_MAX ROW_IMAGE_MAX
#define CREATE_RENEW_MIN_S 300
#define CREATE_RENEW_MAX_S 86400

struct create_auth {
	const char *username, *password;
};

struct create_image {
	const char *uri;
	struct create_auth auth;
};

struct create_platform {
	const char *os, *arch;
};

struct create_rule {
	const char *action, *target;
};

struct create_policy {
	const char *default_action;
	struct object_list egress; /* of struct create_rule */
};

struct create_host {
	const char *path;
};

struct create_pvc {
	const char *claim, *storage;
	bool is_to_be_made, is_deleted_with;
};

struct create_ossfs {
	const char *bucket, *endpoint, *key_id, *key_secret;
	int version; /* of its program: 0 is "1.0" */
	struct string_list options;
};

/* Exactly one of the three is there. */
struct create_volume {
	const char *name, *mount_path, *sub_path;
	bool is_read_only;
	struct create_host host;
	struct create_pvc pvc;
	struct create_ossfs ossfs;
	bool has_host, has_pvc, has_ossfs;
};

extern const struct field create_volume_fields[];
extern const struct create_volume create_volume_defaults;
const char *create_volume_check(const void *item);

struct create_request {
	struct create_image image;
	const char *snapshot_id;
	struct create_platform platform;
	bool has_platform;
	int64_t timeout;
	struct string_map limits, env, metadata, extensions;
	bool has_limits;
	struct string_list entrypoint;
	struct create_policy policy;
	bool has_network_policy;
	bool proxies_credentials, is_secure_access;
	struct object_list volumes; /* of struct create_volume */
};

/* Binds and checks the shape. Returns as service_decode() does. */
int create_decode(struct request *rq, struct reply *rp, struct create_request *ret, struct decode *d,
		  struct err *e);

struct create_rules {
	struct runtime *runtime;
	int64_t max_timeout_s; /* 0: no ceiling */
	struct runtime_limits ceilings;
	const struct snapshots *snapshots; /* that can be named; NULL: none */
	/* of a fork: what the request does not say is as it is there; NULL: no fork */
	const struct sandbox_row *source;
	struct volumes *volumes; /* named ones that there are */
	bool has_host_ports;     /* ports of the host can be asked for */
	const struct string_list *host_paths; /* folders of the host that may be mounted */
	uint64_t volume_bytes; /* of a volume that names no size */
	enum runtime_network network; /* where the request says nothing */
	size_t max_rules; /* of a policy; 0: as many as there can be */
};

extern const struct field create_policy_fields[];
#define CREATE_NETWORK_KEY "network.mode" /* of the extensions: "default" or "none" */

/* What the server can do for it, in the order of the checks that clients know; the first failure is F.
 * ORDER's strings live in A, in the request, or where the snapshot or the source has them. */
int create_check(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
		 struct sandbox_order *ret, struct fault *f);

/* The part of it that is about the network. */
int create_check_network(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
			 struct sandbox_order *o, struct fault *f);

/* The part of it that is about volumes. */
int create_check_volumes(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
			 struct sandbox_order *o, struct fault *f);

/* The same for a request that names a pool, whose sandboxes are made by TEMPLATE: what it names itself must
 * be what they have; the rest of *ret is the template's. */
int create_check_pooled(const struct create_request *rq, const struct create_rules *rules,
			const struct sandbox_order *template,
			struct arena *a, struct sandbox_order *ret, struct fault *f);
/* trimmed; NULL: it names none, or no memory */
const char *create_pool_name(const struct create_request *rq, struct arena *a);

/* Binds V, a create request, and checks its shape. -1: ERR_INVALID, and D has the problems; or another
 * code. */
int create_bind(const struct json *v, struct decode *d, struct create_request *ret, struct err *e);

/* ---- templates of pools: a create request, or a pod template of which the first container is read ---- */

/* As create_bind(). */
int template_bind(const struct json *v, struct decode *d, struct create_request *ret, struct err *e);
/* As create_check(): also refuses what only whoever takes a sandbox can say. */
int template_check(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
		   struct sandbox_order *ret, struct fault *f);
/* Both, for the text of a template that was checked before. */
int template_order(struct str text, const struct create_rules *rules, struct arena *a,
		   struct sandbox_order *ret,
		   struct fault *f);

/* Splits a command line into words as a shell would: blanks separate, '...', "..." and \ protect. -1: a quote
 * is open (ERR_INVALID). */
int words_split(struct str line, struct arena *a, struct string_list *ret, struct err *e);
