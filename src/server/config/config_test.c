// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "server/config/config.h"

#include "base/banned.h"

struct fixture {
	char folder[64];
	char path[128];
	struct arena arena;
	struct buf problems;
	struct config c;
	struct err e;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	(void)snprintf(f->folder, sizeof(f->folder), "/tmp/config_test.XXXXXX");
	if (!mkdtemp(f->folder)) {
		free(f);
		return -1;
	}
	(void)snprintf(f->path, sizeof(f->path), "%s/c.toml", f->folder);
	f->arena = ARENA_INIT(CONFIG_ARENA_MAX);
	f->problems = BUF_INIT(65536);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char home[160];

	(void)unlink(f->path);
	(void)snprintf(home, sizeof(home), "%s/.sandbox.toml", f->folder);
	(void)unlink(home);
	(void)rmdir(f->folder);
	arena_done(&f->arena);
	buf_done(&f->problems);
	free(f);
	return 0;
}

static void put_file(const char *path, const char *text)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static int load_with(struct fixture *f, const char *text, const char *const *env, const struct config_flag *flags)
{
	struct config_sources s = { .path = text ? f->path : NULL, .env = env, .flags = flags };

	if (text)
		put_file(f->path, text);
	buf_clear(&f->problems);
	f->e = (struct err){ 0 };
	return config_load(&s, &f->arena, &f->c, &f->problems, &f->e);
}

static int load(struct fixture *f, const char *text)
{
	static const char *const env[] = { "HOME=/h", NULL };

	return load_with(f, text, env, NULL);
}

static void without_any_source_every_key_has_its_default(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, NULL), 0);
	assert_string_equal(f->c.server.host, "127.0.0.1");
	assert_int_equal(f->c.server.port, 8080);
	assert_int_equal(f->c.server.proxy_port, 8081);
	assert_int_equal(f->c.server.timeout_keep_alive, 120);
	assert_null(f->c.server.api_key);
	assert_int_equal(f->c.runtime.type, RUNTIME_NATIVE);
	assert_string_equal(f->c.native.state_dir, "/var/lib/opensandbox");
	assert_string_equal(f->c.native.run_dir, "/run/opensandbox");
	assert_string_equal(f->c.native.default_image, "host");
	assert_null(f->c.native.disk_size);
	assert_false(f->c.native.unsafe_no_disk_limit);
	assert_int_equal(f->c.limits.connections, 20000);
	assert_int_equal(f->c.docker.drop_capabilities.n, 9);
	assert_int_equal(f->c.kubernetes.snapshot_create_timeout_seconds, 900);
	assert_false(f->c.has_kubernetes);
}

static void a_file_with_every_section_loads(void **state)
{
	struct fixture *f = *state;
	static const char text[] =
		"[server]\nhost = \"0.0.0.0\"\nport = 9000\napi_key = \"k\"\neip = \"\"\nmax_sandbox_timeout_seconds = 86400\n"
		"timeout_keep_alive = 30\nlimit_concurrency = 1024\nbacklog = 2048\nthread_pool_size = 200\nloop = \"uvloop\"\n"
		"http = \"h11\"\n"
		"[log]\nlevel = \"warning\"\nformat = \"json\"\n"
		"[runtime]\ntype = \"kubernetes\"\nexecd_image = \"execd:1\"\n"
		"[docker]\nnetwork_mode = \"net\"\ndrop_capabilities = [\"A\", \"B\"]\n"
		"[storage]\nallowed_host_paths = [\"/data\"]\n"
		"[store]\ntype = \"sqlite\"\npath = \"/x.db\"\n"
		"[egress]\nmode = \"dns+nft\"\n"
		"[secure_runtime]\ntype = \"kata\"\ndocker_runtime = \"k\"\n"
		"[ingress]\nmode = \"gateway\"\n[ingress.gateway]\naddress = \"*.example.com\"\nroute.mode = \"wildcard\"\n"
		"[ingress.secure_access]\nactive_key = \"b\"\n"
		"[[ingress.secure_access.keys]]\nkey_id = \"a\"\nkey = \"c2VjcmV0\"\n"
		"[[ingress.secure_access.keys]]\nkey_id = \"b\"\nkey = \"c2VjcmV0MQ\"\n"
		"[renew_intent]\nenabled = true\nredis = { enabled = true, dsn = \"redis://x\" }\n"
		"[kubernetes]\nnamespace = \"ns\"\nread_qps = 1.5\nsandbox_create_poll_interval_seconds = 2\n"
		"[kubernetes.execd_init_resources]\nlimits = { cpu = \"1\" }\n"
		"[agent_sandbox]\nshutdown_policy = \"Retain\"\n";

	if (load(f, text) < 0)
		fail_msg("%s", buf_z(&f->problems));
	assert_int_equal(f->c.server.port, 9000);
	assert_int_equal(f->c.server.proxy_port, 9001);
	assert_null(f->c.server.eip);
	assert_int_equal(f->c.docker.drop_capabilities.n, 2);
	assert_string_equal(f->c.secure_runtime.k8s_runtime_class, "kata-qemu");
	assert_int_equal(f->c.ingress.secure_access.keys.n, 2);
	assert_true(f->c.has_kubernetes);
	assert_true(f->c.kubernetes.sandbox_create_poll_interval_seconds == 2.0);
	assert_string_equal(f->c.kubernetes.execd_init_resources.limits.items[0].value, "1");
	assert_int_equal(f->c.agent_sandbox.shutdown_policy, 1);
}

static void problems_name_file_line_and_key(void **state)
{
	static const struct {
		const char *text, *want; /* after the name of the file */
	} rows[] = {
		{ "\n[server]\nport = 0\n", ":3: server.port: input should be greater than or equal to 1" },
		{ "[server]\nport = 65536\n", ":2: server.port: input should be less than or equal to 65535" },
		{ "[server]\nport = \"80\"\n", ":2: server.port: input should be a valid integer" },
		{ "[server]\nprot = 80\n", ":2: server.prot: unknown key" },
		{ "[sever]\nport = 80\n", ":1: sever: unknown key" },
		{ "server = 3\n", ":1: server: input should be" },
		{ "[server]\nport = \n", ":2: expected a value" },
		{ "[server]\napi_key = \"a b\"\n", ":2: server.api_key: " },
		{ "[server]\nport = 65535\n", ":1: server.proxy_port: must be set" },
		{ "[server]\nport = 80\nproxy_port = 80\n", ":3: server.proxy_port: must not be server.port" },
		{ "[server]\ntls_cert = \"/c\"\n", ":2: server.tls_cert: needs server.tls_key" },
		{ "[server]\ntls_key = \"/c\"\n", ":2: server.tls_key: needs server.tls_cert" },
		{ "[log]\nlevel = \"loud\"\n", ":2: log.level: " },
		{ "[runtime]\ntype = \"vm\"\n", ":2: runtime.type: input should be 'native', 'docker' or 'kubernetes'" },
		{ "[runtime]\ntype = \"docker\"\n", ":1: runtime.execd_image: is required with runtime.type 'docker'" },
		{ "[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n[kubernetes]\n", ":4: kubernetes: not allowed" },
		{ "[agent_sandbox]\n", ":1: agent_sandbox: not allowed with runtime.type 'native'" },
		{ "[native]\nstate_dir = \"x\"\n", ":2: native.state_dir: value error, must be an absolute path" },
		{ "[native.images]\nHost = \"/x\"\n", ":1: native.images: 'Host' must be small letters" },
		{ "[native.images]\nhost = \"/x\"\n", ":1: native.images: 'host' is taken" },
		{ "[native.images]\ndefault = \"/x\"\n", ":1: native.images: 'default' is taken" },
		{ "[native.images]\n\"host:1\" = \"/x\"\n", ":1: native.images: 'host:1' is taken" },
		{ "[native.images]\na = \"x\"\n", ":1: native.images: 'a' needs an absolute path" },
		{ "[native.images]\na = 3\n", ":2: native.images.a: " },
		{ "[native]\ndefault_image = \"a\"\n[native.images]\nb = \"/x\"\n", ":2: native.default_image: 'a' is neither" },
		{ "[native]\ndisk_size = \"much\"\n", ":2: native.disk_size: value error, must be an amount such as 40Gi" },
		{ "[native]\nmax_cpu = \"2000\"\n", ":2: native.max_cpu: value error, must be a number of processors" },
		{ "[native]\nmax_memory = \"15Mi\"\n", ":2: native.max_memory: value error, must be an amount such as 16Gi" },
		{ "[native]\nmax_disk = \"much\"\n", ":2: native.max_disk: value error, must be an amount such as 50Gi" },
		{ "[native]\ndisk_reserve = \"63Mi\"\n", ":2: native.disk_reserve: value error, must be an amount such as 4Gi" },
		{ "[native]\ndisk_size = \"255Mi\"\n", ":2: native.disk_size: value error, must be an amount such as 40Gi" },
		{ "[native]\nunsafe_no_disk_limit = 1\n", ":2: native.unsafe_no_disk_limit: " },
		{ "[storage]\nallowed_host_paths = [\"x\"]\n", ":2: storage.allowed_host_paths: " },
		{ "[storage]\nvolume_default_size = \"big\"\n", ":2: storage.volume_default_size: " },
		{ "[secure_runtime]\ndocker_runtime = \"x\"\n", ":2: secure_runtime.docker_runtime: needs secure_runtime.type" },
		{ "[secure_runtime]\nk8s_runtime_class = \"x\"\n", ":2: secure_runtime.k8s_runtime_class: needs" },
		{ "[secure_runtime]\ntype = \"gvisor\"\ndocker_runtime = \"x\"\n", ":2: secure_runtime.type: needs runtime.type" },
		{ "[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n[secure_runtime]\ntype = \"firecracker\"\n",
		  ":5: secure_runtime.type: 'firecracker' needs" },
		{ "[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n[secure_runtime]\ntype = \"kata\"\n",
		  ":5: secure_runtime.type: needs docker_runtime or k8s_runtime_class" },
		{ "[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n[ingress]\nmode = \"gateway\"\n",
		  ":5: ingress.mode: 'gateway' is not allowed" },
		{ "[ingress]\nmode = \"gateway\"\n", ":1: ingress.gateway: is required" },
		{ "[ingress.gateway]\naddress = \"x\"\nroute.mode = \"uri\"\n", ":1: ingress.gateway: needs ingress.mode" },
		{ "[ingress.gateway]\naddress = \"x\"\n", ":1: ingress.gateway.route: " },
		{ "[ingress]\nmode=\"gateway\"\ngateway = { address = \"http://x\", route = { mode = \"uri\" } }\n",
		  ":3: ingress.gateway.address: must not have a scheme" },
		{ "[ingress]\nmode=\"gateway\"\ngateway = { address = \"*.x\", route = { mode = \"uri\" } }\n",
		  ":3: ingress.gateway.address: '*' needs" },
		{ "[ingress]\nmode=\"gateway\"\ngateway = { address = \"x\", route = { mode = \"wildcard\" } }\n",
		  ":3: ingress.gateway.address: must be '*.domain'" },
		{ "[renew_intent.redis]\nenabled = true\n", ":1: renew_intent.redis.dsn: is required" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char want[512];

		(void)snprintf(want, sizeof(want), "%s%s", f->path, rows[i].want);
		if (load(f, rows[i].text) == 0)
			fail_msg("taken: %s", rows[i].text);
		if (strncmp(f->e.msg, want, strlen(want)) != 0)
			fail_msg("want '%s', got '%s'", want, f->e.msg);
		assert_int_equal(f->e.code, ERR_INVALID);
		assert_int_equal(strncmp(buf_z(&f->problems), f->e.msg, strlen(f->e.msg)), 0);
	}
}

#define SIGNED "[ingress]\nmode = \"gateway\"\ngateway = { address = \"x\", route = { mode = \"uri\" } }\n" \
	"[ingress.secure_access]\n"
#define KEY_A "[[ingress.secure_access.keys]]\nkey_id = \"a\"\nkey = \"c2VjcmV0\"\n"

static void images_keep_the_order_of_the_file(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf out = BUF_INIT(65536);

	assert_int_equal(load(f, "[native]\ndefault_image = \"b\"\n[native.images]\n\"z/y:V_1\" = \"/srv/z\"\nb = \"/srv/b.tar\"\n"), 0);
	assert_int_equal(f->c.native.images.n, 2);
	assert_string_equal(f->c.native.images.items[0].key, "z/y:V_1");
	assert_string_equal(f->c.native.images.items[1].value, "/srv/b.tar");
	assert_true(config_write(&f->c, &out));
	assert_non_null(strstr(buf_z(&out), "images = { \"z/y:V_1\" = \"/srv/z\", \"b\" = \"/srv/b.tar\" }\n"));
}

static void names_of_images_have_one_form(void **state)
{
	static const struct {
		const char *name;
		bool is_one;
	} cases[] = {
		{ "a", true },    { "0", true },     { "a.b_", true },  { "a._/-", true }, { "a./-", true }, { "python:3.12-slim", true },
		{ "a:A_", true }, { "", false },     { "-a", false },   { ".a", false },    { "/a", false },  { "A", false },
		{ "a:", false },  { "a:b:c", false }, { "a:.b", false }, { "a:-b", false },  { "a b", false }, { "a:b/c", false },
	};
	char name[140];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(config_image_name(str_of(cases[i].name)), cases[i].is_one);
	memset(name, 'n', sizeof(name));
	assert_true(config_image_name((struct str){ name, 128 }));
	assert_false(config_image_name((struct str){ name, 129 }));
}

static void keys_for_signed_routes_are_checked_together(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ SIGNED "active_key = \"z\"\n" KEY_A, ":5: ingress.secure_access.active_key: no key has the key_id 'z'" },
		{ SIGNED "active_key = \"a\"\n" KEY_A KEY_A, ":10: ingress.secure_access.keys[1].key_id: 'a' is there twice" },
		{ SIGNED "active_key = \"a\"\n[[ingress.secure_access.keys]]\nkey_id = \"a\"\nkey = \"!hush!\"\n",
		  ":8: ingress.secure_access.keys[0].key: must be base64" },
		{ SIGNED "active_key = \"A\"\n" KEY_A, ":5: ingress.secure_access.active_key: " },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(load(f, rows[i].text), -1);
		if (!strstr(f->e.msg, rows[i].want))
			fail_msg("want '%s', got '%s'", rows[i].want, f->e.msg);
		assert_null(strstr(buf_z(&f->problems), "hush"));
	}
}

#define REGISTRY_A "[[images.registries]]\nhost = \"a.test:5000\"\n"

static void registries_are_hosts_and_each_is_there_once(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ REGISTRY_A REGISTRY_A, ":4: images.registries[1].host: 'a.test:5000' is there twice" },
		{ "[[images.registries]]\nhost = \"https://a.test\"\n", ":2: images.registries[0].host: " },
		{ "[[images.registries]]\nmirror = \"a.test\"\n", "images.registries[0].host" },
		{ REGISTRY_A "mirror = \"a b\"\n", ":3: images.registries[0].mirror: " },
		{ REGISTRY_A "ca_file = \"x.pem\"\n", ":3: images.registries[0].ca_file: must be an absolute path" },
		{ "[images]\npull_seconds = 1801\n", ":2: images.pull_seconds: " },
		{ "[images]\nstall_seconds = 61\n", ":2: images.stall_seconds: " },
	};
	struct fixture *f = *state;
	const struct config_registry *r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(load(f, rows[i].text), -1);
		if (!strstr(f->e.msg, rows[i].want))
			fail_msg("want '%s', got '%s'", rows[i].want, f->e.msg);
	}
	assert_int_equal(load(f, REGISTRY_A "private = true\ninsecure = true\nmirror = \"b.test\"\n"), 0);
	r = f->c.images.registries.items;
	assert_int_equal(f->c.images.registries.n, 1);
	assert_true(r->is_private && r->insecure);
	assert_string_equal(r->mirror, "b.test");
}

static void several_problems_are_all_told(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "[server]\nport = 0\nbacklog = 0\n[log]\nformat = \"xml\"\n"), -1);
	assert_non_null(strstr(buf_z(&f->problems), "server.port"));
	assert_non_null(strstr(buf_z(&f->problems), "server.backlog"));
	assert_non_null(strstr(buf_z(&f->problems), "log.format"));
}

static void the_environment_overrides_the_file(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = {
		"OPENSANDBOX_SERVER_PORT=9001",
		"OPENSANDBOX_SERVER_API_KEY=",
		"OPENSANDBOX_SERVER_UNSAFE_NO_AUTH=true",
		"OPENSANDBOX_RENEW_INTENT_REDIS_DSN=redis://h",
		"OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS=[\"/a\", \"/b\"]",
		"OPENSANDBOX_LOG_LEVEL=debug",
		"OPENSANDBOX_INSECURE_SERVER=YES",
		"OPENSANDBOX_SOMETHING_ELSE=1",
		"OPENSANDBOX_SERVER_PORTS=1",
		NULL,
	};

	assert_int_equal(load_with(f, "[server]\nhost = \"::1\"\nport = 1\nbacklog = 7\napi_key = \"k\"\n", env, NULL), 0);
	assert_int_equal(f->c.server.port, 9001);
	assert_null(f->c.server.api_key);
	assert_true(f->c.server.unsafe_no_auth);
	assert_string_equal(f->c.server.host, "::1");
	assert_int_equal(f->c.server.backlog, 7);
	assert_string_equal(f->c.renew_intent.redis.dsn, "redis://h");
	assert_int_equal(f->c.storage.allowed_host_paths.n, 2);
	assert_string_equal(f->c.log.level, "debug");
}

static void a_bad_variable_is_named(void **state)
{
	static const struct {
		const char *env, *want;
	} rows[] = {
		{ "OPENSANDBOX_SERVER_PORT=abc", "OPENSANDBOX_SERVER_PORT: server.port: input should be a valid integer" },
		{ "OPENSANDBOX_SERVER_PORT=", "OPENSANDBOX_SERVER_PORT: server.port: " },
		{ "OPENSANDBOX_SERVER_PORT=1\nw = 2", "OPENSANDBOX_SERVER_PORT: server.port: " },
		{ "OPENSANDBOX_SERVER_PORT=70000", "OPENSANDBOX_SERVER_PORT: server.port: input should be less" },
		{ "OPENSANDBOX_EGRESS_DISABLE_IPV6=yes", "OPENSANDBOX_EGRESS_DISABLE_IPV6: egress.disable_ipv6: " },
		{ "OPENSANDBOX_RUNTIME_TYPE=vm", "OPENSANDBOX_RUNTIME_TYPE: runtime.type: " },
		{ "OPENSANDBOX_RUNTIME_TYPE=docker", "OPENSANDBOX_RUNTIME_TYPE: runtime.execd_image: is required" },
		{ "OPENSANDBOX_RENEW_INTENT_REDIS_ENABLED=true",
		  "OPENSANDBOX_RENEW_INTENT_REDIS_ENABLED: renew_intent.redis.dsn: " },
		{ "OPENSANDBOX_SERVER_EIP=\xff", "OPENSANDBOX_SERVER_EIP: server.eip: must be UTF-8" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const env[] = { rows[i].env, NULL };

		assert_int_equal(load_with(f, NULL, env, NULL), -1);
		if (strncmp(f->e.msg, rows[i].want, strlen(rows[i].want)) != 0)
			fail_msg("want '%s', got '%s'", rows[i].want, f->e.msg);
	}
}

static void flags_override_the_environment(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = { "OPENSANDBOX_SERVER_PORT=9001", "OPENSANDBOX_SERVER_HOST=::1", NULL };
	struct config_flag flags[] = {
		{ "--port", "server.port", "9002" }, { "--host", "server.host", NULL }, { 0 },
	};

	assert_int_equal(load_with(f, NULL, env, flags), 0);
	assert_int_equal(f->c.server.port, 9002);
	assert_string_equal(f->c.server.host, "::1");
	flags[0].value = "x";
	assert_int_equal(load_with(f, NULL, env, flags), -1);
	assert_int_equal(strncmp(f->e.msg, "--port: server.port: ", 21), 0);
}

static void a_value_cannot_be_put_below_one_that_is_no_table(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = { "OPENSANDBOX_SERVER_PORT=9001", NULL };

	assert_int_equal(load_with(f, "server = 1\n", env, NULL), -1);
	assert_non_null(strstr(f->e.msg, ":1: server: "));
}

static void the_file_is_found_where_it_should_be(void **state)
{
	struct fixture *f = *state;
	char home[80], named[160], at_home[160];
	const char *env[] = { home, named, NULL };
	struct config_sources s = { .env = env };
	const char *path = "untouched";

	(void)snprintf(home, sizeof(home), "HOME=%s", f->folder);
	(void)snprintf(at_home, sizeof(at_home), "%s/.sandbox.toml", f->folder);
	(void)snprintf(named, sizeof(named), "SANDBOX_CONFIG_PATH=");
	assert_int_equal(config_find(&s, &f->arena, &path, &f->e), 0);
	assert_null(path);
	put_file(at_home, "");
	assert_int_equal(config_find(&s, &f->arena, &path, &f->e), 0);
	assert_string_equal(path, at_home);
	(void)snprintf(named, sizeof(named), "SANDBOX_CONFIG_PATH=~/x.toml");
	assert_int_equal(config_find(&s, &f->arena, &path, &f->e), 0);
	assert_true(str_ends(str_of(path), STR("/x.toml")) && path[0] == '/');
	s.path = "/named.toml";
	assert_int_equal(config_find(&s, &f->arena, &path, &f->e), 0);
	assert_string_equal(path, "/named.toml");
}

static void a_named_file_that_is_missing_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct config_sources s = { .path = "/nonexistent/x.toml" };

	assert_int_equal(config_load(&s, &f->arena, &f->c, &f->problems, &f->e), -1);
	assert_int_equal(f->e.code, ERR_NOT_FOUND);
	s.path = "/";
	assert_int_equal(config_load(&s, &f->arena, &f->c, &f->problems, &f->e), -1);
}

static void a_huge_file_is_refused(void **state)
{
	struct fixture *f = *state;
	size_t n = CONFIG_FILE_MAX + 8192;
	char *text = malloc(n + 1);

	assert_non_null(text);
	memset(text, '#', n);
	text[n] = '\0';
	assert_int_equal(load(f, text), -1);
	free(text);
	assert_int_equal(f->e.code, ERR_LIMIT);
}

static void home_is_expanded_in_paths(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = { "HOME=/h", NULL };

	assert_int_equal(load_with(f, "[store]\npath = \"~/a.db\"\n[log]\nfile_path = \"/x/~/y\"\n", env, NULL), 0);
	assert_string_equal(f->c.store.path, "/h/a.db");
	assert_string_equal(f->c.log.file_path, "/x/~/y");
	assert_string_equal(config_expand_home("~user/x", env, &f->arena, &f->e), "~user/x");
	assert_string_equal(config_expand_home("~", env, &f->arena, &f->e), "/h");
}

static void without_a_home_no_path_in_use_may_need_one(void **state)
{
	static const struct {
		const char *text, *want; /* NULL: loads */
	} rows[] = {
		{ "", NULL },
		{ "[log]\nfile_path = \"~/x\"\n[store]\npath = \"~/y\"\n", NULL }, /* neither is in use */
		{ "\n[log]\nfile_enabled = true\n", ":2: log.file_path: HOME is not set: '~/logs/" },
		{ "[log]\nfile_path = \"~/x\"\nfile_enabled = true\n", ":2: log.file_path: HOME is not set: '~/x' needs it" },
		{ "[log]\nfile_path = \"/x\"\nfile_enabled = true\n", NULL },
		{ "[server]\ntls_cert = \"~/c\"\ntls_key = \"/k\"\n", ":2: server.tls_cert: HOME is not set: '~/c'" },
		{ "[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n", ": store.path: HOME is not set: '~/" },
		{ "[runtime]\ntype = \"kubernetes\"\nexecd_image = \"x\"\n[store]\npath = \"/x\"\n[kubernetes]\n"
		  "kubeconfig_path = \"~/k\"\n", ":7: kubernetes.kubeconfig_path: HOME is not set: '~/k'" },
	};
	static const char *const env[] = { "HOME=", NULL };
	struct config_sources s = { .path = "~/c.toml", .env = env };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc = load_with(f, rows[i].text, i % 2 ? env : NULL, NULL);

		if (rc != (rows[i].want ? -1 : 0) || (rc < 0 && !strstr(f->e.msg, rows[i].want)))
			fail_msg("%s: got %d '%s'", rows[i].text, rc, f->e.msg);
	}
	assert_int_equal(config_load(&s, &f->arena, &f->c, &f->problems, &f->e), -1);
	assert_string_equal(f->e.msg, "--config: HOME is not set: '~/c.toml' needs it");
}

#define WEAKER "[docker]\nunsafe_weaker_isolation = true\n"

static void weaker_walls_need_a_word_that_says_so(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "network_mode = \"host\"\n", "docker.network_mode: 'host' needs docker.unsafe_weaker_isolation" },
		{ "network_mode = \"HOST\"\n", "docker.network_mode: 'host' needs docker.unsafe_weaker_isolation" },
		{ "network_mode = \"container:x\"\n", "docker.network_mode: 'container:x' needs" },
		{ "drop_capabilities = []\n", "docker.drop_capabilities: an empty list needs" },
		{ "no_new_privileges = false\n", "docker.no_new_privileges: false needs" },
		{ "seccomp_profile = \"Unconfined\"\n", "docker.seccomp_profile: 'Unconfined' needs" },
		{ "apparmor_profile = \"unconfined\"\n", "docker.apparmor_profile: 'unconfined' needs" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256];

		(void)snprintf(text, sizeof(text), "[docker]\n%s", rows[i].text);
		assert_int_equal(load(f, text), -1);
		if (!strstr(f->e.msg, ":2: ") || !strstr(f->e.msg, rows[i].want))
			fail_msg("want '%s', got '%s'", rows[i].want, f->e.msg);
		(void)snprintf(text, sizeof(text), WEAKER "%s", rows[i].text);
		if (load(f, text) < 0)
			fail_msg("%s", f->e.msg);
	}
	assert_int_equal(load(f, WEAKER "network_mode = \"Host\"\n"), 0);
	assert_string_equal(f->c.docker.network_mode, "host");
	assert_int_equal(load(f, "[docker]\nnetwork_mode = \"My-Net\"\nseccomp_profile = \"/etc/S.json\"\n"), 0);
	assert_string_equal(f->c.docker.network_mode, "my-net");
	assert_string_equal(f->c.docker.seccomp_profile, "/etc/S.json");
}

/* Whatever does not fit into the arena: an error, never half a configuration. */
static void running_out_of_room_is_an_error_at_every_step(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = { "HOME=/h", "OPENSANDBOX_SERVER_PORT=9001", "OPENSANDBOX_EGRESS_MODE=dns",
					   "OPENSANDBOX_RENEW_INTENT_REDIS_QUEUE_KEY=q", NULL };
	struct config_flag flags[] = { { "--host", "server.host", "::1" }, { 0 } };
	int rc = -1;

	for (size_t max = 0; rc < 0 && max < 65536; max += 64) {
		arena_done(&f->arena);
		f->arena = ARENA_INIT(max);
		rc = load_with(f, "[server]\neip = \"a\\n\"\n[log]\nlevel = \"debug\"\n", env, flags);
		assert_true(rc == 0 || (f->e.code != ERR_NONE && f->e.msg[0]));
	}
	assert_int_equal(rc, 0);
	assert_string_equal(f->c.renew_intent.redis.queue_key, "q");
}

static void a_blank_key_is_no_key(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "[server]\napi_key = \"  \"\n"), 0);
	assert_null(f->c.server.api_key);
}

static void what_is_written_loads_again_as_the_same(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf first = BUF_INIT(65536), second = BUF_INIT(65536);

	assert_int_equal(load(f, "[server]\neip = \"a\\\"b\\n\"\nmax_sandbox_timeout_seconds = 99\n"
				 "[runtime]\ntype = \"kubernetes\"\nexecd_image = \"x\"\n"
				 "[ingress]\nmode = \"gateway\"\ngateway = { address = \"g\", route = { mode = \"uri\" } }\n"
				 "[kubernetes]\nread_qps = 0.25\nexecd_init_resources.limits = { cpu = \"1\", memory = \"2\" }\n"), 0);
	assert_true(config_write(&f->c, &first));
	assert_non_null(strstr(buf_z(&first), "max_sandbox_timeout_seconds = 99\n"));
	if (load(f, buf_z(&first)) < 0)
		fail_msg("%s%s", buf_z(&f->problems), buf_z(&first));
	assert_true(config_write(&f->c, &second));
	assert_string_equal(buf_z(&first), buf_z(&second));
}

static void secrets_are_not_written(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf text = BUF_INIT(65536);

	assert_int_equal(load(f, "[server]\napi_key = \"hush1\"\n[renew_intent.redis]\ndsn = \"hush2\"\n"
				 "[ingress]\nmode = \"gateway\"\ngateway = { address = \"g\", route = { mode = \"uri\" } }\n"
				 "[ingress.secure_access]\nactive_key = \"a\"\nkeys = [{ key_id = \"a\", key = \"aHVzaDM=\" }]\n"), 0);
	assert_true(config_write(&f->c, &text));
	assert_null(strstr(buf_z(&text), "hush"));
	assert_null(strstr(buf_z(&text), "aHVzaDM"));
	assert_non_null(strstr(buf_z(&text), "\n# api_key = (set, not shown)\n"));
	assert_non_null(strstr(buf_z(&text), "\n# dsn = (set, not shown)\n"));
	assert_non_null(strstr(buf_z(&text), "[[ingress.secure_access.keys]]\nkey_id = \"a\"\n# key = (set, not shown)\n"));
}

static void what_is_shown_loads_without_a_key(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf text = BUF_INIT(65536);

	assert_int_equal(load(f, "[server]\napi_key = \"hush1\"\nport = 99\n"), 0);
	assert_true(config_write(&f->c, &text));
	assert_int_equal(load(f, buf_z(&text)), 0);
	assert_null(f->c.server.api_key);
	assert_int_equal(f->c.server.port, 99);
}

static void every_example_loads(void **state)
{
	static const char *const kinds[] = { NULL, "native" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		AUTO(buf_done) struct buf text = BUF_INIT(65536);

		assert_true(config_write_example(kinds[i], "0123456789abcdef0123456789abcdef", &text));
		if (load(f, buf_z(&text)) < 0)
			fail_msg("%s", buf_z(&f->problems));
		assert_int_equal(f->c.runtime.type, RUNTIME_NATIVE);
		assert_true(!f->c.notes || !strstr(f->c.notes, "no effect"));
		assert_string_equal(f->c.server.api_key, "0123456789abcdef0123456789abcdef");
	}
	assert_false(config_write_example("vm", "k", &f->problems));
	assert_false(config_write_example("docker", "k", &f->problems)); /* no server of this version would start with it */
}

static void keys_without_effect_are_told(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf shown = BUF_INIT(65536);

	assert_int_equal(load(f, "[server]\nloop = \"uvloop\"\n[docker]\npids_limit = 7\n[store]\ntype = \"sqlite\"\n[egress]\nmax_rules = 9\n"), 0);
	assert_non_null(strstr(f->c.notes, ":2: server.loop: no effect\n"));
	assert_non_null(strstr(f->c.notes, ":4: docker.pids_limit: no effect with runtime.type 'native'\n"));
	assert_non_null(strstr(f->c.notes, ":6: store.type: no effect with"));
	assert_null(strstr(f->c.notes, "max_rules"));
	assert_true(config_write(&f->c, &shown));
	assert_non_null(strstr(buf_z(&shown), "\npids_limit = 7 # no effect with runtime.type 'native'\n"));
	assert_non_null(strstr(buf_z(&shown), "\nmax_rules = 9\n"));
	assert_int_equal(load(f, "[runtime]\ntype = \"docker\"\nexecd_image = \"x\"\n[docker]\npids_limit = 7\n"), 0);
	assert_null(f->c.notes);
}

/* Uncommenting every line of the skeleton must give known keys only; what values they have is another matter. */
static void an_example_shows_every_key(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf text = BUF_INIT(65536);

	assert_true(config_write_example(NULL, NULL, &text));
	for (const struct field *s = config_fields; s->name; s++)
		for (const struct field *k = s->fields; k->name; k++) {
			char want[128];

			assert_non_null(k->help);
			(void)snprintf(want, sizeof(want), k->kind == FIELD_OBJECT || k->kind == FIELD_OBJECTS ? "[%s.%s]" : "#%.0s%s = ", s->name, k->name);
			if (!strstr(buf_z(&text), want))
				fail_msg("'%s' is not there", want);
		}
	(void)f;
}

static void collect_names(const struct field *fields, const char *above, struct buf *all)
{
	for (const struct field *k = fields; k->name; k++) {
		AUTO(buf_done) struct buf name = BUF_INIT(1024);
		char key[160];

		(void)snprintf(key, sizeof(key), "%s%s%s", above, above[0] ? "." : "", k->name);
		if (k->kind == FIELD_OBJECT) {
			collect_names(k->fields, key, all);
			continue;
		}
		assert_true(config_env_name(&name, key));
		assert_true(buf_addf(&name, "\n"));
		if (strstr(buf_z(all), buf_z(&name)))
			fail_msg("two keys have the variable %s", buf_z(&name));
		assert_true(buf_add_str(all, buf_str(&name)));
	}
}

static void no_two_keys_share_a_variable(void **state)
{
	AUTO(buf_done) struct buf all = BUF_INIT(65536);

	(void)state;
	collect_names(config_fields, "", &all);
	assert_non_null(strstr(buf_z(&all), "OPENSANDBOX_INGRESS_GATEWAY_ROUTE_MODE\n"));
}

#define WITH_FILES(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FILES(without_any_source_every_key_has_its_default),
		WITH_FILES(a_file_with_every_section_loads),
		WITH_FILES(problems_name_file_line_and_key),
		WITH_FILES(images_keep_the_order_of_the_file),
		cmocka_unit_test(names_of_images_have_one_form),
		WITH_FILES(keys_for_signed_routes_are_checked_together),
		WITH_FILES(registries_are_hosts_and_each_is_there_once),
		WITH_FILES(several_problems_are_all_told),
		WITH_FILES(the_environment_overrides_the_file),
		WITH_FILES(a_bad_variable_is_named),
		WITH_FILES(flags_override_the_environment),
		WITH_FILES(a_value_cannot_be_put_below_one_that_is_no_table),
		WITH_FILES(the_file_is_found_where_it_should_be),
		WITH_FILES(a_named_file_that_is_missing_is_an_error),
		WITH_FILES(a_huge_file_is_refused),
		WITH_FILES(home_is_expanded_in_paths),
		WITH_FILES(without_a_home_no_path_in_use_may_need_one),
		WITH_FILES(weaker_walls_need_a_word_that_says_so),
		WITH_FILES(running_out_of_room_is_an_error_at_every_step),
		WITH_FILES(a_blank_key_is_no_key),
		WITH_FILES(what_is_written_loads_again_as_the_same),
		WITH_FILES(secrets_are_not_written),
		WITH_FILES(what_is_shown_loads_without_a_key),
		WITH_FILES(every_example_loads),
		WITH_FILES(keys_without_effect_are_told),
		WITH_FILES(an_example_shows_every_key),
		cmocka_unit_test(no_two_keys_share_a_variable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
