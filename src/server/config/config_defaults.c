// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/own.h"
#include "server/config/config.h"

#include "base/banned.h"

/* string_list wants an array that can be written to; this one never is. */
static const char *dropped_capabilities[] = {
	"AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN",
	"SYS_MODULE", "SYS_PTRACE", "SYS_TIME", "SYS_TTY_CONFIG",
};

static const struct config defaults = {
	.server = {
		.host = "127.0.0.1",
		.port = 8080,
		.timeout_keep_alive = 120,
		.backlog = 2048,
		.thread_pool_size = 200,
	},
	.log = {
		.level = "INFO",
		.format = LOG_FORMAT_TEXT,
		.file_path = "~/logs/opensandbox/server.log",
		.access_file_path = "~/logs/opensandbox/access.log",
		.file_max_bytes = INT64_C(100) * 1024 * 1024,
		.file_backup_count = 5,
	},
	.limits = {
		.connections = 20000,
		.connections_per_address = 12000,
		.streams = 16384,
		.requests_per_key = 4096,
		.head_seconds = 10,
		.body_idle_seconds = 30,
		.reader_seconds = 60,
		.silent_seconds = 3600,
		.drain_seconds = 10,
	},
	.runtime = { .type = RUNTIME_NATIVE },
	.native = {
		.state_dir = "/var/lib/opensandbox",
		.run_dir = "/run/opensandbox",
		.default_image = "host",
		.user = "opensandbox",
		.prefix = "osb",
		.slots = 8,
	},
	.images = { .user = "opensandbox-fetch", .pull_seconds = 1800, .stall_seconds = 60 },
	.docker = {
		.network_mode = "bridge", /* with "host", two sandboxes would meet on execd's port */
		.api_timeout = 180,
		.drop_capabilities = { dropped_capabilities, ARRAY_LEN(dropped_capabilities) },
		.no_new_privileges = true,
		.pids_limit = 4096,
	},
	.storage = { .volume_default_size = "1Gi", .ossfs_mount_root = "/mnt/ossfs" },
	.store = { .path = "~/.opensandbox/opensandbox.db" },
	.egress = {
		.disable_ipv6 = true,
		.user = "opensandbox-egress",
		.rules_dir = "/etc/opensandbox/egress",
		.max_rules = 4096,
	},
	.ingress = { .secure_access = { .max_ttl_seconds = 30 * 86400 } },
	.renew_intent = {
		.min_interval_seconds = 60,
		.redis = { .queue_key = "opensandbox:renew:intent", .consumer_concurrency = 8 },
	},
	.kubernetes = {
		.image_pull_policy = "IfNotPresent",
		.sandbox_create_timeout_seconds = 60,
		.sandbox_create_poll_interval_seconds = 1.0,
		.snapshot_create_timeout_seconds = 900,
		.informer_enabled = true,
		.informer_resync_seconds = 300,
		.informer_watch_timeout_seconds = 60,
	},
	.agent_sandbox = { .ingress_enabled = true },
};

void config_defaults(struct config *ret_config)
{
	*ret_config = defaults;
}
