// SPDX-License-Identifier: Apache-2.0
/* Random handlers against random clients, checked against a model of what server.h promises.
 * A handler's state is freed as soon as the promises allow: a callback that comes after its answer or its end is
 * a use after free; one that never comes is missed when the exchange is finished. A run depends on its seed
 * alone: CHAOS_SEED=n repeats one, SOAK=1 runs 50 times as many. */
#include "net/http/test_server.h"

#include <signal.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "net/transport.h"

#include "base/banned.h"

#define CLIENTS 24
#define SEEDS 18
#define STEPS 4000
#define REST_EVERY 250 /* steps */
#define REST_TURNS 400 /* far more than so few connections need for what is queued */
#define BODY_MAX 100000
#define BLOCK (128 * 1024)

/* How handlers end, first in the order of their phases, and what else happens. */
enum event { SINK_STOP, HANGUP, STOP, GONE, TAKE, UNTOLD, HANDLED, DATA, PASSED, END, PROCEED, FINISHED, EVENTS };

struct chaos {
	struct rig rig;
	struct http_limits limits;
	int clients[CLIENTS], file;
	struct transport *taken;   /* the latest that was upgraded */
	struct job *jobs[CLIENTS]; /* at most one for each connection */
	unsigned n_jobs, n_streams, seed, step;
	unsigned long *events; /* how many of each kind there were, over all runs */
	uint64_t finished, rng;
};

/* A handler that has yet to answer: its request's ticket. A request's user is set while it counts as a stream. */
struct job {
	struct chaos *c;
	unsigned at; /* in c->jobs */
	struct request *rq;
	struct reply *rp;
	enum { OPEN, HELD, STREAM, UPGRADE } phase;
	bool is_mute;   /* open, or held without a hangup: only its sink can be told */
	bool is_reader; /* the sink waits for the end of the body */
	bool has_read, is_paused;
	uint64_t left, seen; /* of its stream, of the body */
};

static const char block[BLOCK];

#define CHECK(c, cond) \
	do { if (!(cond)) fail_msg("CHAOS_SEED=%u, step %u: %s", (c)->seed, (c)->step, #cond); } while (0)

static unsigned rnd(struct chaos *c, size_t n)
{
	c->rng = c->rng * 6364136223846793005 + 1442695040888963407;
	return (unsigned)((c->rng >> 33) % n);
}

/* ---- handlers ---- */

static void job_free(struct job *j)
{
	j->c->jobs[j->at] = j->c->jobs[--j->c->n_jobs];
	j->c->jobs[j->at]->at = j->at;
	j->rq->ticket = NULL;
	free(j);
}

static struct str any_bytes(struct chaos *c, uint64_t max)
{
	return (struct str){ block, rnd(c, MIN(max, (uint64_t)(!rnd(c, 3) ? BLOCK : 100)) + 1) };
}

static void answer(struct chaos *c, struct reply *rp)
{
	AUTO(buf_done) struct buf body = BUF_INIT(BLOCK / 2);
	AUTO_FD fd = dup(c->file);
	unsigned status = !rnd(c, 4) ? 204 : 200, kind = rnd(c, 5);

	(void)buf_add_str(&body, any_bytes(c, BLOCK)); /* when it fails, reply_json() says so */
	if (kind == 0)
		(void)reply_empty(rp, status);
	else if (kind == 1)
		(void)reply_bytes(rp, status, "text/plain", any_bytes(c, BLOCK));
	else if (kind == 2)
		(void)reply_json(rp, status, &body);
	else if (kind == 3)
		(void)reply_error(rp, status, "CHAOS", "%u", status);
	else /* sometimes more than there is in the file */
		(void)reply_file(rp, status, NULL, &fd, rnd(c, 1000), any_bytes(c, BLOCK).n);
}

/* What comes too late: the answer is given, or nobody waits for it. */
static void answer_late(struct chaos *c, struct reply *rp)
{
	if (!rnd(c, 4))
		(!rnd(c, 2) ? reply_end : reply_abort)(rp);
	if (!rnd(c, 4))
		answer(c, rp);
}

static void on_over(void *arg);
static const struct body_sink sink;
static const struct reply_source source;
static const struct upgrade upgrade;

static void act_hold(struct job *j)
{
	j->phase = HELD;
	j->is_mute = !rnd(j->c, 4);
	(void)reply_hold(j->rp, j->is_mute ? NULL : on_over, j);
}

static void act_begin(struct job *j)
{
	struct chaos *c = j->c;
	bool is_upgrade = !rnd(c, 2);
	struct err e = { 0 };

	j->left = !rnd(c, 3) ? any_bytes(c, BLOCK).n : REPLY_UNSIZED;
	if ((is_upgrade ? reply_upgrade(j->rp, "chaos", &upgrade, j, &e)
			: reply_stream(j->rp, rnd(c, 4) ? 200 : 204, NULL, j->left, &source, j, &e)) < 0)
		return; /* not asked for, or too many */
	j->phase = is_upgrade ? UPGRADE : STREAM;
	j->is_mute = false;
	j->rq->user = j->rq;
	c->n_streams++;
}

static void act_write(struct job *j)
{
	struct str bytes = any_bytes(j->c, j->left);

	j->left -= j->left == REPLY_UNSIZED ? 0 : bytes.n;
	reply_write(j->rp, bytes);
}

/* Gives the whole answer, or the rest of it, or cuts it off. */
static void act_finish(struct job *j)
{
	struct chaos *c = j->c;
	struct reply *rp = j->rp;
	bool is_open = j->phase == OPEN || j->phase == HELD, is_stream = j->phase == STREAM;

	job_free(j);
	if (is_open && rnd(c, 12) > 0)
		answer(c, rp);
	else if (is_stream && rnd(c, 4) > 0)
		reply_end(rp);
	else
		reply_abort(rp);
	answer_late(c, rp);
}

static void act(struct job *j)
{
	bool is_open = j->phase == OPEN || j->phase == HELD;
	unsigned what = rnd(j->c, 9);

	if (what == 0 && j->phase == OPEN) {
		act_hold(j);
	} else if (what <= 2 && is_open) {
		act_begin(j);
	} else if (what <= 4) {
		j->is_paused = !rnd(j->c, 3);
		(j->is_paused ? request_pause : request_resume)(j->rq);
	} else if (what <= 6 && j->rq->route->flags & ROUTE_STREAM_IN && !j->has_read) {
		j->has_read = j->is_reader = true;
		j->is_paused = false;
		request_read(j->rq, &sink, j);
	} else if (what <= 6 && j->phase == STREAM) {
		act_write(j);
	} else if (what == 7 && !is_open) {
		answer(j->c, j->rp); /* there is one already: nothing comes of it */
	} else if (what == 8) {
		act_finish(j);
	}
}

static void act_on_any(struct chaos *c)
{
	if (c->n_jobs > 0)
		act(c->jobs[rnd(c, c->n_jobs)]);
}

/* Acts, for others too, and leaves J in a state that its callback may return with. */
static int act_and_leave(struct job *j, struct err *e)
{
	struct chaos *c = j->c;
	struct request *rq = j->rq;

	for (unsigned n = rnd(c, 6); n > 0 && rq->ticket; n--)
		act(j);
	act_on_any(c);
	if (!rnd(c, 20)) {
		if (rq->ticket)
			job_free(j);
		return err_set(e, !rnd(c, 2) ? ERR_CONFLICT : ERR_IO, "chaos");
	}
	if (!rq->ticket || j->phase != OPEN || j->is_reader)
		return 0;
	(!rnd(c, 20) ? job_free : !rnd(c, 3) ? act_finish : act_hold)(j); /* forgotten: the server answers */
	return 0;
}

static int handle(struct request *rq, struct reply *rp, struct err *e)
{
	struct chaos *c = rq->ctx;
	struct job *j = calloc(1, sizeof(*j));

	assert_non_null(j);
	*j = (struct job){ .c = c, .at = c->n_jobs, .rq = rq, .rp = rp, .is_mute = true };
	c->jobs[c->n_jobs++] = rq->ticket = j;
	c->events[HANDLED]++;
	return act_and_leave(j, e);
}

static void on_over(void *arg)
{
	struct job *j = arg;
	struct chaos *c = j->c;
	struct reply *rp = j->rp;

	CHECK(c, !j->is_mute);
	c->events[SINK_STOP + j->phase]++;
	if (!rnd(c, 4))
		(!rnd(c, 2) ? request_pause : request_resume)(j->rq);
	act_write(j);
	job_free(j);
	answer_late(c, rp);
	act_on_any(c);
}

static void on_body_stop(void *arg)
{
	struct job *j = arg;

	CHECK(j->c, j->is_mute && j->is_reader);
	j->is_mute = false;
	on_over(j);
}

static int on_data(struct str piece, void *arg, struct err *e)
{
	struct job *j = arg;

	j->c->events[DATA]++;
	CHECK(j->c, j->is_reader && !j->is_paused && piece.n > 0 && (j->seen += piece.n) <= BODY_MAX);
	return act_and_leave(j, e);
}

static ssize_t on_pass(int fd, uint64_t left, void *arg)
{
	struct job *j = arg;
	char piece[4096];
	ssize_t n;

	CHECK(j->c, j->is_reader && !j->is_paused && left > 0);
	if (rnd(j->c, 8) == 0) {
		errno = ENOTSUP;
		return -1;
	}
	n = recv(fd, piece, (size_t)MIN(left, (uint64_t)1 + rnd(j->c, sizeof(piece))), MSG_DONTWAIT);
	if (n > 0) {
		j->c->events[PASSED]++;
		CHECK(j->c, (j->seen += (uint64_t)n) <= BODY_MAX);
	}
	if (n > 0 && rnd(j->c, 4) == 0) {
		request_pause(j->rq);
		j->is_paused = true;
	}
	return n;
}

static int on_body_end(void *arg, struct err *e)
{
	struct job *j = arg;

	j->c->events[END]++;
	CHECK(j->c, j->is_reader && !j->is_paused);
	j->is_reader = false;
	return act_and_leave(j, e);
}

static void on_proceed(void *arg)
{
	struct job *j = arg;

	j->c->events[PROCEED]++;
	CHECK(j->c, j->phase == STREAM && reply_room(j->rp) > 0);
	act_write(j);
	act(j);
}

static void on_take(struct transport *t, struct str early, void *arg)
{
	struct job *j = arg;
	struct chaos *c = j->c;

	(void)early;
	CHECK(c, j->phase == UPGRADE);
	c->events[TAKE]++;
	c->n_streams--; /* counted as taken from here on */
	j->rq->user = NULL;
	job_free(j);
	transport_close(c->taken);
	c->taken = t;
}

static const struct body_sink sink = { .data = on_data, .end = on_body_end, .stop = on_body_stop, .pass = on_pass };
static const struct reply_source source = { on_proceed, on_over };
static const struct upgrade upgrade = { on_take, on_over };

static void finished(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	struct chaos *c = rq->ctx;
	struct job *j = rq->ticket;

	(void)status;
	(void)body_bytes;
	c->events[j ? UNTOLD : FINISHED]++;
	c->finished++;
	c->n_streams -= rq->user != NULL;
	if (j) {
		CHECK(c, j->is_mute && !j->is_reader);
		job_free(j);
	}
}

/* ---- clients ---- */

#define HTTP " HTTP/1.1\r\nHost: a\r\n"
#define UPGRADES "Connection: upgrade\r\nUpgrade: chaos\r\n"
#define LENGTH "Content-Length: "
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static void client_step(struct chaos *c, unsigned k)
{
	static const char *const texts[] = {
		"GET /get" HTTP "\r\n", "GET /get" HTTP "\r\nHEAD /get" HTTP "\r\n", "GET /get HTTP/1.0\r\n\r\n",
		"GET /get" HTTP UPGRADES "\r\n", "GET /read" HTTP UPGRADES "\r\n", "nonsense\r\n\r\n",
		"GET /nowhere" HTTP "\r\n", "GET /get" HTTP "Connection: close\r\n\r\n", "POST /read" HTTP "\r\n",
		"POST /read" HTTP LENGTH "10\r\n\r\n0123456789", "POST /read" HTTP LENGTH "99999\r\n\r\n",
		"POST /read" HTTP LENGTH "200\r\n\r\n", "POST /read" HTTP CHUNKED "\r\n20000\r\n",
		"POST /read" HTTP CHUNKED "\r\n5\r\nabcde\r\n5\r\nabcde\r\n0\r\n\r\n", "123456789", "0\r\n\r\n",
		"POST /read" HTTP "Expect: 100-continue\r\n" LENGTH "9\r\n\r\n", "HEAD /read" HTTP LENGTH "1\r\n\r\n",
		"POST /whole" HTTP LENGTH "5\r\n\r\nabcde", "POST /whole" HTTP LENGTH "999999\r\n\r\n",
	};
	struct str text = str_of(texts[rnd(c, ARRAY_LEN(texts))]);
	int *fd = &c->clients[k];
	char piece[65536];
	bool is_over = k % 4 > 0 && recv(*fd, piece, sizeof(piece), 0) == 0; /* the others never read */

	if (*fd < 0)
		*fd = rig_connect(&c->rig);
	else if (!rnd(c, 12))
		text = !rnd(c, 2) ? str_first(text, rnd(c, text.n)) : (struct str){ block, BODY_MAX };
	(void)send(*fd, text.p, text.n, MSG_NOSIGNAL);
	if (!rnd(c, 30))
		(void)shutdown(*fd, SHUT_WR);
	if (is_over || !rnd(c, 20)) /* a reset, when it has not read all that came */
		(void)close(take_fd(fd));
}

/* ---- runs ---- */

static void check(struct chaos *c)
{
	struct http_counts n = http_server_counts(c->rig.server);

	CHECK(c, n.requests == c->finished + n.busy && n.busy >= c->n_jobs);
	CHECK(c, n.streams == c->n_streams + (c->taken != NULL) && n.streams <= c->limits.streams);
	CHECK(c, n.connections >= n.busy && n.connections <= c->limits.connections);
}

static void step(struct chaos *c)
{
	for (unsigned n = rnd(c, 4) + 1; n > 0; n--) {
		if (!rnd(c, 30))
			c->rig.now_ms += rnd(c, !rnd(c, 10) ? 200000 : !rnd(c, 3) ? 8000 : 100);
		else if (!rnd(c, 8))
			act_on_any(c);
		else
			client_step(c, rnd(c, CLIENTS));
	}
	assert_int_equal(loop_turn(c->rig.loop, 0, &(struct err){ 0 }), 0);
	check(c);
}

/* With clients and clock at rest the loop soon waits: twice in a row, as one busy turn may take that long. */
static void check_rest(struct chaos *c)
{
	unsigned waits = 0;

	for (int turns = 0; turns < REST_TURNS && waits < 2; turns++) {
		uint64_t began_us = clock_mono_us();
		unsigned long was[EVENTS];

		memcpy(was, c->events, sizeof(was));
		assert_int_equal(loop_turn(c->rig.loop, 1, &(struct err){ 0 }), 0);
		waits = memcmp(was, c->events, sizeof(was)) || clock_mono_us() - began_us < 1000 ? 0 : waits + 1;
	}
	CHECK(c, waits == 2);
}

static void leave(struct chaos *c)
{
	for (int i = 0; i < CLIENTS; i++)
		closep(&c->clients[i]);
	memset(c->clients, -1, sizeof(c->clients));
	transport_close(take_ptr(&c->taken));
}

static void run(unsigned seed, unsigned long *events)
{
	static const struct route routes[] = {
		{ "*", "/read", handle, ROUTE_STREAM_IN, BODY_MAX }, { "*", "/whole", handle, 0, BODY_MAX },
		{ "GET", "/get", handle, 0, 0 }, { 0 },
	};
	struct chaos c = { .seed = seed, .rng = seed, .events = events, .limits = HTTP_LIMITS };
	struct http_counts n;

	c.limits.connections = CLIENTS - 2;
	c.limits.streams = 8;
	c.rig.service = (struct http_service){ .ctx = &c, .finished = finished };
	c.file = memfd_create("chaos", MFD_CLOEXEC);
	assert_int_equal(ftruncate(c.file, BLOCK * 3 / 4), 0);
	memset(c.clients, -1, sizeof(c.clients));
	rig_start(&c.rig, routes, &c.limits);
	for (; c.step < STEPS; c.step++) {
		step(&c);
		if (c.step % REST_EVERY == 0)
			check_rest(&c);
	}
	if (seed % 2 == 0) { /* or the server is freed as it is */
		leave(&c);
		check_rest(&c);
		rig_wait(&c.rig, c.limits.silent_ms); /* the longest of all: an hour */
	}
	n = http_server_counts(c.rig.server);
	CHECK(&c, seed % 2 == 1 || (n.connections == 0 && n.busy == 0 && n.streams == 0));
	rig_stop(&c.rig);
	CHECK(&c, c.finished == n.requests && c.n_jobs == 0 && c.n_streams == 0);
	leave(&c);
	(void)close(c.file);
}

static void every_handler_is_told_of_its_end_once(void **state)
{
	const char *soak = getenv("SOAK"), *one = getenv("CHAOS_SEED");
	unsigned long events[EVENTS] = { 0 };
	uint64_t seed = 0, end = SEEDS * (soak && *soak ? 50 : 1);

	(void)state;
	if (one && str_to_u64(str_of(one), 0, UINT32_MAX, &seed))
		end = seed + 1;
	for (; seed < end; seed++)
		run((unsigned)seed, events);
	for (int i = 0; i < EVENTS && !one; i++)
		if (events[i] == 0)
			fail_msg("nothing of kind %d happened", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_handler_is_told_of_its_end_once) };

	(void)signal(SIGPIPE, SIG_IGN); /* of sendfile(2) */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
