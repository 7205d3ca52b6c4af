// SPDX-License-Identifier: Apache-2.0
/* server/config/config.h - the configuration: defaults, then a TOML file, then the environment, then flags.
 *
 * Tables of fields (config_tables.c) define all settings; loading, the environment's names, the generated
 * example and `opensandbox-server config` follow from them. Unknown keys and bad values are refused. Keys of
 * runtimes that are not in use are checked and kept. Optional strings are NULL when they are absent or
 * empty. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"

struct arena;
struct buf;
struct err;
struct runtime_limits;

#define CONFIG_FILE_MAX ((size_t)1024 * 1024)
#define CONFIG_ENV_VALUE_MAX ((size_t)64 * 1024)
#define CONFIG_ARENA_MAX ((size_t)16 * 1024 * 1024)
#define CONFIG_IMAGES_MAX 256
#define CONFIG_PATH_MAX 160 /* of a key, "ingress.gateway.route.mode", with its table in it */

struct config_server {
	const char *host;
	int64_t port, proxy_port; /* proxy_port 0: not set, becomes port + 1 */
	const char *api_key;
	bool unsafe_no_auth, unsafe_weak_key;
	const char *tls_cert, *tls_key;
	const char *eip;
	int64_t max_sandbox_timeout_seconds; /* 0: no ceiling */
	int64_t timeout_keep_alive;
	int64_t limit_concurrency; /* 0: none of its own */
	int64_t backlog, thread_pool_size;
	int loop, http; /* known, without effect */
};

struct config_log {
	const char *level;
	int format; /* enum log_format */
	bool file_enabled;
	const char *file_path, *access_file_path;
	int64_t file_max_bytes, file_backup_count;
};

enum { RUNTIME_NATIVE, RUNTIME_DOCKER, RUNTIME_KUBERNETES };

struct config_runtime {
	int type;
	const char *execd_image;
};

struct config_native {
	const char *state_dir, *run_dir, *default_image;
	const char *user, *prefix, *execd;
	int64_t slots;
	/* name -> directory or tar, in the order of the file: image 1, 2, ... of the warden */
	struct string_map images;
	const char *disk_size; /* an amount of storage; NULL: the warden's own choice */
	const char *disk_reserve; /* likewise; NULL: see sys/room.h */
	/* that a sandbox may ask for; NULL: what can be enforced at all */
	const char *max_cpu, *max_memory, *max_disk;
	bool unsafe_no_disk_limit;
	int network; /* of sandboxes whose create names none */
	const char *network_range; /* of addresses; NULL: the warden's own choice */
};
enum { NETWORK_DEFAULT, NETWORK_NONE };

/* What is special about a registry of images. Strings may be "", which says nothing. */
struct config_registry {
	const char *host, *mirror, *auth_host, *ca_file;
	bool insecure, is_private;
};
#define CONFIG_REGISTRIES_MAX 64

struct config_images {
	const char *user; /* that fetchers run as */
	int64_t pull_seconds, stall_seconds;
	bool keep_blobs;
	const char *proxy;             /* that registries are asked by; NULL or "": none */
	struct string_list no_proxy;
	struct object_list registries; /* of struct config_registry */
};

struct config_limits {
	int64_t connections, connections_per_address, streams, requests_per_key;
	int64_t head_seconds, body_idle_seconds, reader_seconds, silent_seconds, drain_seconds;
};

struct config_docker {
	const char *network_mode, *host_ip;
	int64_t api_timeout;
	struct string_list drop_capabilities;
	const char *apparmor_profile, *seccomp_profile;
	bool no_new_privileges, unsafe_weaker_isolation;
	int64_t pids_limit;
};

#define CONFIG_HOST_PATHS_MAX 256

struct config_storage {
	struct string_list allowed_host_paths;
	const char *volume_default_size, *ossfs_mount_root;
};

struct config_store {
	int type;
	const char *path;
};

struct config_egress {
	const char *image;
	int mode;
	bool disable_ipv6;
	/* native: */
	const char *user, *rules_dir, *deny_webhook;
	struct string_list upstreams; /* addresses, with an optional port; none: those of resolv.conf */
	int64_t max_rules;
	struct string_list allow_private; /* networks of W4 that sandboxes may reach */
};
#define CONFIG_UPSTREAMS_MAX 10
#define CONFIG_PRIVATE_MAX 64

enum { SECURE_NONE, SECURE_GVISOR, SECURE_KATA, SECURE_FIRECRACKER };

struct config_secure_runtime {
	int type;
	const char *docker_runtime, *k8s_runtime_class;
};

enum { INGRESS_DIRECT, INGRESS_GATEWAY };
enum { GATEWAY_WILDCARD, GATEWAY_HEADER, GATEWAY_URI };

struct config_route {
	int mode;
};

struct config_gateway {
	const char *address;
	struct config_route route;
};

struct config_access_key {
	const char *key_id, *key;
};

struct config_secure_access {
	const char *active_key;
	struct object_list keys; /* of struct config_access_key */
	int64_t max_ttl_seconds; /* of a signed route */
};

struct config_ingress {
	int mode;
	const char *host_ports; /* NULL: none */
	const char *gateway_socket; /* path; NULL: none */
	struct config_gateway gateway;
	bool has_gateway;
	struct config_secure_access secure_access;
	bool has_secure_access;
};

struct config_redis {
	bool enabled;
	const char *dsn, *queue_key;
	int64_t consumer_concurrency;
};

struct config_renew_intent {
	bool enabled;
	int64_t min_interval_seconds;
	struct config_redis redis;
};

struct config_resources {
	struct string_map limits, requests;
};

struct config_kubernetes {
	const char *kubeconfig_path, *namespace, *service_account;
	int workload_provider;
	const char *batchsandbox_template_file, *image_pull_policy;
	int64_t sandbox_create_timeout_seconds;
	double sandbox_create_poll_interval_seconds;
	int64_t snapshot_create_timeout_seconds;
	bool informer_enabled;
	int64_t informer_resync_seconds, informer_watch_timeout_seconds;
	double read_qps, write_qps;
	int64_t read_burst, write_burst;
	struct config_resources execd_init_resources;
};

struct config_agent_sandbox {
	const char *template_file;
	int shutdown_policy;
	bool ingress_enabled;
};

struct config {
	struct config_server server;
	struct config_log log;
	struct config_limits limits;
	struct config_runtime runtime;
	struct config_native native;
	struct config_images images;
	struct config_docker docker;
	struct config_storage storage;
	struct config_store store;
	struct config_egress egress;
	struct config_secure_runtime secure_runtime;
	struct config_ingress ingress;
	struct config_renew_intent renew_intent;
	struct config_kubernetes kubernetes;
	bool has_kubernetes;
	struct config_agent_sandbox agent_sandbox;
	bool has_agent_sandbox;
	/* no keys, but what is to be said about them */
	const char *notes;      /* lines for the operator, "FILE:LINE: KEY: ...", or NULL */
	const char *file_fault, *tls_key_fault; /* of them, those about the modes of the file and of server.tls_key, or NULL */
};

extern const struct field config_fields[]; /* of struct config: one FIELD_OBJECT per section */

void config_defaults(struct config *ret_config);

/* One key set on the command line: "server.port" = "9000", read like a value from the environment. */
struct config_flag {
	const char *option; /* "--port", for errors */
	const char *key;
	const char *value; /* NULL: the option was not given */
};

struct config_sources {
	const char *path;               /* --config, or NULL */
	const char *const *env;         /* "NAME=value", NULL at the end */
	const struct config_flag *flags; /* key NULL at the end; may be NULL */
};

/* Finds the file: SOURCES->path, $SANDBOX_CONFIG_PATH, or ~/.sandbox.toml if that exists. A leading "~/" is
 * expanded. *ret_path is NULL when there is none. */
int config_find(const struct config_sources *sources, struct arena *a, const char **ret_path, struct err *e);

/* Loads everything into *c. Strings live in A. On failure E has the first problem ("FILE:LINE: server.port:
 * ...", "OPENSANDBOX_SERVER_PORT: ..." or "--port: ...") and *problems all of them, one per line. */
int config_load(const struct config_sources *sources, struct arena *a, struct config *c, struct buf *problems,
		struct err *e);

const char *config_env(const char *const *env, const char *name); /* or NULL */
/* PATH with $HOME in place of a leading "~". NULL: out of memory, or HOME is not set. */
const char *config_expand_home(const char *path, const char *const *env, struct arena *a, struct err *e);

/* Whether an image can have this name: "python/3.12:slim". */
bool config_image_name(struct str name);

/* native.disk_reserve in bytes; 0: it is not set. */
uint64_t config_disk_reserve(const struct config *c);
/* What a sandbox may ask for. */
struct runtime_limits config_ceilings(const struct config *c);

/* The name of the variable that overrides a key: "server.port" -> "OPENSANDBOX_SERVER_PORT". */
bool config_env_name(struct buf *b, const char *key);

/* Why KEY ("docker.pids_limit") changes nothing, which keys of other servers of this API may; NULL: it
 * does. */
const char *config_idle(const struct config *c, const char *key);

/* The whole configuration as TOML. A secret is a comment that says no more than that it is set. */
bool config_write(const struct config *c, struct buf *b);

/* A commented file with every key, which a server starts with as it is. KIND: NULL (all at their defaults) or
 * "native". API_KEY becomes the key. False: no such kind, or B is full. */
bool config_write_example(const char *kind, const char *api_key, struct buf *b);
