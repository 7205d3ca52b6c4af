// SPDX-License-Identifier: Apache-2.0
/* Every key of the configuration: its type, range, default and one line of help. */
#include <arpa/inet.h>

#include "base/err.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/uuid.h"
#include "box/network.h"
#include "image/fetch.h"
#include "server/config/config.h"
#include "server/config/port_range.h"
#include "server/runtime/runtime.h"
#include "sys/room.h"
#include "sys/route.h"

#include "base/banned.h"

#define DAY INT64_C(86400)
#define SERVER(member, kind, ...) FIELD(struct config_server, member, kind, #member, __VA_ARGS__)
#define LOG(member, kind, ...) FIELD(struct config_log, member, kind, #member, __VA_ARGS__)
#define LIMIT(member, ...) FIELD(struct config_limits, member, FIELD_INT, #member, __VA_ARGS__)
#define DOCKER(member, kind, ...) FIELD(struct config_docker, member, kind, #member, __VA_ARGS__)
#define KUBE(member, kind, ...) FIELD(struct config_kubernetes, member, kind, #member, __VA_ARGS__)
#define PATH_LEN .max = 4096

static const char *const loops[] = { "auto", "uvloop", "asyncio", NULL };
static const char *const https[] = { "auto", "httptools", "h11", NULL };
static const char *const log_formats[] = { "text", "json", NULL };
static const char *const runtimes[] = { "native", "docker", "kubernetes", NULL };
static const char *const stores[] = { "sqlite", NULL };
static const char *const egress_modes[] = { "dns", "dns+nft", NULL };
static const char *const networks[] = { "default", "none", NULL };
static const char *const secure_types[] = { "", "gvisor", "kata", "firecracker", NULL };
static const char *const ingress_modes[] = { "direct", "gateway", NULL };
static const char *const route_modes[] = { "wildcard", "header", "uri", NULL };
static const char *const providers[] = { "batchsandbox", "agent-sandbox", NULL };
static const char *const shutdown_policies[] = { "Delete", "Retain", NULL };

static const char *check_absolute(const void *value)
{
	const char *path = *(const char *const *)value;

	return path[0] == '/' ? NULL : "must be an absolute path";
}

static const char *check_prefix(const void *value)
{
	return id_valid(str_of(*(const char *const *)value)) ? NULL : "must be small letters, digits or '-'";
}

static const char *check_absolute_list(const void *value)
{
	const struct string_list *list = value;

	for (size_t i = 0; i < list->n; i++)
		if (list->items[i][0] != '/')
			return "must be a list of absolute paths";
	return NULL;
}

static const char *check_size(const void *value)
{
	uint64_t bytes;

	return quantity_storage(str_of(*(const char *const *)value), &bytes, &(struct err){ 0 }) == 0 ?
		       NULL : "must be an amount such as 1Gi";
}

#define MAX_MEMORY_LEAST (UINT64_C(16) << 20) /* with less no sandbox can be made */
#define MAX_DISK_LEAST (UINT64_C(1) << 20)
#define DISK_SIZE_MIN (UINT64_C(256) << 20) /* what the warden takes */

static const char *check_disk_size(const void *value)
{
	uint64_t bytes;

	if (!(*(const char *const *)value)[0])
		return NULL; /* not set */
	return quantity_storage(str_of(*(const char *const *)value), &bytes, &(struct err){ 0 }) == 0 && bytes >= DISK_SIZE_MIN ?
		       NULL : "must be an amount such as 40Gi, and at least 256Mi";
}

static const char *check_disk_reserve(const void *value)
{
	uint64_t bytes;

	if (!(*(const char *const *)value)[0])
		return NULL; /* not set */
	return quantity_storage(str_of(*(const char *const *)value), &bytes, &(struct err){ 0 }) == 0 && bytes >= ROOM_RESERVE_MIN &&
			       bytes <= ROOM_RESERVE_MAX ?
		       NULL : "must be an amount such as 4Gi, and at least 64Mi";
}

static bool is_ceiling(const void *value, uint64_t least, uint64_t most)
{
	const char *text = *(const char *const *)value;
	uint64_t bytes;

	return !text[0] || (quantity_storage(str_of(text), &bytes, &(struct err){ 0 }) == 0 && bytes >= least && bytes <= most);
}

static const char *check_max_cpu(const void *value)
{
	const char *text = *(const char *const *)value;
	uint64_t milli;

	return !text[0] || (quantity_cpu(str_of(text), &milli, &(struct err){ 0 }) == 0 && milli <= RUNTIME_CEILINGS.cpu_milli) ?
		       NULL : "must be a number of processors such as 4 or 500m, and at most 1024";
}

static const char *check_max_memory(const void *value)
{
	return is_ceiling(value, MAX_MEMORY_LEAST, RUNTIME_CEILINGS.memory_bytes) ? NULL : "must be an amount such as 16Gi, and at least 16Mi";
}

static const char *check_max_disk(const void *value)
{
	return is_ceiling(value, MAX_DISK_LEAST, RUNTIME_CEILINGS.disk_bytes) ? NULL : "must be an amount such as 50Gi, and at least 1Mi";
}

static bool is_resolver(struct str text)
{
	struct str address = text, port = STR("53");
	char z[INET6_ADDRSTRLEN];
	unsigned char bytes[16];
	uint64_t n;

	if (text.n > 0 && text.p[0] == '[') {
		if (!str_cut(str_skip(text, 1), ']', &address, &port) || (port.n > 0 && port.p[0] != ':'))
			return false;
		port = port.n > 0 ? str_skip(port, 1) : STR("53");
	} else if (memchr(text.p, '.', text.n) && !str_cut(text, ':', &address, &port))
		port = STR("53");
	if (address.n >= sizeof(z) || !str_to_u64(port, 1, 65535, &n))
		return false;
	memcpy(z, address.p, address.n);
	z[address.n] = '\0';
	return inet_pton(AF_INET, z, bytes) == 1 || inet_pton(AF_INET6, z, bytes) == 1;
}

static const char *check_upstreams(const void *value)
{
	const struct string_list *list = value;

	for (size_t i = 0; i < list->n; i++)
		if (!is_resolver(str_of(list->items[i])))
			return "must be a list of addresses, each with an optional port: 192.0.2.53, 192.0.2.53:5353, [2001:db8::53]:53";
	return NULL;
}

static const char *check_webhook(const void *value)
{
	struct str url = str_of(*(const char *const *)value);

	return url.n == 0 || str_starts(url, STR("http://")) || str_starts(url, STR("https://")) ? NULL : "must be a URL of http or https";
}

static const char *check_level(const void *value)
{
	enum log_level level;

	return log_level_parse(str_of(*(const char *const *)value), &level) ?
		       NULL : "must be debug, info, warning, error or critical";
}

/* What a client cannot send in a header would lock everybody out. */
static const char *check_api_key(const void *value)
{
	struct str key = str_of(*(const char *const *)value);

	if (str_trim(key).n == 0)
		return NULL; /* blank: no key */
	for (size_t i = 0; i < key.n; i++)
		if (key.p[i] < 0x21 || key.p[i] > 0x7e)
			return "must be visible ASCII characters without blanks";
	return NULL;
}

static const char *check_key_id(const void *value)
{
	const char *id = *(const char *const *)value;

	return (id[0] >= '0' && id[0] <= '9') || (id[0] >= 'a' && id[0] <= 'z') ? NULL : "must be one of 0-9 and a-z";
}

static const char *check_gateway_socket(const void *value)
{
	const char *path = *(const char *const *)value;

	return path[0] == '\0' || path[0] == '/' ? NULL : "must be an absolute path, or empty";
}

static const char *check_host_ports(const void *value)
{
	const char *text = *(const char *const *)value;
	unsigned first, last;

	return !text[0] || port_range_parse(str_of(text), &first, &last) ? NULL : "must be FIRST-LAST, of 1024 to 65535";
}

static const struct field server_fields[] = {
	SERVER(host, FIELD_STRING, .min = 1, .max = 253, .help = "address or name to listen on"),
	SERVER(port, FIELD_INT, .min = 1, .max = 65535, .help = "port of the API"),
	SERVER(proxy_port, FIELD_INT, .min = 1, .max = 65535,
	       .help = "port of the endpoint proxy; default: the API's port + 1"),
	SERVER(api_key, FIELD_STRING, .max = 1024, .secret = true, .check = check_api_key,
	       .help = "API key: clients send it as OPEN-SANDBOX-API-KEY; at least 22 characters"),
	SERVER(unsafe_no_auth, FIELD_BOOL, .help = "allow to run without a key, on a loopback address only"),
	SERVER(unsafe_weak_key, FIELD_BOOL, .help = "allow a key of less than 22 characters beyond loopback addresses"),
	SERVER(tls_cert, FIELD_STRING, PATH_LEN, .help = "PEM file with the certificate chain; with tls_key: serve https"),
	SERVER(tls_key, FIELD_STRING, PATH_LEN, .help = "PEM file with the private key of tls_cert"),
	SERVER(eip, FIELD_STRING, .max = 253, .help = "host name in the endpoints that clients get"),
	SERVER(max_sandbox_timeout_seconds, FIELD_INT, .min = 60, .max = 3650 * DAY,
	       .help = "maximum timeout of a create; default: none"),
	SERVER(timeout_keep_alive, FIELD_INT, .min = 1, .max = DAY,
	       .help = "keep-alive timeout in seconds; clients pool for up to 90"),
	SERVER(limit_concurrency, FIELD_INT, .min = 0, .max = 1000000,
	       .help = "maximum of requests in progress, then 503; 0: no separate limit"),
	SERVER(backlog, FIELD_INT, .min = 1, .max = 65535, .help = "backlog of the listening socket"),
	SERVER(thread_pool_size, FIELD_INT, .min = 1, .max = 65535, .help = "known, without effect here"),
	SERVER(loop, FIELD_ENUM, .names = loops, .help = "known, without effect here"),
	SERVER(http, FIELD_ENUM, .names = https, .help = "known, without effect here"),
	{ 0 },
};

static const struct field log_fields[] = {
	LOG(level, FIELD_STRING, .min = 3, .max = 16, .check = check_level,
	    .help = "DEBUG, INFO, WARNING or ERROR"),
	LOG(format, FIELD_ENUM, .names = log_formats, .help = "text or json, one event per line"),
	LOG(file_enabled, FIELD_BOOL, .help = "log to a file instead of standard error"),
	LOG(file_path, FIELD_STRING, .min = 1, PATH_LEN, .help = "with file_enabled: the log"),
	LOG(access_file_path, FIELD_STRING, .min = 1, PATH_LEN,
	    .help = "known; requests are in the log with everything else"),
	LOG(file_max_bytes, FIELD_INT, .min = 0, .max = INT64_MAX, .help = "size at which a file is rotated; 0: never"),
	LOG(file_backup_count, FIELD_INT, .min = 0, .max = 1000, .help = "rotated files that are kept"),
	{ 0 },
};

static const struct field limits_fields[] = {
	LIMIT(connections, .min = 1, .max = 1000000,
	      .help = "maximum of open connections, or what the descriptor limit leaves; more get 503"),
	LIMIT(connections_per_address, .min = 1, .max = 1000000, .help = "connections of one client address"),
	LIMIT(streams, .min = 1, .max = 1000000,
	      .help = "maximum of event streams and WebSockets; more get 503"),
	LIMIT(requests_per_key, .min = 1, .max = 1000000,
	      .help = "maximum of requests in progress of one key; more get 429"),
	LIMIT(head_seconds, .min = 1, .max = 3600, .help = "timeout of a request's head"),
	LIMIT(body_idle_seconds, .min = 1, .max = 3600, .help = "maximum pause within a request's body"),
	LIMIT(reader_seconds, .min = 1, .max = 3600,
	      .help = "maximum time without progress of a reading peer"),
	LIMIT(silent_seconds, .min = 1, .max = 7 * DAY, .help = "maximum pause within a response"),
	LIMIT(drain_seconds, .min = 1, .max = 10, .help = "time for requests in progress at shutdown"),
	{ 0 },
};

static const struct field runtime_fields[] = {
	FIELD(struct config_runtime, type, FIELD_ENUM, "type", .names = runtimes,
	      .help = "runtime: native, docker or kubernetes"),
	FIELD(struct config_runtime, execd_image, FIELD_STRING, "execd_image", .max = 512,
	      .help = "docker and kubernetes: the image that holds execd"),
	{ 0 },
};

static const char *check_range(const void *value)
{
	const char *text = *(const char *const *)value;
	struct route_net net;

	return !text[0] || (route_net_parse(text, &net, &(struct err){ 0 }) == 0 && net.prefix >= 8 && net.prefix <= NETWORK_RANGE_BITS) ?
		       NULL : "must be a network such as 10.20.0.0/16, of 8 to 17 bits";
}

static const struct field native_fields[] = {
	FIELD(struct config_native, state_dir, FIELD_STRING, "state_dir", .min = 1, PATH_LEN, .check = check_absolute,
	      .help = "persistent data: records, images, disks"),
	FIELD(struct config_native, run_dir, FIELD_STRING, "run_dir", .min = 1, PATH_LEN, .check = check_absolute,
	      .help = "data until a reboot: sockets and mounts"),
	FIELD(struct config_native, default_image, FIELD_STRING, "default_image", .min = 1, .max = 512,
	      .help =
		      "image that is used for 'default': host (this machine's own files, read-only) or one of native.images"),
	FIELD(struct config_native, user, FIELD_STRING, "user", .min = 1, .max = 32,
	      .help = "account that the server runs as; if it does not exist, an unused id"),
	FIELD(struct config_native, prefix, FIELD_STRING, "prefix", .min = 1, .max = 10, .check = check_prefix,
	      .help = "prefix of names in the kernel; must differ between servers on one machine"),
	FIELD(struct config_native, slots, FIELD_INT, "slots", .min = 0, .max = 256,
	      .help = "slots kept ready for the next creates"),
	FIELD(struct config_native, execd, FIELD_STRING, "execd", .min = 1, PATH_LEN, .check = check_absolute,
	      .help = "program that becomes PID 1 of each sandbox; default: the one beside this program"),
	FIELD(struct config_native, disk_size, FIELD_STRING, "disk_size", .max = 32, .check = check_disk_size,
	      .help =
		      "disk space of all sandboxes together; it can grow later; default: 80 % of the free space at first"),
	FIELD(struct config_native, disk_reserve, FIELD_STRING, "disk_reserve", .max = 32, .check = check_disk_reserve,
	      .help =
		      "reserve on the disk of state_dir: below it creates, pulls and uploads of images get 507; default: 5 %, at most 4Gi"),
	FIELD(struct config_native, max_cpu, FIELD_STRING, "max_cpu", .max = 32, .check = check_max_cpu,
	      .help = "maximum CPU limit of one sandbox, as 4 or 500m; default: 1024"),
	FIELD(struct config_native, max_memory, FIELD_STRING, "max_memory", .max = 32, .check = check_max_memory,
	      .help = "maximum memory limit of one sandbox, as 16Gi; default: none"),
	FIELD(struct config_native, max_disk, FIELD_STRING, "max_disk", .max = 32, .check = check_max_disk,
	      .help = "maximum disk limit of one sandbox and size of one named volume, as 50Gi; default: none"),
	FIELD(struct config_native, unsafe_no_disk_limit, FIELD_BOOL, "unsafe_no_disk_limit",
	      .help = "allow a host without btrfs, where every sandbox can fill the disk"),
	FIELD(struct config_native, network, FIELD_ENUM, "network", .names = networks,
	      .help =
		      "network of sandboxes without a network policy: default (the Internet, but no private addresses) or none"),
	FIELD(struct config_native, network_range, FIELD_STRING, "network_range", .max = 32, .check = check_range,
	      .help = "address range of sandboxes, as 10.20.0.0/16; default: an unused part of 10.0.0.0/8"),
	FIELD(struct config_native, images, FIELD_MAP, "images", .min = 0, .max = CONFIG_IMAGES_MAX,
	      .help = "further images, name = \"path\" of a root directory or of a tar of one (plain, gzip, zstd, xz)"),
	{ 0 },
};

static const char *check_registry(const void *value)
{
	const char *host = *(const char *const *)value;

	return !host[0] || registry_valid(str_of(host)) ? NULL : "must be a host with an optional port, without a scheme";
}

/* "http://user:password@host:port", without anything behind it. */
static const char *check_proxy(const void *value)
{
	struct str rest = str_of(*(const char *const *)value), user;
	const char *why = "must be http:// or https://, a host and an optional port; a user and a password may stand before the host";

	if (rest.n == 0)
		return NULL;
	if (!str_starts(rest, STR("http://")) && !str_starts(rest, STR("https://")))
		return why;
	rest = str_skip(rest, str_starts(rest, STR("http://")) ? 7 : 8);
	if (str_ends(rest, STR("/")))
		rest.n--;
	for (size_t i = 0; i < rest.n; i++)
		if ((unsigned char)rest.p[i] <= 0x20 || rest.p[i] == 0x7f)
			return why;
	(void)(memchr(rest.p, '@', rest.n) && str_cut(rest, '@', &user, &rest));
	return registry_valid(rest) ? NULL : why;
}

static const char *check_no_proxy(const void *value)
{
	struct str host = str_of(*(const char *const *)value);

	if (str_is(host, "*"))
		return NULL;
	host = str_skip(host, str_starts(host, STR("*.")) ? 2 : str_starts(host, STR(".")));
	return registry_valid(host) ? NULL : "must be hosts, '.domain' for all below it, or '*'";
}

#define REGISTRY(member, ...) FIELD(struct config_registry, member, FIELD_STRING, #member, __VA_ARGS__)
static const struct field registry_fields[] = {
	REGISTRY(host, .required = true, .min = 1, .max = REFERENCE_REGISTRY_MAX, .check = check_registry,
		 .help = "as in the names of images: docker.io, ghcr.io, registry.example:5000"),
	REGISTRY(mirror, .max = REFERENCE_REGISTRY_MAX, .check = check_registry,
		 .help = "mirror: a host with the same images, tried first where no credentials are needed"),
	REGISTRY(auth_host, .max = REFERENCE_REGISTRY_MAX, .check = check_registry,
		 .help = "host of another domain that may get credentials in exchange for tokens"),
	REGISTRY(ca_file, PATH_LEN, .help = "PEM file with the certificates to trust; images.user must be able to read it"),
	FIELD(struct config_registry, insecure, FIELD_BOOL, "insecure", .help = "allow any certificate, and http where there is no https"),
	FIELD(struct config_registry, is_private, FIELD_BOOL, "private",
	      .help = "allow it, and its redirects, on private addresses and on this host"),
	{ 0 },
};

static const struct field images_fields[] = {
	FIELD(struct config_images, user, FIELD_STRING, "user", .min = 1, .max = 32,
	      .help = "native: account that opensandbox-fetch runs as; if it does not exist, an unused id"),
	FIELD(struct config_images, pull_seconds, FIELD_INT, "pull_seconds", .min = 1, .max = FETCH_SECONDS_MAX,
	      .help = "timeout of one pull"),
	FIELD(struct config_images, stall_seconds, FIELD_INT, "stall_seconds", .min = 1, .max = FETCH_STALL_SECONDS_MAX,
	      .help = "a registry that sends less than 1 KiB/s for this long is given up"),
	FIELD(struct config_images, keep_blobs, FIELD_BOOL, "keep_blobs",
	      .help = "keep downloaded layers after unpacking: 'image save' needs them"),
	FIELD(struct config_images, proxy, FIELD_STRING, "proxy", .max = FETCH_PROXY_MAX, .secret = true, .check = check_proxy,
	      .help = "registries are asked by this proxy, \"http://host:port\"; what it leads to is its own business. The environment says nothing"),
	FIELD(struct config_images, no_proxy, FIELD_STRINGS, "no_proxy", .min = 0, .max = FETCH_NO_PROXY_MAX, .check_item = check_no_proxy,
	      .help =
		      "hosts that are reached without the proxy: \"registry.example\", \".example\" for all below"),
	FIELD(struct config_images, registries, FIELD_OBJECTS, "registries", .fields = registry_fields,
	      .size = sizeof(struct config_registry), .min = 0, .max = CONFIG_REGISTRIES_MAX,
	      .help = "settings of one registry; registries without an entry are public, with https"),
	{ 0 },
};

static const struct field docker_fields[] = {
	DOCKER(network_mode, FIELD_STRING, .min = 1, .max = 256, .help = "bridge, host, or the name of a network"),
	DOCKER(api_timeout, FIELD_INT, .min = 1, .max = DAY, .help = "seconds for one call to the engine"),
	DOCKER(host_ip, FIELD_STRING, .max = 253, .help = "address of the host when the server runs in a container"),
	DOCKER(drop_capabilities, FIELD_STRINGS, .max = 64, .help = "capabilities that containers do without"),
	DOCKER(apparmor_profile, FIELD_STRING, .max = 256, .help = "AppArmor profile of containers"),
	DOCKER(no_new_privileges, FIELD_BOOL, .help = "set-uid programs gain nothing"),
	DOCKER(seccomp_profile, FIELD_STRING, PATH_LEN, .help = "name or file of the system call filter"),
	DOCKER(unsafe_weaker_isolation, FIELD_BOOL,
	       .help = "allow values of this section that disable isolation between sandboxes and host"),
	DOCKER(pids_limit, FIELD_INT, .min = 1, .max = 4194304, .help = "processes in one container"),
	{ 0 },
};

static const struct field storage_fields[] = {
	FIELD(struct config_storage, allowed_host_paths, FIELD_STRINGS, "allowed_host_paths", .max = CONFIG_HOST_PATHS_MAX,
	      .check = check_absolute_list,
		      .help =
			      "host folders that sandboxes may mount as volumes, with everything below; empty: none"),
	FIELD(struct config_storage, volume_default_size, FIELD_STRING, "volume_default_size", .min = 1, .max = 32,
	      .check = check_size, .help = "size of a named volume whose request has none; never more than native.max_disk"),
	FIELD(struct config_storage, ossfs_mount_root, FIELD_STRING, "ossfs_mount_root", .min = 1, PATH_LEN,
	      .check = check_absolute, .help = "where object storage is mounted on the host"),
	{ 0 },
};

static const struct field store_fields[] = {
	FIELD(struct config_store, type, FIELD_ENUM, "type", .names = stores, .help = "always sqlite"),
	FIELD(struct config_store, path, FIELD_STRING, "path", .min = 1, PATH_LEN,
	      .help = "file of the database; missing parent folders are created"),
	{ 0 },
};

static const char *check_nets(const void *value)
{
	const struct string_list *list = value;
	struct route_net net;

	for (size_t i = 0; i < list->n; i++)
		if (route_net_parse(list->items[i], &net, &(struct err){ 0 }) < 0)
			return "must be a list of networks such as 10.1.0.0/16";
	return NULL;
}

static const struct field egress_fields[] = {
	FIELD(struct config_egress, image, FIELD_STRING, "image", .max = 512,
	      .help = "docker and kubernetes: the image of the egress sidecar"),
	FIELD(struct config_egress, mode, FIELD_ENUM, "mode", .names = egress_modes,
	      .help = "docker and kubernetes: dns or dns+nft; native always checks names and packets, which is dns+nft"),
	FIELD(struct config_egress, disable_ipv6, FIELD_BOOL, "disable_ipv6",
	      .help = "sandboxes with a policy get no IPv6; those of native never do"),
	FIELD(struct config_egress, user, FIELD_STRING, "user", .min = 1, .max = 32,
	      .help = "native: account that opensandbox-egress runs as; if it does not exist, an unused id"),
	FIELD(struct config_egress, upstreams, FIELD_STRINGS, "upstreams", .max = CONFIG_UPSTREAMS_MAX, .check = check_upstreams,
	      .help =
		      "native: upstream resolvers, address or address:port; empty: those of /etc/resolv.conf"),
	FIELD(struct config_egress, rules_dir, FIELD_STRING, "rules_dir", .min = 1, PATH_LEN, .check = check_absolute,
	      .help =
		      "native: folder of operator rules for every sandbox: deny.always, allow.always, doh.always and log_skip.always"),
	FIELD(struct config_egress, deny_webhook, FIELD_STRING, "deny_webhook", .max = 2048, .check = check_webhook,
	      .help = "native: URL to which denied names are posted"),
	FIELD(struct config_egress, max_rules, FIELD_INT, "max_rules", .min = 1, .max = 4096,
	      .help = "maximum number of rules of one policy"),
	FIELD(struct config_egress, allow_private, FIELD_STRINGS, "allow_private", .max = CONFIG_PRIVATE_MAX, .check = check_nets,
	      .help = "native: private networks that policies may allow; empty: none"),
	{ 0 },
};

static const struct field secure_runtime_fields[] = {
	FIELD(struct config_secure_runtime, type, FIELD_ENUM, "type", .names = secure_types,
	      .help = "empty, gvisor, kata or firecracker (kubernetes only)"),
	FIELD(struct config_secure_runtime, docker_runtime, FIELD_STRING, "docker_runtime", .max = 256,
	      .help = "name of the OCI runtime: runsc, kata-runtime"),
	FIELD(struct config_secure_runtime, k8s_runtime_class, FIELD_STRING, "k8s_runtime_class", .max = 253,
	      .help = "name of the RuntimeClass: gvisor, kata-qemu, kata-fc"),
	{ 0 },
};

static const struct field route_fields[] = {
	FIELD(struct config_route, mode, FIELD_ENUM, "mode", .names = route_modes, .required = true,
	      .help = "wildcard, header or uri"),
	{ 0 },
};

static const struct field gateway_fields[] = {
	FIELD(struct config_gateway, address, FIELD_STRING, "address", .required = true, .min = 1, .max = 253,
	      .help = "host of the gateway, without a scheme; *.domain with wildcard routes"),
	FIELD(struct config_gateway, route, FIELD_OBJECT, "route", .required = true, .fields = route_fields,
	      .help = "route mode of the gateway"),
	{ 0 },
};

static const struct field access_key_fields[] = {
	FIELD(struct config_access_key, key_id, FIELD_STRING, "key_id", .required = true, .min = 1, .max = 1,
	      .check = check_key_id, .help = "one of 0-9 and a-z"),
	FIELD(struct config_access_key, key, FIELD_STRING, "key", .required = true, .min = 1, .max = 4096, .secret = true,
	      .help = "base64"),
	{ 0 },
};

static const struct field secure_access_fields[] = {
	FIELD(struct config_secure_access, active_key, FIELD_STRING, "active_key", .required = true, .min = 1, .max = 1,
	      .check = check_key_id, .help = "key_id of the key that new routes are signed with"),
	FIELD(struct config_secure_access, keys, FIELD_OBJECTS, "keys", .required = true, .min = 1, .max = 36,
	      .fields = access_key_fields, .size = sizeof(struct config_access_key), .help = "keys for signed routes"),
	FIELD(struct config_secure_access, max_ttl_seconds, FIELD_INT, "max_ttl_seconds", .min = 1, .max = 3650 * DAY,
	      .help = "longest time that a signed route may be good for"),
	{ 0 },
};

static const struct field ingress_fields[] = {
	FIELD(struct config_ingress, mode, FIELD_ENUM, "mode", .names = ingress_modes, .help = "direct or gateway"),
	FIELD(struct config_ingress, host_ports, FIELD_STRING, "host_ports", .max = 16, .check = check_host_ports,
	      .help = "FIRST-LAST: host ports that creates may publish for ports of sandboxes; empty: none"),
	FIELD(struct config_ingress, gateway_socket, FIELD_STRING, "gateway_socket", .max = 107,
	      .check = check_gateway_socket,
	      .help =
		      "path of a socket from which gateways on this host, with the API key, get connections into sandboxes; empty: none"),
	FIELD(struct config_ingress, gateway, FIELD_OBJECT, "gateway", .fields = gateway_fields,
	      .has = HAS(struct config_ingress, has_gateway), .help = "with mode = \"gateway\" only"),
	FIELD(struct config_ingress, secure_access, FIELD_OBJECT, "secure_access", .fields = secure_access_fields,
	      .has = HAS(struct config_ingress, has_secure_access),
		      .help = "signed routes, with a gateway or with the endpoint proxy"),
	{ 0 },
};

static const struct field redis_fields[] = {
	FIELD(struct config_redis, enabled, FIELD_BOOL, "enabled", .help = "take renewals from a queue"),
	FIELD(struct config_redis, dsn, FIELD_STRING, "dsn", .max = 2048, .secret = true, .help = "redis://..."),
	FIELD(struct config_redis, queue_key, FIELD_STRING, "queue_key", .min = 1, .max = 512, .help = "name of the queue"),
	FIELD(struct config_redis, consumer_concurrency, FIELD_INT, "consumer_concurrency", .min = 1, .max = 1024,
	      .help = "renewals at a time"),
	{ 0 },
};

static const struct field renew_intent_fields[] = {
	FIELD(struct config_renew_intent, enabled, FIELD_BOOL, "enabled",
	      .help = "traffic renews a sandbox that asked for it"),
	FIELD(struct config_renew_intent, min_interval_seconds, FIELD_INT, "min_interval_seconds", .min = 1, .max = DAY,
	      .help = "shortest time between two renewals of one sandbox"),
	FIELD(struct config_renew_intent, redis, FIELD_OBJECT, "redis", .fields = redis_fields,
	      .help = "renewals that a gateway has seen"),
	{ 0 },
};

static const struct field resources_fields[] = {
	FIELD(struct config_resources, limits, FIELD_MAP, "limits", .max = 16, .help = "cpu, memory, ..."),
	FIELD(struct config_resources, requests, FIELD_MAP, "requests", .max = 16, .help = "cpu, memory, ..."),
	{ 0 },
};

static const struct field kubernetes_fields[] = {
	KUBE(kubeconfig_path, FIELD_STRING, PATH_LEN, .help = "default: the cluster that the server runs in"),
	KUBE(namespace, FIELD_STRING, .max = 253, .help = "namespace of sandboxes"),
	KUBE(service_account, FIELD_STRING, .max = 253, .help = "service account of sandboxes"),
	KUBE(workload_provider, FIELD_ENUM, .names = providers, .help = "batchsandbox or agent-sandbox"),
	KUBE(batchsandbox_template_file, FIELD_STRING, PATH_LEN, .help = "YAML that sandboxes start from"),
	KUBE(image_pull_policy, FIELD_STRING, .min = 1, .max = 32, .help = "Always, IfNotPresent or Never"),
	KUBE(sandbox_create_timeout_seconds, FIELD_INT, .min = 1, .max = DAY, .help = "time for a sandbox to be ready"),
	KUBE(sandbox_create_poll_interval_seconds, FIELD_REAL, .real_min = 0.01, .real_max = 3600,
	     .help = "pause between two looks at it"),
	KUBE(snapshot_create_timeout_seconds, FIELD_INT, .min = 1, .max = DAY, .help = "time for a snapshot to be ready"),
	KUBE(informer_enabled, FIELD_BOOL, .help = "watch instead of asking again"),
	KUBE(informer_resync_seconds, FIELD_INT, .min = 1, .max = DAY, .help = "time between two complete lists"),
	KUBE(informer_watch_timeout_seconds, FIELD_INT, .min = 1, .max = DAY, .help = "length of one watch"),
	KUBE(read_qps, FIELD_REAL, .real_min = 0, .real_max = 1e6, .help = "reads per second; 0: not limited"),
	KUBE(read_burst, FIELD_INT, .min = 0, .max = 1000000, .help = "reads at once; 0: as read_qps"),
	KUBE(write_qps, FIELD_REAL, .real_min = 0, .real_max = 1e6, .help = "writes per second; 0: not limited"),
	KUBE(write_burst, FIELD_INT, .min = 0, .max = 1000000, .help = "writes at once; 0: as write_qps"),
	KUBE(execd_init_resources, FIELD_OBJECT, .fields = resources_fields,
	     .help = "resources of the container that brings execd"),
	{ 0 },
};

static const struct field agent_sandbox_fields[] = {
	FIELD(struct config_agent_sandbox, template_file, FIELD_STRING, "template_file", PATH_LEN,
	      .help = "YAML that sandboxes start from"),
	FIELD(struct config_agent_sandbox, shutdown_policy, FIELD_ENUM, "shutdown_policy", .names = shutdown_policies,
	      .help = "Delete or Retain"),
	FIELD(struct config_agent_sandbox, ingress_enabled, FIELD_BOOL, "ingress_enabled",
	      .help = "sandboxes get a service"),
	{ 0 },
};

#define SECTION(name, ...) \
	FIELD(struct config, name, FIELD_OBJECT, #name, .fields = name##_fields, __VA_ARGS__)

const struct field config_fields[] = {
	SECTION(server, .help = "the API"),
	SECTION(log, .help = "what the server says"),
	SECTION(limits, .help = "ceilings that protect the server from its clients"),
	SECTION(runtime, .help = "what sandboxes run on"),
	SECTION(native, .help = "the embedded runtime"),
	SECTION(images, .help = "images from registries"),
	SECTION(docker, .help = "with runtime.type = \"docker\""),
	SECTION(storage, .help = "volumes"),
	SECTION(store, .help = "the database"),
	SECTION(egress, .help = "what sandboxes may reach"),
	SECTION(secure_runtime, .help = "a second wall around docker and kubernetes sandboxes"),
	SECTION(ingress, .help = "how clients reach the ports of sandboxes"),
	SECTION(renew_intent, .help = "renewal by use"),
	SECTION(kubernetes, .has = HAS(struct config, has_kubernetes), .help = "with runtime.type = \"kubernetes\" only"),
	SECTION(agent_sandbox, .has = HAS(struct config, has_agent_sandbox),
		.help = "with kubernetes.workload_provider = \"agent-sandbox\" only"),
	{ 0 },
};
