// SPDX-License-Identifier: Apache-2.0
/* Which kernel this is, and whether the tests run on it. What it can do is for the other rows to find out. */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/preflight_impl.h"

#include "base/banned.h"

/* As README names them. */
static const struct {
	const char *version, *where;
} tried[] = {
	{ "6.1", "Debian 12" },
	{ "6.12", "Debian 13" },
	{ "6.18", "with v1 control groups" },
};

/* "6.1" is "6.1.0-44-amd64" and not "6.12.41". */
static bool is_version(const char *release, const char *version)
{
	size_t n = strlen(version);

	return strncmp(release, version, n) == 0 && (release[n] < '0' || release[n] > '9');
}

static void add_tried(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(tried); i++)
		buf_addf(out, "%s%s (%s)", i > 0 ? ", " : "", tried[i].version, tried[i].where);
}

enum preflight_outcome probe_version(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	AUTO(buf_done) struct buf release = BUF_INIT(PREFLIGHT_FILE_MAX);
	AUTO(buf_done) struct buf all = BUF_INIT(PREFLIGHT_DETAIL_MAX);
	struct err e = { 0 };

	if (preflight_read(t, self->file, &release, &e) < 0)
		return preflight_tell(-1, &e, detail);
	for (size_t i = 0; i < ARRAY_LEN(tried); i++) {
		if (is_version(buf_z(&release), tried[i].version)) {
			preflight_say(detail, "%s, tried: %s", buf_z(&release), tried[i].where);
			return PREFLIGHT_OK;
		}
	}
	add_tried(&all);
	preflight_say(detail, "%s, not one of those that were tried: %s", buf_z(&release), buf_z(&all));
	return PREFLIGHT_WARNING;
}
