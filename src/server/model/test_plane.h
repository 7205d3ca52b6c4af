// SPDX-License-Identifier: Apache-2.0
/* server/model/test_plane.h - for tests: a control plane in a folder of its own, a scripted runtime, clocks that are turned by
 * hand, and a client that hides nothing. */
#pragma once
#include "server/runtime/test_runtime.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/api/api.h"
#include "server/api/parts.h"
#include "server/http/service.h"
#include "server/model/plane.h"

#define KEY "0123456789abcdef0123456789abcdef"
#define AUTH "OPEN-SANDBOX-API-KEY: " KEY "\r\n"
#define TURNS 3000

/* What listens on one socket. */
struct port {
	struct service service;
	struct http_server *http;
	struct sockaddr_un addr;
	socklen_t addr_len;
};

struct rig {
	char dir[64], state[96];
	struct loop *loop;
	uint64_t now_ms;
	int64_t wall_us;
	const char *boot_id;
	unsigned creates_max;
	struct fake fake;
	struct plane *plane;
	struct plane_spec spec;
	struct port api, proxy;
	struct err e;
	char answer[1 << 17];
};

static inline uint64_t rig_now(void *arg)
{
	return ((struct rig *)arg)->now_ms;
}

static inline int64_t rig_wall(void *arg)
{
	return ((struct rig *)arg)->wall_us;
}

static inline int rig_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void rig_listen(struct rig *r, struct port *p, const struct route *routes, bool is_proxy)
{
	struct auth_policy policy = { .api_key = KEY, .is_loopback = true };
	struct service_spec spec = {
		.requests_per_key = 4096, .routes = routes, .plane = r->plane, .is_proxy_origin = is_proxy, .audit = parts_audit,
	};
	struct http_limits limits = HTTP_LIMITS;
	struct sockaddr_un any = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(auth_init(&spec.auth, &policy, &r->e), 0);
	service_init(&p->service, &spec);
	p->http = http_server_new(r->loop, &p->service.http, &limits, &r->e);
	assert_non_null(p->http);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)), 0);
	assert_int_equal(listen(fd, 64), 0);
	p->addr_len = sizeof(p->addr);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&p->addr, &p->addr_len), 0);
	assert_int_equal(http_server_listen(p->http, &fd, NULL, &r->e), 0);
}

static inline void rig_open(struct rig *r)
{
	static const char *host_paths[] = { "/srv/data", "/srv/data/deep/", "/mnt/x" };
	enum store_fault fault;

	r->spec = (struct plane_spec){
		.parts = &api_parts, .loop = r->loop, .runtime = &r->fake.rt, .state_dir = r->state, .boot_id = r->boot_id, .creates_max = r->creates_max,
		.wall_us = rig_wall, .wall_arg = r, .host = "127.0.0.1", .eip = r->spec.eip, .proxy_port = 8081, .max_timeout_s = 86400, .ceilings = RUNTIME_CEILINGS,
		.host_paths = { host_paths, 3 }, .volume_bytes = UINT64_C(1) << 30, .renews_on_access = true, .renew_interval_s = 60,
	};
	r->plane = plane_open(&r->spec, &fault, &r->e);
	if (!r->plane)
		fail_msg("%s", r->e.msg);
	assert_int_equal(plane_recover(r->plane, &r->e), 0);
	rig_listen(r, &r->api, api_sandbox_routes, false);
	rig_listen(r, &r->proxy, api_proxy_routes, true);
}

static inline void rig_start(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	log_set_fd(-1);
	(void)snprintf(r->dir, sizeof(r->dir), "/tmp/plane-test.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	(void)snprintf(r->state, sizeof(r->state), "%s/state", r->dir);
	r->now_ms = 1000000;
	r->wall_us = INT64_C(1780000000000000);
	r->boot_id = "boot-1";
	r->loop = loop_new(&r->e);
	assert_non_null(r->loop);
	loop_set_clock(r->loop, rig_now, r);
	fake_init(&r->fake, r->loop);
	rig_open(r);
}

/* As SIGKILL would leave it: nothing that was begun is finished. */
static inline void rig_close(struct rig *r)
{
	http_server_free(r->api.http);
	http_server_free(r->proxy.http);
	service_done(&r->api.service);
	service_done(&r->proxy.service);
	plane_close(take_ptr(&r->plane));
	fake_done_with(&r->fake);
}

static inline void rig_stop(struct rig *r)
{
	rig_close(r);
	loop_free(r->loop);
	assert_int_equal(nftw(r->dir, rig_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
	log_set_fd(2);
}

static inline void rig_restart(struct rig *r)
{
	rig_close(r);
	rig_open(r);
}

static inline void rig_turn(struct rig *r, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
}

#define RIG_WAIT(r, condition) \
	do { \
		for (int turns_ = 0; turns_ < TURNS && !(condition); turns_++) \
			assert_int_equal(loop_turn((r)->loop, 1, &(r)->e), 0); \
		assert_true(condition); \
	} while (0)

static inline void rig_pass(struct rig *r, uint64_t ms)
{
	r->now_ms += ms;
	r->wall_us += (int64_t)ms * 1000;
	rig_turn(r, 3);
}

/* ---- talking ---- */

static inline int rig_send(struct port *p, const char *line, const char *headers, const char *body)
{
	AUTO(buf_done) struct buf text = BUF_INIT(4 << 20);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&p->addr, p->addr_len), 0);
	buf_addf(&text, "%s HTTP/1.1\r\nHost: server:8080\r\nConnection: close\r\n%s", line, headers);
	if (body)
		buf_addf(&text, "Content-Length: %zu\r\n", strlen(body));
	buf_addf(&text, "\r\n%s", body ? body : "");
	assert_int_equal(send(fd, text.p, text.n, MSG_NOSIGNAL), text.n);
	return fd;
}

/* The whole answer, up to the end of the connection. */
static inline const char *rig_receive(struct rig *r, int fd)
{
	size_t n = 0;
	ssize_t got = -1;

	for (int turns = 0; turns < TURNS && got != 0; turns++) {
		got = recv(fd, r->answer + n, sizeof(r->answer) - 1 - n, MSG_DONTWAIT);
		if (got > 0)
			n += (size_t)got;
		else if (got < 0)
			assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
	}
	(void)close(fd);
	rig_turn(r, 3);
	r->answer[n] = '\0';
	return r->answer;
}

static inline const char *rig_ask(struct rig *r, const char *line, const char *body)
{
	return rig_receive(r, rig_send(&r->api, line, AUTH, body));
}

/* Sandboxes, idle ones and those that are being made included. */
static inline size_t rig_count(const struct rig *r)
{
	size_t n = 0;

	for (const struct sandbox *sb = sandboxes_newest(r->plane->sandboxes); sb; sb = sb->older)
		n++;
	return n;
}

static inline unsigned rig_status(const char *answer)
{
	uint64_t status = 0;

	(void)str_to_u64(str_first(str_skip(str_of(answer), 9), 3), 0, 999, &status);
	return (unsigned)status;
}

static inline void has(const char *answer, const char *part)
{
	if (!strstr(answer, part))
		fail_msg("'%s' is not in: %s", part, answer);
}

static inline void lacks(const char *answer, const char *part)
{
	if (strstr(answer, part))
		fail_msg("'%s' is in: %s", part, answer);
}

#define CREATE_BODY "\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"],\"resourceLimits\":{}"

/* The id in an answer, in ID. */
static inline void rig_id(const char *answer, char id[UUID_LEN + 1])
{
	const char *p = strstr(answer, "\"id\":\"");

	assert_non_null(p);
	memcpy(id, p + 6, UUID_LEN);
	id[UUID_LEN] = '\0';
}

static inline void rig_create(struct rig *r, const char *more, char id[UUID_LEN + 1])
{
	char body[2048];

	(void)snprintf(body, sizeof(body), "{" CREATE_BODY "%s}", more);
	has(rig_ask(r, "POST /v1/sandboxes", body), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
}

static inline const char *rig_on(struct rig *r, const char *method, const char *id, const char *rest, const char *body)
{
	char line[512];

	(void)snprintf(line, sizeof(line), "%s /v1/sandboxes/%s%s", method, id, rest);
	return rig_ask(r, line, body);
}
