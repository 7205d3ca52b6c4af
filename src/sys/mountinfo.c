// SPDX-License-Identifier: Apache-2.0
#include "sys/mountinfo.h"

#include <fcntl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "sys/fd.h"

#include "base/banned.h"

#define OPTIONAL_FIELDS_MAX 64 /* "shared:1 master:2 ...": the kernel knows four */

/* Fields are separated by one space each; the kernel escapes those inside. */
static bool next_field(struct str *line, struct str *ret)
{
	if (line->n == 0)
		return false;
	(void)str_cut(*line, ' ', ret, line);
	return true;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* "\040" is a space. What is no complete escape stays as it is: the kernel writes '\' itself as "\134". */
static char *unescape(struct str in, struct arena *a)
{
	char *out = arena_strndup(a, in.p, in.n);
	size_t n = 0;

	for (size_t i = 0; out && i < in.n; i++) {
		const char *c = in.p + i;

		if (in.n - i < 4 || c[0] != '\\' || c[1] > '3' || !is_octal(c[1]) || !is_octal(c[2]) || !is_octal(c[3])) {
			out[n++] = *c;
			continue;
		}
		out[n++] = (char)((c[1] - '0') << 6 | (c[2] - '0') << 3 | (c[3] - '0'));
		i += 3;
	}
	if (out)
		out[n] = '\0';
	return out;
}

static bool to_device(struct str s, struct mountinfo *m)
{
	struct str major, minor;
	uint64_t ma, mi;

	if (!str_cut(s, ':', &major, &minor) || !str_to_u64(major, 0, UINT32_MAX, &ma) ||
	    !str_to_u64(minor, 0, UINT32_MAX, &mi))
		return false;
	m->major = (uint32_t)ma;
	m->minor = (uint32_t)mi;
	return true;
}

/* The fields after the mount's options, up to and with the "-" that ends them. */
static bool skip_optional(struct str *line)
{
	struct str f;

	for (int i = 0; i <= OPTIONAL_FIELDS_MAX && next_field(line, &f); i++)
		if (str_is(f, "-"))
			return true;
	return false;
}

struct raw {
	struct str id, parent, device, root, place, options, fs, source, super;
};

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
static bool split(struct str line, struct raw *r)
{
	return memchr(line.p ? line.p : "", '\0', line.n) == NULL && next_field(&line, &r->id) &&
	       next_field(&line, &r->parent) && next_field(&line, &r->device) && next_field(&line, &r->root) &&
	       next_field(&line, &r->place) && next_field(&line, &r->options) && skip_optional(&line) &&
	       next_field(&line, &r->fs) && next_field(&line, &r->source) && next_field(&line, &r->super);
}

int mountinfo_parse(struct str line, struct arena *a, struct mountinfo *ret, struct err *e)
{
	struct mountinfo m = { 0 };
	struct raw r;

	if (!split(line, &r) || !str_to_u64(r.id, 0, UINT64_MAX, &m.id) ||
	    !str_to_u64(r.parent, 0, UINT64_MAX, &m.parent) || !to_device(r.device, &m))
		return err_set(e, ERR_INVALID, "mountinfo: not a mount: '%s'", SHOWN(line));
	m.root = unescape(r.root, a);
	m.place = unescape(r.place, a);
	m.options = unescape(r.options, a);
	m.fs = unescape(r.fs, a);
	m.source = unescape(r.source, a);
	if (!m.root || !m.place || !m.options || !m.fs || !m.source)
		return err_no_memory(e);
	*ret = m;
	return 0;
}

bool mountinfo_is_below(const char *place, const char *prefix)
{
	struct str p = str_of(place), with = str_of(prefix);

	while (with.n > 0 && with.p[with.n - 1] == '/')
		with.n--;
	return str_starts(p, with) && (p.n == with.n || p.p[with.n] == '/');
}

static size_t count_lines(struct str text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n + 1;
}

int mountinfo_select(struct str text, const char *prefix, struct arena *a, struct mountinfo_list *ret, struct err *e)
{
	struct mountinfo_list list = { 0 };
	struct str line;
	size_t lines = count_lines(text);

	if (lines > MOUNTINFO_ROWS_MAX)
		return err_set(e, ERR_LIMIT, "mountinfo: more than %d mounts", MOUNTINFO_ROWS_MAX);
	list.rows = arena_array(a, lines, sizeof(*list.rows));
	if (!list.rows)
		return err_no_memory(e);
	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		if (mountinfo_parse(line, a, &list.rows[list.n], e) < 0)
			return -1;
		list.n += mountinfo_is_below(list.rows[list.n].place, prefix);
	}
	*ret = list;
	return 0;
}

int mountinfo_list(const char *prefix, struct arena *a, struct mountinfo_list *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(MOUNTINFO_BYTES_MAX);

	if (fd_read_file(AT_FDCWD, "/proc/thread-self/mountinfo", MOUNTINFO_BYTES_MAX, &text, e) < 0)
		return -1;
	return mountinfo_select(buf_str(&text), prefix, a, ret, e);
}
