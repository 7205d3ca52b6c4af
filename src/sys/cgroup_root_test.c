// SPDX-License-Identifier: Apache-2.0
/* Control groups on the kernel that is there. Each test has a top group of its own name, which is killed and
 * removed afterwards whatever happened; without the rights to make groups the tests are skipped.
 *
 * Every test runs on what the host offers and, as "v1 only", as if the v2 hierarchy were not mounted. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/cgroup_control.h"
#include "sys/cgroup_devices.h"
#include "sys/cgroup_impl.h"
#include "sys/cgroup_limits.h"
#include "sys/cgroup_stats.h"
#include "sys/fd.h"

#include "base/banned.h"

#define SOON_MS 30000 /* on a machine that is busy with others, too */
#define OWNER "0123456789abcdef"
#define MIB (1024 * 1024)

struct host {
	struct cgroup_find how;
	struct cgroup_layout l;
	struct cgroup top, box, user;
	char name[48];
	bool is_there;
	unsigned handed_on; /* by the v2 root before we came */
};

#define ok(call) \
	do { \
		struct err e_ = { 0 }; \
		if ((call) < 0) \
			fail_msg("%s: %s", #call, e_.msg); \
	} while (0)

static unsigned v2_handed_on(const struct cgroup_layout *l)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct err e = { 0 };

	if (l->n == 0 || !l->at[0].is_v2 || cg_read(l->at[0].dir, "cgroup.subtree_control", &b, &e) <= 0)
		return 0;
	return cgroup_parse_names(buf_str(&b), ' ', true);
}

static int set_up(struct host *h)
{
	static unsigned count;
	struct err e = { 0 };

	if (geteuid() != 0 || cgroup_layout_find(&h->how, &h->l, &e) < 0)
		return 0;
	h->handed_on = v2_handed_on(&h->l);
	(void)snprintf(h->name, sizeof(h->name), "osb-test-%d-%u", (int)getpid(), count++);
	h->box = h->user = CGROUP_INIT;
	if (cgroup_open_top(&h->l, h->name, OWNER, &h->top, &e) < 0) {
		print_message("no groups can be made here: %s\n", e.msg);
		(void)cgroup_remove_top(&h->l, h->name, 0, &e);
		cgroup_layout_done(&h->l);
		return 0;
	}
	h->is_there = true;
	if (cgroup_make(&h->top, "b1", &h->box, &e) < 0 || cgroup_make(&h->box, "user", &h->user, &e) < 0) {
		print_message("%s\n", e.msg);
		return -1;
	}
	return 0;
}

/* The root of the host hands on what it did before. */
static int hand_on_no_more(struct host *h)
{
	unsigned now = v2_handed_on(&h->l) & ~h->handed_on;
	struct err e = { 0 };
	int r = 1;

	for (unsigned c = 0; r > 0 && c < CGROUP_CONTROLLERS; c++)
		if (now & CGROUP_BIT(c))
			r = cg_writef(h->l.at[0].dir, "cgroup.subtree_control", &e, "-%s", cgroup_controller_name(c, true));
	if (r > 0)
		return 0;
	print_message("%s\n", e.msg);
	return -1;
}

static struct host hosts[2] = { { .how = { 0 } }, { .how = { .v1_only = true } } };

static int set_up_host(void **state)
{
	*state = &hosts[0];
	return set_up(&hosts[0]);
}

static int set_up_v1(void **state)
{
	*state = &hosts[1];
	return set_up(&hosts[1]);
}

static int tear_down(void **state)
{
	struct host *h = *state;
	struct err e = { 0 };
	int r = 0;

	if (!h->is_there)
		return 0;
	h->is_there = false;
	h->l.has_kill = h->l.at[0].is_v2; /* a test may have said otherwise */
	if (cgroup_kill(&h->top, SOON_MS, &e) < 0 || cgroup_remove_top(&h->l, h->name, SOON_MS, &e) < 0) {
		print_message("%s\n", e.msg);
		r = -1;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	if (hand_on_no_more(h) < 0)
		r = -1;
	cgroup_done(&h->user);
	cgroup_done(&h->box);
	cgroup_done(&h->top);
	cgroup_layout_done(&h->l);
	return r;
}

static struct host *need_host(void **state)
{
	struct host *h = *state;

	if (!h->is_there)
		skip(); /* not root, no control groups, or not writable: set_up() said which */
	return h;
}

static void need(const struct host *h, enum cgroup_controller c)
{
	const char *why = cgroup_lack_text(&h->l, c);

	if (why) {
		print_message("no '%s' here: %s\n", cgroup_controller_name(c, false), why);
		skip();
	}
}

/* FN in a child that is in G before it starts; the child dies with us. */
static pid_t start_in(const struct cgroup *g, void (*fn)(void *arg), void *arg)
{
	AUTO(cgroup_entry_done) struct cgroup_entry entry = { 0 };
	struct err e = { 0 };
	pid_t pid;

	if (cgroup_entry_open(g, &entry, &e) < 0)
		fail_msg("%s", e.msg);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (cgroup_enter(entry.fds, entry.n, &e) < 0)
			_exit(99);
		fn(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void sleep_ms(long ms)
{
	(void)nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void be_idle(void *arg)
{
	(void)arg;
	for (;;)
		(void)pause();
}

static void count_up(void *arg)
{
	volatile uint64_t *count = arg;

	for (;;)
		(*count)++;
}

/* What children change and we see. */
static void *shared(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static bool await_processes(const struct cgroup *g, uint64_t n)
{
	struct cgroup_stats s = { 0 };

	for (int i = 0; i < SOON_MS / 10; i++) {
		ok(cgroup_stats_read(g, &s, &e_));
		if (s.pids >= n)
			return true;
		sleep_ms(10);
	}
	return false;
}

static int is_one(pid_t pid, void *arg, struct err *e)
{
	(void)pid;
	(void)arg;
	(void)e;
	return 1;
}

static bool has_processes(const struct cgroup *g)
{
	struct err e = { 0 };
	int r = cgroup_each_process(g, is_one, NULL, &e);

	assert_true(r >= 0);
	return r > 0;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

static void making_again_finds_what_is_there_and_listing_shows_it(void **state)
{
	struct host *h = need_host(state);
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(cgroup_done) struct cgroup again = CGROUP_INIT, more = CGROUP_INIT;
	struct cgroup_names names;
	struct err e = { 0 };

	ok(cgroup_make(&h->top, "b1", &again, &e_));
	cgroup_done(&again);
	ok(cgroup_open(&h->box, "user", &again, &e_));
	ok(cgroup_make(&h->top, "b0", &more, &e_));
	ok(cgroup_list(&h->top, &a, &names, &e_));
	assert_int_equal(names.n, 2);
	assert_string_equal(names.names[0], "b0");
	assert_string_equal(names.names[1], "b1");
	assert_int_equal(cgroup_open(&h->top, "b2", &again, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	ok(cgroup_remove(&h->top, "b0", SOON_MS, &e_));
	ok(cgroup_remove(&h->top, "b0", SOON_MS, &e_));
	ok(cgroup_remove(&h->top, "b1", SOON_MS, &e_));
	ok(cgroup_list(&h->top, &a, &names, &e_));
	assert_int_equal(names.n, 0);
}

static void half_a_group_is_listed_completed_and_removed(void **state)
{
	struct host *h = need_host(state);
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(cgroup_done) struct cgroup whole = CGROUP_INIT;
	struct cgroup_names names;
	struct err e = { 0 };
	size_t last = h->l.n;

	while (h->top.dirs[--last] < 0)
		;
	assert_int_equal(mkdirat(h->top.dirs[last], "half", 0755), 0);
	ok(cgroup_list(&h->top, &a, &names, &e_));
	assert_int_equal(names.n, 2);
	if (last > 0)
		assert_int_equal(cgroup_open(&h->top, "half", &whole, &e), -1);
	ok(cgroup_make(&h->top, "half", &whole, &e_));
	assert_int_equal(unlinkat(h->top.dirs[last], "half", AT_REMOVEDIR), 0);
	ok(cgroup_remove(&h->top, "half", SOON_MS, &e_));
	ok(cgroup_list(&h->top, &a, &names, &e_));
	assert_int_equal(names.n, 1);
}

static void a_group_of_another_owner_is_not_touched(void **state)
{
	struct host *h = need_host(state);
	AUTO(cgroup_done) struct cgroup again = CGROUP_INIT;
	struct err e = { 0 };

	ok(cgroup_open_top(&h->l, h->name, OWNER, &again, &e_));
	cgroup_done(&again);
	assert_int_equal(cgroup_open_top(&h->l, h->name, "somebody-else", &again, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_non_null(strstr(e.msg, "another owner"));
}

static void a_group_without_a_tag_is_ours_only_when_it_is_unused(void **state)
{
	struct host *h = need_host(state);
	AUTO(cgroup_done) struct cgroup bare = CGROUP_INIT, child = CGROUP_INIT, again = CGROUP_INIT;
	struct cgroup_layout inner = h->l;
	struct err e = { 0 };

	/* The layout of someone who works below our top. */
	(void)snprintf(inner.base, sizeof(inner.base), "%s", h->name);
	(void)snprintf(inner.v2_base, sizeof(inner.v2_base), "%s", h->name);
	ok(cgroup_make(&h->top, "bare", &bare, &e_));
	ok(cgroup_make(&bare, "child", &child, &e_));
	assert_int_equal(cgroup_open_top(&inner, "bare", OWNER, &again, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_non_null(strstr(e.msg, "no owner's tag"));
	ok(cgroup_remove(&bare, "child", SOON_MS, &e_));
	ok(cgroup_open_top(&inner, "bare", OWNER, &again, &e_));
	ok(cgroup_remove_top(&inner, "bare", SOON_MS, &e_));
}

static void removing_waits_for_who_is_leaving_and_gives_up_on_who_stays(void **state)
{
	struct host *h = need_host(state);
	struct err e = { 0 };
	uint64_t start;
	pid_t pid = start_in(&h->user, be_idle, NULL), killer;

	assert_true(await_processes(&h->box, 1));
	start = clock_mono_ms();
	assert_int_equal(cgroup_remove(&h->top, "b1", 100, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	assert_true(clock_mono_ms() - start >= 100);
	killer = fork();
	if (killer == 0) {
		sleep_ms(100);
		_exit(kill(pid, SIGKILL) < 0);
	}
	ok(cgroup_remove(&h->top, "b1", SOON_MS, &e_));
	assert_true(clock_mono_ms() - start >= 200);
	assert_int_equal(waitpid(killer, NULL, 0), killer);
	assert_false(has_processes(&h->box)); /* gone is empty */
	ok(cgroup_kill(&h->box, SOON_MS, &e_));
	ok(cgroup_freeze(&h->box, SOON_MS, &e_));
}

static bool holds(int dir, pid_t pid)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct str in;
	pid_t listed;

	ok(cg_read(dir, "cgroup.procs", &b, &e_));
	in = buf_str(&b);
	while (cgroup_next_pid(&in, &listed))
		if (listed == pid)
			return true;
	return false;
}

#define SPLIT (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_PIDS))

static void who_comes_back_is_in_the_leaf_or_in_the_group_itself(void **state)
{
	struct host *h = need_host(state);
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, leaf = CGROUP_INIT, user = CGROUP_INIT;
	AUTO(cgroup_entry_done) struct cgroup_entry back = { 0 };
	struct err e = { 0 };
	pid_t pid;

	need(h, CGROUP_MEMORY);
	ok(cgroup_make(&h->top, "b2", &box, &e_));
	ok(cgroup_make_leaf(&box, "init", SPLIT, &leaf, &e_));
	ok(cgroup_make_for(&box, "user", SPLIT, &user, &e_));
	assert_int_equal(cgroup_has(&leaf, CGROUP_MEMORY), cg_is_v2(&box, CGROUP_MEMORY));
	ok(cgroup_entry_open_back(&box, &leaf, &user, &back, &e_));
	pid = fork();
	if (pid == 0) {
		AUTO(cgroup_entry_done) struct cgroup_entry there = { 0 };

		if (cgroup_entry_open(&user, &there, &e) < 0 || cgroup_enter(there.fds, there.n, &e) < 0 ||
		    cgroup_enter(back.fds, back.n, &e) < 0)
			_exit(1);
		be_idle(NULL);
	}
	assert_true(await_processes(&box, 1));
	for (int i = 0; i < SOON_MS / 10 && holds(cg_dir_for(&user, CGROUP_MEMORY), pid); i++)
		sleep_ms(10);
	for (int i = 0; i < SOON_MS / 10 && holds(cg_dir_for(&user, CGROUP_PIDS), pid); i++)
		sleep_ms(10);
	assert_false(holds(cg_dir_for(&user, CGROUP_MEMORY), pid) || holds(cg_dir_for(&user, CGROUP_PIDS), pid));
	assert_true(holds(cg_dir_for(cg_is_v2(&box, CGROUP_MEMORY) ? &leaf : &box, CGROUP_MEMORY), pid));
	assert_int_equal(kill(pid, SIGKILL), 0); /* nothing that kills groups has it */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void groups_share_what_the_top_has_for_all_of_them(void **state)
{
	struct host *h = need_host(state);
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	AUTO(cgroup_entry_done) struct cgroup_entry entry = { 0 };
	struct err e = { 0 };
	int at = h->l.where[CGROUP_DEVICES];
	pid_t pid;

	need(h, CGROUP_DEVICES);
	cgroup_layout_share(&h->l, CGROUP_BIT(CGROUP_DEVICES) | CGROUP_BIT(CGROUP_IO));
	ok(cgroup_make(&h->top, "b2", &box, &e_));
	assert_true(cgroup_has(&box, CGROUP_MEMORY));
	ok(cgroup_entry_open_shared(&h->top, &entry, &e_));
	if (h->l.at[at].is_v2)
		return;
	assert_false(cgroup_has(&box, CGROUP_DEVICES));
	assert_int_equal(faccessat(h->top.dirs[at], "b2", F_OK, 0), -1);
	pid = fork();
	if (pid == 0) {
		if (cgroup_enter(entry.fds, entry.n, &e) < 0)
			_exit(1);
		be_idle(NULL);
	}
	for (int i = 0; i < SOON_MS / 10 && !holds(h->top.dirs[at], pid); i++)
		sleep_ms(10);
	assert_true(holds(h->top.dirs[at], pid));
	assert_int_equal(kill(pid, SIGKILL), 0); /* no group of ours to be killed with */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ok(cgroup_remove(&h->top, "b2", SOON_MS, &e_));
}

/* ---- control ------------------------------------------------------------------------------------------- */

static void frozen_processes_do_nothing_until_thawed(void **state)
{
	struct host *h = need_host(state);
	volatile uint64_t *count = shared();
	uint64_t at;

	(void)start_in(&h->user, count_up, (void *)(uintptr_t)count);
	while (*count == 0)
		sleep_ms(1);
	ok(cgroup_freeze(&h->box, SOON_MS, &e_));
	at = *count;
	sleep_ms(50);
	assert_int_equal(*count, at);
	ok(cgroup_freeze(&h->box, SOON_MS, &e_));
	ok(cgroup_thaw(&h->box, SOON_MS, &e_));
	sleep_ms(50);
	assert_true(*count > at);
	ok(cgroup_freeze(&h->box, SOON_MS, &e_));
	ok(cgroup_kill(&h->box, SOON_MS, &e_)); /* the frozen die, too */
	assert_false(has_processes(&h->box));
	(void)munmap((void *)(uintptr_t)count, 4096);
}

static void an_empty_group_can_be_frozen_and_killed(void **state)
{
	struct host *h = need_host(state);

	ok(cgroup_freeze(&h->box, SOON_MS, &e_));
	ok(cgroup_thaw(&h->box, SOON_MS, &e_));
	ok(cgroup_kill(&h->box, SOON_MS, &e_));
	assert_false(has_processes(&h->box));
}

static void fork_bomb(void *arg)
{
	(void)arg;
	for (;;)
		(void)!fork();
}

/* By the list: pids.current also counts, for a moment, those whose fork is about to be refused. */
static unsigned count_processes(const struct cgroup *g)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	unsigned n = 0;
	struct str in;
	pid_t pid;

	ok(cg_read(cg_dir_for(g, CGROUP_FREEZER), "cgroup.procs", &b, &e_));
	in = buf_str(&b);
	while (cgroup_next_pid(&in, &pid))
		n++;
	return n;
}

static void check_fork_bomb(struct host *h)
{
	AUTO(cgroup_done) struct cgroup nested = CGROUP_INIT;
	struct cgroup_limits limits = { .pids = 300 };
	unsigned lacking = 1, count;

	need(h, CGROUP_PIDS);
	ok(cgroup_make(&h->user, "deeper", &nested, &e_));
	ok(cgroup_limit(&h->box, &limits, &lacking, &e_));
	assert_int_equal(lacking, 0);
	(void)start_in(&nested, fork_bomb, NULL); /* one: who is attached later may exceed the limit */
	assert_true(await_processes(&h->box, 300));
	count = count_processes(&nested);
	assert_true(count >= 290 && count <= 300);
	ok(cgroup_kill(&h->box, SOON_MS, &e_));
	ok(cgroup_remove(&h->top, "b1", SOON_MS, &e_));
}

static void a_fork_bomb_stays_in_its_limit_and_dies_at_once(void **state)
{
	check_fork_bomb(need_host(state));
}

static void a_fork_bomb_dies_without_the_kernels_own_kill_too(void **state)
{
	struct host *h = need_host(state);

	h->l.has_kill = false;
	check_fork_bomb(h);
}

/* ---- limits -------------------------------------------------------------------------------------------- */

static void eat_memory(void *arg)
{
	const size_t n = 256 * MIB;
	volatile char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
}

static void too_much_memory_kills_and_is_counted(void **state)
{
	struct host *h = need_host(state);
	struct cgroup_limits limits = { .memory_bytes = 64 * MIB, .no_swap = true };
	struct cgroup_stats s;
	unsigned lacking = 1;
	int status;
	pid_t pid;

	need(h, CGROUP_MEMORY);
	ok(cgroup_limit(&h->user, &limits, &lacking, &e_));
	assert_int_equal(lacking & CGROUP_LIMIT_MEMORY, 0);
	pid = start_in(&h->user, eat_memory, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ok(cgroup_stats_read(&h->box, &s, &e_)); /* what happened below counts */
	assert_true(s.has & CGROUP_STAT_OOM_KILLS);
	assert_int_equal(s.oom_kills, 1);
	if (s.has & CGROUP_STAT_MEMORY_PEAK)
		assert_true(s.memory_peak_bytes > 32 * MIB && s.memory_peak_bytes <= 65 * MIB);
}

static void memory_can_be_raised_and_lowered_with_swap_at_zero(void **state)
{
	static const uint64_t steps[] = { 64 * MIB, 128 * MIB, 32 * MIB, CGROUP_UNLIMITED, 16 * MIB };
	struct host *h = need_host(state);

	need(h, CGROUP_MEMORY);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct cgroup_limits limits = { .memory_bytes = steps[i], .no_swap = true };
		bool is_v2 = cg_is_v2(&h->box, CGROUP_MEMORY);
		uint64_t memory = 0, both = 0;
		unsigned lacking = 1;

		ok(cgroup_limit(&h->box, &limits, &lacking, &e_));
		ok(cg_read_number(cg_dir_for(&h->box, CGROUP_MEMORY), is_v2 ? "memory.max" : "memory.limit_in_bytes",
				  &memory, &e_));
		assert_true(memory == steps[i] || (steps[i] == CGROUP_UNLIMITED && memory > INT64_MAX / 2));
		if (!is_v2 && !(lacking & CGROUP_LIMIT_SWAP)) {
			ok(cg_read_number(cg_dir_for(&h->box, CGROUP_MEMORY), "memory.memsw.limit_in_bytes", &both, &e_));
			assert_int_equal(both, memory);
		}
	}
}

static void cpu_is_bounded_and_counted(void **state)
{
	struct host *h = need_host(state);
	struct cgroup_limits limits = { .cpu_milli = 200, .cpu_weight = 50, .io_weight = 200 };
	volatile uint64_t *count = shared();
	struct cgroup_stats before, after;
	unsigned lacking = 0;
	uint64_t start;

	need(h, CGROUP_CPU);
	ok(cgroup_limit(&h->box, &limits, &lacking, &e_));
	assert_int_equal(lacking & ~CGROUP_LIMIT_IO_WEIGHT, 0);
	(void)start_in(&h->user, count_up, (void *)(uintptr_t)count);
	while (*count == 0)
		sleep_ms(1);
	start = clock_mono_us();
	ok(cgroup_stats_read(&h->box, &before, &e_));
	sleep_ms(600);
	ok(cgroup_stats_read(&h->box, &after, &e_));
	assert_true(before.has & after.has & CGROUP_STAT_CPU);
	assert_true(after.cpu_usage_us > before.cpu_usage_us);
	assert_true(after.cpu_usage_us - before.cpu_usage_us < (clock_mono_us() - start) / 2);
	limits = (struct cgroup_limits){ .cpu_milli = 5 }; /* another period */
	ok(cgroup_limit(&h->box, &limits, &lacking, &e_));
	limits.cpu_milli = CGROUP_UNLIMITED;
	ok(cgroup_limit(&h->box, &limits, &lacking, &e_));
	(void)munmap((void *)(uintptr_t)count, 4096);
}

static void a_capped_group_has_a_tenth_until_the_cap_is_lifted(void **state)
{
	static const uint64_t rows[][3] = { { 1500, 3001, 150000 }, { 667, 1335, 66700 }, { 200, 20000, 20000 } }; /* the last: too little for that */
	struct host *h = need_host(state);
	unsigned lacking = 0;

	need(h, CGROUP_CPU);
	for (size_t i = 0; i < 4 * ARRAY_LEN(rows); i++) { /* what is so already stays */
		const uint64_t *row = rows[i / 4];
		AUTO(buf_done) struct buf b = BUF_INIT(64);
		struct str first, rest;
		uint64_t quota = 0;

		if (i % 4 == 0)
			ok(cgroup_limit(&h->box, &(struct cgroup_limits){ .cpu_milli = row[0] }, &lacking, &e_));
		ok(cgroup_cap_cpu(&h->box, ".", i % 4 < 2, &e_));
		ok(cg_read(cg_dir_for(&h->box, CGROUP_CPU), cg_is_v2(&h->box, CGROUP_CPU) ? "cpu.max" : "cpu.cfs_quota_us", &b, &e_));
		(void)str_cut(str_trim(buf_str(&b)), ' ', &first, &rest);
		assert_true(str_to_u64(first, 0, UINT32_MAX, &quota));
		assert_int_equal(quota, row[i % 4 < 2 ? 1 : 2]);
	}
}

static void huge_pages_are_forbidden_or_reported(void **state)
{
	struct host *h = need_host(state);
	unsigned lacking = 0;

	ok(cgroup_limit(&h->box, &(struct cgroup_limits){ .no_hugetlb = true }, &lacking, &e_));
	assert_int_equal(lacking, cgroup_lack_text(&h->l, CGROUP_HUGETLB) ? CGROUP_LIMIT_HUGETLB : 0);
}

/* ---- devices ------------------------------------------------------------------------------------------- */

static const struct cgroup_device devices[] = {
	{ 'c', 1, 3, CGROUP_DEVICE_READ | CGROUP_DEVICE_WRITE | CGROUP_DEVICE_MAKE }, /* null */
	{ 'c', 1, 5, CGROUP_DEVICE_READ },                                            /* zero */
	{ 'c', 136, CGROUP_DEVICE_ANY, CGROUP_DEVICE_READ | CGROUP_DEVICE_WRITE },    /* pts */
	{ 'b', CGROUP_DEVICE_ANY, CGROUP_DEVICE_ANY, CGROUP_DEVICE_MAKE },
};

static bool can_open(const char *path, int flags)
{
	AUTO_FD fd = open(path, flags | O_CLOEXEC);

	return fd >= 0;
}

static void use_devices(void *arg)
{
	int failed = 0;

	(void)arg;
	failed |= !can_open("/dev/null", O_RDWR) << 0;
	failed |= !can_open("/dev/zero", O_RDONLY) << 1;
	failed |= can_open("/dev/zero", O_RDWR) << 2;
	failed |= can_open("/dev/urandom", O_RDONLY) << 3;
	failed |= can_open("/dev/full", O_WRONLY) << 4;
	_exit(failed);
}

static void check_devices(const struct cgroup *g)
{
	pid_t pid = start_in(g, use_devices, NULL);
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void only_listed_devices_can_be_used(void **state)
{
	struct host *h = need_host(state);
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT, leaf = CGROUP_INIT;
	struct err e = { 0 };

	need(h, CGROUP_DEVICES);
	ok(cgroup_make(&h->top, "b2", &box, &e_));
	ok(cgroup_limit_devices(&box, devices, ARRAY_LEN(devices), &e_));
	ok(cgroup_make(&box, "leaf", &leaf, &e_));
	ok(cgroup_limit_devices(&box, devices, ARRAY_LEN(devices), &e_)); /* again, now with a group below */
	check_devices(&leaf);
	if (!cg_is_v2(&box, CGROUP_DEVICES)) {
		assert_int_equal(cgroup_limit_devices(&box, devices, 1, &e), -1);
		assert_int_equal(e.sys, EINVAL);
	}
}

/* Also on hybrid hosts, where v1's list is what we use. */
static void only_listed_devices_can_be_used_with_a_program(void **state)
{
	struct host *h = need_host(state);

	if (cgroup_clone_dir(&h->box) < 0)
		skip();
	ok(cg_devices_limit_v2(cgroup_clone_dir(&h->box), devices, ARRAY_LEN(devices), &e_));
	check_devices(&h->user);
	ok(cg_devices_limit_v2(cgroup_clone_dir(&h->box), devices, 1, &e_)); /* takes the other's place */
	assert_int_equal(cg_devices_limit_v2(cgroup_clone_dir(&h->user), devices, 1, &(struct err){ 0 }), -1);
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

static void what_freezes_is_enough_to_kill(void **state)
{
	struct host *h = need_host(state);
	AUTO(cgroup_done) struct cgroup part = CGROUP_INIT;
	struct err e = { 0 };
	pid_t pid;

	need(h, CGROUP_FREEZER);
	pid = start_in(&h->user, be_idle, NULL);
	assert_true(await_processes(&h->box, 1));
	ok(cgroup_open_for(&h->top, "b1", CGROUP_BIT(CGROUP_FREEZER), &part, &e_));
	assert_true(cgroup_has(&part, CGROUP_FREEZER));
	ok(cgroup_kill(&part, SOON_MS, &e_));
	assert_false(has_processes(&h->box));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cgroup_open_for(&h->top, "b9", CGROUP_BIT(CGROUP_FREEZER), &part, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void statistics_tell_of_processes_and_memory(void **state)
{
	struct host *h = need_host(state);
	struct cgroup_stats s = { 0 };

	need(h, CGROUP_PIDS);
	need(h, CGROUP_MEMORY);
	(void)start_in(&h->user, be_idle, NULL);
	(void)start_in(&h->user, be_idle, NULL);
	assert_true(await_processes(&h->box, 2));
	ok(cgroup_stats_read(&h->box, &s, &e_));
	assert_int_equal(s.pids, 2);
	assert_true(!(s.has & CGROUP_STAT_PIDS_PEAK) || s.pids_peak >= 2);
	assert_true((s.has & CGROUP_STAT_MEMORY) && s.memory_bytes < 64 * MIB);
	assert_int_equal(s.oom_kills, 0);
}

#define BOTH(fn) \
	{ #fn " (this host)", fn, set_up_host, tear_down, NULL }, { #fn " (v1 only)", fn, set_up_v1, tear_down, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(making_again_finds_what_is_there_and_listing_shows_it),
		BOTH(half_a_group_is_listed_completed_and_removed),
		BOTH(a_group_of_another_owner_is_not_touched),
		BOTH(a_group_without_a_tag_is_ours_only_when_it_is_unused),
		BOTH(removing_waits_for_who_is_leaving_and_gives_up_on_who_stays),
		BOTH(who_comes_back_is_in_the_leaf_or_in_the_group_itself),
		BOTH(groups_share_what_the_top_has_for_all_of_them),
		BOTH(frozen_processes_do_nothing_until_thawed),
		BOTH(an_empty_group_can_be_frozen_and_killed),
		BOTH(a_fork_bomb_stays_in_its_limit_and_dies_at_once),
		BOTH(a_fork_bomb_dies_without_the_kernels_own_kill_too),
		BOTH(too_much_memory_kills_and_is_counted),
		BOTH(memory_can_be_raised_and_lowered_with_swap_at_zero),
		BOTH(cpu_is_bounded_and_counted),
		BOTH(a_capped_group_has_a_tenth_until_the_cap_is_lifted),
		BOTH(huge_pages_are_forbidden_or_reported),
		BOTH(only_listed_devices_can_be_used),
		BOTH(only_listed_devices_can_be_used_with_a_program),
		BOTH(what_freezes_is_enough_to_kill),
		BOTH(statistics_tell_of_processes_and_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
