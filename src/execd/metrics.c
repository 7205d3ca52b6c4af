// SPDX-License-Identifier: Apache-2.0
#include "execd/metrics.h"

#include <fcntl.h>
#include <sched.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/own.h"
#include "execd/execd.h"
#include "net/http/sse.h"
#include "sys/cgroup_parse.h"
#include "sys/fd.h"

#include "base/banned.h"

#define PROC_TEXT_MAX (256 * 1024) /* /proc/stat has a line for each CPU, and one for interrupts */
#define USER_HZ_US 10000           /* the unit of /proc/stat */
#define CODE_UNAVAILABLE "METRICS_UNAVAILABLE"
#define JSON_MAX 512

/* Somebody who waits for a look: once, or for each. */
struct metrics_reader {
	struct metrics *of;
	struct metrics_reader *prev, *next;
	struct reply *rp;
	bool watches;
};

/* ---- looking ---- */

static unsigned usable_cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return n > 0 ? (unsigned)n : 1;
}

static bool read_proc(const char *path, struct buf *text)
{
	return fd_read_file(AT_FDCWD, path, PROC_TEXT_MAX, text, &(struct err){ 0 }) == 0; /* without /proc nothing is known */
}

/* "MemTotal:       16384 kB" */
static uint64_t meminfo_bytes(struct str text, const char *key)
{
	struct str line, name, rest, number;
	uint64_t kib;

	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		if (str_cut(line, ':', &name, &rest) && str_is(name, key) && str_take_word(&rest, &number, 20) &&
		    str_to_u64(number, 0, UINT64_MAX / 1024, &kib))
			return kib * 1024;
	}
	return 0;
}

static bool host_memory(struct metrics_look *l)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PROC_TEXT_MAX);
	uint64_t idle;

	if (!read_proc("/proc/meminfo", &b))
		return false;
	l->memory_total_bytes = meminfo_bytes(buf_str(&b), "MemTotal");
	idle = meminfo_bytes(buf_str(&b), "MemFree") + meminfo_bytes(buf_str(&b), "Buffers") +
	       meminfo_bytes(buf_str(&b), "Cached");
	l->memory_bytes = l->memory_total_bytes - MIN(l->memory_total_bytes, idle);
	return l->memory_total_bytes > 0;
}

/* "cpu  user nice system idle iowait irq softirq steal ...": all of them but the fourth and fifth are work. The lines
 * "cpuN" tell how many there are. */
static bool host_cpu(struct metrics_look *l)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PROC_TEXT_MAX);
	struct str text, line, word;
	uint64_t ticks, n_cpus = 0;

	if (!read_proc("/proc/stat", &b))
		return false;
	text = buf_str(&b);
	(void)str_cut(text, '\n', &line, &text);
	(void)str_take_word(&line, &word, 8);
	l->busy_us = 0;
	for (int i = 0; i < 8 && str_take_word(&line, &word, 20); i++)
		if (i != 3 && i != 4 && str_to_u64(word, 0, UINT64_MAX / USER_HZ_US / 8, &ticks))
			l->busy_us += ticks * USER_HZ_US;
	while (str_starts(text, STR("cpu"))) {
		n_cpus++;
		(void)str_cut(text, '\n', &line, &text);
	}
	l->capacity_milli = MAX(n_cpus, UINT64_C(1)) * 1000;
	return true;
}

static bool look(const struct metrics *m, struct metrics_look *ret)
{
	struct metrics_look l = { .at_us = clock_mono_us(), .cpu_count = usable_cpus() };
	struct cgroup_usage u;

	cgroup_gauges_read(&m->gauges, &u);
	if ((u.has & CGROUP_HAS_MEMORY) && (u.has & CGROUP_HAS_MEMORY_LIMIT)) {
		l.memory_total_bytes = u.memory_limit_bytes;
		l.memory_bytes = MIN(u.memory_bytes, u.memory_limit_bytes);
	} else if (!m->sees_host || !host_memory(&l)) {
		return false;
	}
	if ((u.has & CGROUP_HAS_CPU) && ((u.has & CGROUP_HAS_CPU_LIMIT) || !m->sees_host)) {
		uint64_t all = l.cpu_count * UINT64_C(1000);

		l.busy_us = u.cpu_us;
		l.capacity_milli = u.has & CGROUP_HAS_CPU_LIMIT ? MIN(u.cpu_limit_milli, all) : all;
		l.cpu_count = (unsigned)MAX(l.capacity_milli / 1000, UINT64_C(1));
	} else if (!m->sees_host || !host_cpu(&l)) {
		return false;
	}
	*ret = l;
	return true;
}

double metrics_cpu_pct(const struct metrics_look *before, const struct metrics_look *now)
{
	double span, busy;

	if (now->at_us <= before->at_us || now->busy_us <= before->busy_us || now->capacity_milli == 0)
		return 0;
	span = (double)(now->at_us - before->at_us) * (double)now->capacity_milli / 1000;
	busy = (double)(now->busy_us - before->busy_us);
	return busy >= span ? 100 : 100 * busy / span;
}

/* ---- telling ---- */

static double rounded(double v)
{
	return (double)(int64_t)(v * 100 + 0.5) / 100;
}

void metrics_write(const struct metrics_look *l, double cpu_pct, struct buf *json)
{
	struct json_out o = json_out(json);
	double total = rounded((double)l->memory_total_bytes / (1 << 20)), used = rounded((double)l->memory_bytes / (1 << 20));

	json_open(&o, '{');
	json_key(&o, "cpu_count"), json_uint(&o, l->cpu_count);
	json_key(&o, "cpu_used_pct"), json_real(&o, rounded(cpu_pct));
	json_key(&o, "mem_total_mib"), json_real(&o, total);
	json_key(&o, "mem_used_mib"), json_real(&o, used);
	json_key(&o, "cpu_used_percentage"), json_real(&o, rounded(cpu_pct));
	json_key(&o, "memory_total_in_mib"), json_real(&o, total);
	json_key(&o, "memory_used_in_mib"), json_real(&o, used);
	json_key(&o, "timestamp"), json_int(&o, clock_wall_us() / 1000);
	json_close(&o, '}');
}

static void reader_free(struct metrics_reader *r)
{
	*(r->prev ? &r->prev->next : &r->of->readers) = r->next;
	if (r->next)
		r->next->prev = r->prev;
	free(r);
}

/* A reader who is behind is told the next time. */
static void tell_watcher(struct metrics_reader *r)
{
	AUTO(buf_done) struct buf json = BUF_INIT(JSON_MAX);
	AUTO(buf_done) struct buf event = BUF_INIT(JSON_MAX);

	metrics_write(&r->of->last, r->of->cpu_pct, &json);
	if (!json.failed && sse_json_event(&event, buf_str(&json)) && reply_room(r->rp) >= event.n)
		reply_write(r->rp, buf_str(&event));
}

static void tell(struct metrics_reader *r)
{
	AUTO(buf_done) struct buf json = BUF_INIT(JSON_MAX);
	struct reply *rp = r->rp;

	if (r->watches) {
		tell_watcher(r);
		return;
	}
	metrics_write(&r->of->last, r->of->cpu_pct, &json);
	reader_free(r);
	(void)reply_json(rp, 200, &json);
}

/* ---- when ---- */

static bool is_fresh(const struct metrics *m)
{
	return m->is_measured && clock_mono_us() - m->last.at_us < 2 * METRICS_TICK_MS * UINT64_C(1000);
}

static void on_tick(void *arg)
{
	struct metrics *m = arg;
	struct metrics_look now;
	struct metrics_reader *next;

	if (look(m, &now)) {
		m->cpu_pct = metrics_cpu_pct(&m->last, &now);
		m->last = now;
		m->is_measured = true;
	}
	for (struct metrics_reader *r = m->readers; r; r = next) {
		next = r->next;
		tell(r);
	}
	if (m->readers || loop_now_ms(m->loop) - m->asked_ms < METRICS_STAY_MS)
		timer_in(&m->tick, METRICS_TICK_MS);
}

/* Sees to it that looks are taken. False: nothing can be seen. */
static bool begin(struct metrics *m)
{
	m->asked_ms = loop_now_ms(m->loop);
	if (is_fresh(m) && m->tick.at == 0)
		timer_in(&m->tick, METRICS_TICK_MS); /* the last look was meant to be the last one */
	if (is_fresh(m) || (!m->is_measured && m->tick.at != 0))
		return true;
	m->is_measured = false;
	if (!look(m, &m->last))
		return false;
	timer_in(&m->tick, METRICS_FIRST_MS);
	return true;
}

/* ---- routes ---- */

static void on_gone(void *arg)
{
	reader_free(arg);
}

static void on_proceed(void *arg)
{
	(void)arg;
}

static struct metrics_reader *reader_new(struct metrics *m, struct reply *rp, bool watches, struct err *e)
{
	struct metrics_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	*r = (struct metrics_reader){ .of = m, .next = m->readers, .rp = rp, .watches = watches };
	if (r->next)
		r->next->prev = r;
	m->readers = r;
	return r;
}

static int reply_unavailable(struct reply *rp)
{
	return reply_error(rp, 503, CODE_UNAVAILABLE, "what the sandbox uses cannot be measured here");
}

int metrics_get(struct request *rq, struct reply *rp, struct err *e)
{
	struct metrics *m = &execd_of(rq)->metrics;
	struct metrics_reader *r;

	if (!begin(m))
		return reply_unavailable(rp);
	r = reader_new(m, rp, false, e);
	if (!r)
		return -1;
	if (!is_fresh(m))
		return reply_hold(rp, on_gone, r);
	tell(r);
	return 0;
}

int metrics_watch(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_gone };
	struct execd *x = execd_of(rq);
	struct metrics_reader *r;

	if (x->is_stopping || !begin(&x->metrics))
		return reply_unavailable(rp);
	r = reader_new(&x->metrics, rp, true, e);
	if (!r)
		return -1;
	if (reply_event_stream(rp, &source, r, e) < 0) {
		reader_free(r);
		return -1;
	}
	if (is_fresh(&x->metrics))
		tell(r);
	return 0;
}

/* ---- life ---- */

int metrics_init(struct metrics *m, struct loop *l, const struct cgroup_gauges *gauges, bool sees_host, struct err *e)
{
	*m = (struct metrics){ .loop = l, .gauges = *gauges, .sees_host = sees_host };
	return timer_init(&m->tick, l, on_tick, m, "metrics", e);
}

void metrics_stop(struct metrics *m)
{
	struct metrics_reader *next;

	for (struct metrics_reader *r = m->readers; r; r = next) {
		struct reply *rp = r->rp;

		next = r->next;
		if (!r->watches)
			continue;
		reader_free(r);
		reply_end(rp);
	}
}

/* Answers that are still owed are cut with their connections. */
void metrics_done(struct metrics *m)
{
	while (m->readers) {
		struct reply *rp = m->readers->rp;

		reader_free(m->readers);
		reply_abort(rp);
	}
	timer_done(&m->tick);
	cgroup_gauges_done(&m->gauges);
}
