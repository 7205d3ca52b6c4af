// SPDX-License-Identifier: Apache-2.0
#include "sys/limits.h"

#include <errno.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

static int apply(const struct limit *l)
{
	struct rlimit now, want = { l->value, l->value };

	if (l->or_less) {
		if (prlimit(0, l->resource, NULL, &now) < 0)
			return -1;
		want.rlim_cur = want.rlim_max = MIN(l->value, now.rlim_max); /* RLIM_INFINITY is the largest number */
	}
	return prlimit(0, l->resource, &want, NULL);
}

int limits_apply(const struct limit *limits, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (apply(&limits[i]) < 0)
			return err_sys(e, errno, "set resource limit %d to %llu", limits[i].resource,
				       (unsigned long long)limits[i].value);
	return 0;
}

void limits_raise(int resource)
{
	struct rlimit l;

	if (getrlimit(resource, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(resource, &l); /* then with what there is */
}
