// SPDX-License-Identifier: Apache-2.0
/* The passwd and group files of a sandbox, written by whoever is root in it. The input is the name to look for (up to the
 * first NUL), the passwd file (up to the next) and the group file. */
#include <stdlib.h>

#include "base/err.h"
#include "base/guest.h"
#include "execd/users.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct identity *id)
{
	if (id->uid > GUEST_ID_MAX || id->gid > GUEST_ID_MAX || id->n_groups > USERS_GROUPS_MAX)
		abort();
	for (size_t i = 0; i < id->n_groups; i++) {
		if (id->groups[i] > GUEST_ID_MAX || id->groups[i] == id->gid)
			abort();
		for (size_t k = 0; k < i; k++)
			if (id->groups[k] == id->groups[i])
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size }, name;
	struct users_files f;
	struct identity id, by_uid;
	struct err e = { 0 };
	struct user u;

	(void)str_cut(rest, '\0', &name, &rest);
	(void)str_cut(rest, '\0', &f.passwd, &f.group);
	if (identity_of_text(&f, name, &id, &e) == 0)
		check(&id);
	else if (e.code != ERR_INVALID)
		abort();
	if (passwd_by_name(f.passwd, name, &u)) {
		/* The first user of this id has a name that finds it again. */
		identity_of_uid(&f, u.uid, &by_uid);
		check(&by_uid);
		if (by_uid.uid != u.uid || !passwd_by_uid(f.passwd, u.uid, &u) || u.gid != by_uid.gid)
			abort();
	}
	return 0;
}
