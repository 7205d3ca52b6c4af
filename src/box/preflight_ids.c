// SPDX-License-Identifier: Apache-2.0
#include "box/preflight_ids.h"

#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "box/preflight_impl.h"
#include "box/slot.h"
#include "box/volume.h"
#include "sys/caps.h"
#include "sys/fd.h"
#include "sys/userns.h"

#include "base/banned.h"

#define FILE_MAX_BYTES ((size_t)16 * 1024 * 1024) /* some 200,000 accounts */
#define NOBODY 65534
#define FIRST_ID ((uint64_t)SLOT_ID_BASE)
#define LAST_ID (FIRST_ID + (uint64_t)SLOT_NUMBER_MAX * USERNS_IDS - 1)

static bool parse_claim(struct str line, enum id_file kind, struct id_claim *ret)
{
	struct str second, third, rest;
	uint64_t count = 1;

	if (!str_cut(line, ':', &ret->name, &rest) || !str_cut(rest, ':', &second, &rest))
		return false;
	(void)str_cut(rest, ':', &third, &rest);
	if (kind == ID_FILE_RANGES && !str_to_u64(str_trim(third), 1, UINT32_MAX, &count))
		return false;
	if (!str_to_u64(str_trim(kind == ID_FILE_RANGES ? second : third), 0, UINT32_MAX, &ret->first))
		return false;
	ret->last = ret->first + count - 1; /* both are below 2^32 */
	return true;
}

bool id_claim_find(struct str text, enum id_file kind, uint64_t first, uint64_t last, struct id_claim *ret)
{
	struct id_claim c;
	struct str line;

	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		if (!parse_claim(line, kind, &c) || c.first > last || c.last < first)
			continue;
		*ret = c;
		return true;
	}
	return false;
}

/* ---- the probe ---- */

static const struct {
	const char *path;
	enum id_file kind;
} files[] = {
	{ "etc/passwd", ID_FILE_ACCOUNTS },
	{ "etc/group", ID_FILE_ACCOUNTS },
	{ "etc/subuid", ID_FILE_RANGES },
	{ "etc/subgid", ID_FILE_RANGES },
};

/* Text that is not the kernel's is not read with root's rights. */
static int drop_rights(struct err *e)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return err_sys(e, errno, "become nobody");
	return caps_set(0, e);
}

static int check_file(int root, size_t i, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(FILE_MAX_BYTES);
	struct err why = { 0 };
	struct id_claim c;

	if (fd_read_file(root, files[i].path, FILE_MAX_BYTES, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*e = why;
		return -1;
	}
	if (!id_claim_find(buf_str(&b), files[i].kind, FIRST_ID, LAST_ID, &c) &&
	    !id_claim_find(buf_str(&b), files[i].kind, VOLUME_ID_BASE, VOLUME_ID_BASE + USERNS_IDS - 1, &c))
		return 0;
	return err_set(e, ERR_CONFLICT, "'%s' has %" PRIu64 " to %" PRIu64 " in /%s", SHOWN(c.name), c.first, c.last,
		       files[i].path);
}

static int try_ids(void *arg, struct err *e)
{
	const struct preflight_trial *t = arg;

	if (drop_rights(e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (check_file(t->root, i, e) < 0)
			return -1;
	return 0;
}

enum preflight_outcome probe_ids(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)self;
	if (trial_in_child(try_ids, (void *)(uintptr_t)t, &e) < 0)
		return preflight_tell(-1, &e, detail);
	preflight_say(detail, "%" PRIu64 " to %" PRIu64, FIRST_ID, LAST_ID);
	return PREFLIGHT_OK;
}
