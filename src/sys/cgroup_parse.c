// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_parse.h"

#include "base/banned.h"

static const struct {
	const char *v1, *v2; /* NULL: not a controller there */
} names[CGROUP_CONTROLLERS] = {
	[CGROUP_MEMORY] = { "memory", "memory" },
	[CGROUP_CPU] = { "cpu", "cpu" },
	[CGROUP_CPUACCT] = { "cpuacct", NULL },
	[CGROUP_PIDS] = { "pids", "pids" },
	[CGROUP_IO] = { "blkio", "io" },
	[CGROUP_HUGETLB] = { "hugetlb", "hugetlb" },
	[CGROUP_DEVICES] = { "devices", NULL },
	[CGROUP_FREEZER] = { "freezer", NULL },
};

const char *cgroup_controller_name(enum cgroup_controller c, bool is_v2)
{
	return is_v2 && names[c].v2 ? names[c].v2 : names[c].v1;
}

static unsigned name_bit(struct str name, bool is_v2)
{
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		const char *known = is_v2 ? names[c].v2 : names[c].v1;

		if (known && str_is(name, known))
			return CGROUP_BIT(c);
	}
	return 0;
}

unsigned cgroup_parse_names(struct str text, char sep, bool is_v2)
{
	struct str rest = text, name;
	unsigned found = 0;

	while (rest.n > 0) {
		(void)str_cut(rest, sep, &name, &rest);
		found |= name_bit(str_trim(name), is_v2);
	}
	return found;
}

/* ---- mountinfo ----------------------------------------------------------------------------------------- */

static bool octal_at(struct str s, char *ret)
{
	unsigned v = 0;

	if (s.n < 4 || s.p[0] != '\\')
		return false;
	for (size_t i = 1; i < 4; i++) {
		if (s.p[i] < '0' || s.p[i] > '7')
			return false;
		v = v * 8 + (unsigned)(s.p[i] - '0');
	}
	*ret = (char)v;
	return v > 0 && v < 256;
}

/* Blanks and backslashes in names are written as octal escapes. */
static bool unescape(struct str in, char out[CGROUP_MOUNT_MAX + 1])
{
	size_t n = 0;

	while (in.n > 0) {
		char c = in.p[0];
		bool escaped = octal_at(in, &c);

		if (n == CGROUP_MOUNT_MAX || c == '\0')
			return false;
		out[n++] = c;
		in = str_skip(in, escaped ? 4 : 1);
	}
	out[n] = '\0';
	return n > 0;
}

static bool has_word(struct str list, const char *word)
{
	struct str rest = list, one;

	while (rest.n > 0) {
		(void)str_cut(rest, ',', &one, &rest);
		if (str_is(one, word))
			return true;
	}
	return false;
}

static bool parse_device(struct str text, struct cgroup_mount *m)
{
	struct str major, minor;
	uint64_t a, b;

	if (!str_cut(text, ':', &major, &minor) || !str_to_u64(major, 0, UINT32_MAX, &a) ||
	    !str_to_u64(minor, 0, UINT32_MAX, &b))
		return false;
	m->major = (unsigned)a;
	m->minor = (unsigned)b;
	return true;
}

/* ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [TAG...] - TYPE SOURCE SUPER-OPTIONS */
static bool parse_mount(struct str line, struct cgroup_mount *ret)
{
	struct str word[6] = { 0 }, type, source, super, tag;
	struct cgroup_mount m = { 0 };

	for (size_t i = 0; i < 6; i++)
		if (!str_take_word(&line, &word[i], CGROUP_FIELD_MAX))
			return false;
	do {
		if (!str_take_word(&line, &tag, CGROUP_FIELD_MAX))
			return false;
	} while (!str_is(tag, "-"));
	if (!str_take_word(&line, &type, CGROUP_FIELD_MAX) || !str_take_word(&line, &source, CGROUP_FIELD_MAX) ||
	    !str_take_word(&line, &super, CGROUP_FIELD_MAX))
		return false;
	m.is_v2 = str_is(type, "cgroup2");
	if (!m.is_v2 && !str_is(type, "cgroup"))
		return false;
	if (!m.is_v2)
		m.controllers = cgroup_parse_names(super, ',', false);
	if (!m.is_v2 && m.controllers == 0)
		return false;
	m.is_read_only = has_word(word[5], "ro") || has_word(super, "ro");
	if (!parse_device(word[2], &m) || !unescape(word[3], m.root) || !unescape(word[4], m.place))
		return false;
	*ret = m;
	return m.root[0] == '/' && m.place[0] == '/';
}

bool cgroup_next_mount(struct str *in, struct cgroup_mount *ret)
{
	struct str line;

	while (in->n > 0) {
		struct cgroup_mount m;

		(void)str_cut(*in, '\n', &line, in);
		if (parse_mount(line, &m)) {
			*ret = m;
			return true;
		}
	}
	return false;
}

/* ---- the other files of /proc -------------------------------------------------------------------------- */

bool cgroup_parse_own(struct str text, struct str *ret_path)
{
	struct str rest = text, line;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		if (!str_starts(line, STR("0::/")))
			continue;
		*ret_path = str_skip(line, 3);
		return true;
	}
	return false;
}

/* NAME HIERARCHY GROUPS ENABLED */
void cgroup_parse_kernel(struct str text, unsigned *ret_known, unsigned *ret_enabled)
{
	unsigned known = 0, enabled = 0;
	struct str rest = text, line, word[4];

	while (rest.n > 0) {
		size_t n = 0;
		unsigned bit;

		(void)str_cut(rest, '\n', &line, &rest);
		while (n < 4 && str_take_word(&line, &word[n], CGROUP_FIELD_MAX))
			n++;
		bit = n == 4 ? name_bit(word[0], false) : 0;
		known |= bit;
		if (bit && str_is(word[3], "1"))
			enabled |= bit;
	}
	*ret_known = known;
	*ret_enabled = enabled;
}

/* ---- the files of a group ------------------------------------------------------------------------------ */

bool cgroup_parse_key(struct str text, const char *key, uint64_t *ret)
{
	struct str rest = text, line, name, value;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		if (str_cut(line, ' ', &name, &value) && str_is(name, key))
			return str_to_u64(value, 0, UINT64_MAX, ret);
	}
	return false;
}

bool cgroup_parse_number(struct str text, uint64_t *ret)
{
	struct str word = str_trim(text);

	if (str_is(word, "max")) {
		*ret = UINT64_MAX;
		return true;
	}
	return str_to_u64(word, 0, UINT64_MAX, ret);
}

bool cgroup_parse_pressure(struct str text, uint64_t *ret_us)
{
	struct str line, word;

	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		if (!str_take_word(&line, &word, line.n) || !str_is(word, "some"))
			continue;
		while (str_take_word(&line, &word, line.n))
			if (str_starts(word, STR("total=")))
				return str_to_u64(str_skip(word, strlen("total=")), 0, UINT64_MAX, ret_us);
		return false;
	}
	return false;
}

bool cgroup_next_pid(struct str *in, pid_t *ret)
{
	struct str line;
	uint64_t v;

	while (in->n > 0) {
		(void)str_cut(*in, '\n', &line, in);
		if (str_to_u64(line, 1, INT32_MAX, &v)) {
			*ret = (pid_t)v;
			return true;
		}
	}
	return false;
}

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

/* "8:0 rbytes=1 wbytes=2 rios=3 ..." */
static void add_io_v2(struct str line, uint64_t *read, uint64_t *written)
{
	struct str word, key, value;
	uint64_t v;

	while (str_take_word(&line, &word, CGROUP_FIELD_MAX)) {
		if (!str_cut(word, '=', &key, &value) || !str_to_u64(value, 0, UINT64_MAX, &v))
			continue;
		if (str_is(key, "rbytes"))
			add(read, v);
		else if (str_is(key, "wbytes"))
			add(written, v);
	}
}

/* "8:0 Read 1", and a last line "Total 3". */
static void add_io_v1(struct str line, uint64_t *read, uint64_t *written)
{
	struct str device, kind, value;
	uint64_t v;

	if (!str_take_word(&line, &device, CGROUP_FIELD_MAX) || !str_take_word(&line, &kind, CGROUP_FIELD_MAX) ||
	    !str_take_word(&line, &value, CGROUP_FIELD_MAX) || !str_to_u64(value, 0, UINT64_MAX, &v))
		return;
	if (str_is(kind, "Read"))
		add(read, v);
	else if (str_is(kind, "Write"))
		add(written, v);
}

void cgroup_parse_io(struct str text, bool is_v2, uint64_t *ret_read, uint64_t *ret_written)
{
	uint64_t read = 0, written = 0;
	struct str rest = text, line;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		if (is_v2)
			add_io_v2(line, &read, &written);
		else
			add_io_v1(line, &read, &written);
	}
	*ret_read = read;
	*ret_written = written;
}
