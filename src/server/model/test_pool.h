// SPDX-License-Identifier: Apache-2.0
/* server/model/test_pool.h - for tests: sandboxes of a scripted runtime that answer /ping, and time that goes by meanwhile. */
#pragma once
#include "server/model/test_plane.h"

/* How the sandboxes answer /ping. */
static enum { WELL, ILL, SILENT } health;

static inline void answer_pings(struct rig *r)
{
	static const char well[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ill[] = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
	char buf[4096];

	for (unsigned i = 0; i < r->fake.n_far && health != SILENT; i++) {
		ssize_t n = recv(r->fake.far[i], buf, sizeof(buf) - 1, MSG_DONTWAIT);
		const char *text = health == WELL ? well : ill;

		if (n <= 0)
			continue;
		buf[n] = '\0';
		has(buf, "GET /ping HTTP/1.1\r\n");
		has(buf, "X-EXECD-ACCESS-TOKEN: ");
		(void)send(r->fake.far[i], text, strlen(text), MSG_NOSIGNAL);
	}
}

static inline void turn(struct rig *r, int n)
{
	for (int i = 0; i < n; i++) {
		assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
		answer_pings(r);
	}
}

/* Time goes by, in small steps: refilling waits for quiet moments. */
static inline void pass(struct rig *r, uint64_t ms)
{
	uint64_t step = MAX(ms / 20, UINT64_C(25));

	for (uint64_t done = 0; done < ms; done += step) {
		r->now_ms += step;
		r->wall_us += (int64_t)step * 1000;
		turn(r, 6);
	}
}

static inline const char *receive(struct rig *r, int fd)
{
	ssize_t got = -1;
	size_t n = 0;

	for (int turns = 0; turns < TURNS && got != 0; turns++) {
		got = recv(fd, r->answer + n, sizeof(r->answer) - 1 - n, MSG_DONTWAIT);
		if (got > 0)
			n += (size_t)got;
		else if (got < 0)
			turn(r, 1);
	}
	(void)close(fd);
	turn(r, 3);
	r->answer[n] = '\0';
	return r->answer;
}

static inline const char *ask(struct rig *r, const char *line, const char *body)
{
	return receive(r, rig_send(&r->api, line, AUTH, body));
}
