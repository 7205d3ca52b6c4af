// SPDX-License-Identifier: Apache-2.0
/* Every reader of sys/cgroup_parse.h: the cursors move on and end, what they give is within its bounds, and a mount
 * written again from its fields reads back the same. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "sys/cgroup_parse.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_escaped(struct buf *b, const char *text)
{
	for (; *text; text++)
		buf_addf(b, "\\%03o", (unsigned)(unsigned char)*text);
}

static void write_mount(struct buf *b, const struct cgroup_mount *m)
{
	buf_addf(b, "1 2 %u:%u ", m->major, m->minor);
	add_escaped(b, m->root);
	buf_addf(b, " ");
	add_escaped(b, m->place);
	buf_addf(b, " %s tag - %s x rw", m->is_read_only ? "ro" : "rw", m->is_v2 ? "cgroup2" : "cgroup");
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if (m->controllers & CGROUP_BIT(c))
			buf_addf(b, ",%s", cgroup_controller_name(c, false));
}

static void check_mounts(struct str in)
{
	size_t before = in.n + 1;
	struct cgroup_mount m, back;

	while (cgroup_next_mount(&in, &m)) {
		AUTO(buf_done) struct buf b = BUF_INIT(65536);
		struct str again;

		if (in.n >= before || m.root[0] != '/' || m.place[0] != '/' || (!m.is_v2 && !m.controllers))
			abort();
		before = in.n;
		write_mount(&b, &m);
		again = buf_str(&b);
		if (b.failed || !cgroup_next_mount(&again, &back) || again.n > 0)
			abort();
		if (back.is_v2 != m.is_v2 || back.controllers != m.controllers || back.is_read_only != m.is_read_only ||
		    back.major != m.major || back.minor != m.minor || strcmp(back.place, m.place) != 0 ||
		    strcmp(back.root, m.root) != 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size }, in = text, own;
	uint64_t a = 0, b = 0;
	unsigned known, enabled;
	pid_t pid;

	check_mounts(text);
	while (cgroup_next_pid(&in, &pid))
		if (pid <= 0)
			abort();
	if (cgroup_parse_own(text, &own) && (own.n == 0 || own.p[0] != '/' || own.p < text.p || own.n > text.n))
		abort();
	cgroup_parse_kernel(text, &known, &enabled);
	if ((enabled & ~known) || (known & ~CGROUP_ALL))
		abort();
	(void)cgroup_parse_key(text, "oom_kill", &a);
	(void)cgroup_parse_number(text, &a);
	cgroup_parse_io(text, true, &a, &b);
	cgroup_parse_io(text, false, &a, &b);
	if (cgroup_parse_names(text, ' ', true) & ~CGROUP_ALL)
		abort();
	return 0;
}
