// SPDX-License-Identifier: Apache-2.0
/* box/preflight.h - checks of the host, as one table; each check tries the real operation (P6).
 *
 *     struct preflight_report report;
 *
 *     preflight_run(&(struct preflight_host){ .state_dir = dir, .is_start = true }, &report);
 *     if (preflight_refuse(&report, &problems, e) < 0) ...          everything that is missing, with cost and remedy
 *
 * Everything that a check creates (namespaces, mounts, a child) ends with it, also when this process is
 * killed. For processes with one thread. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct preflight_trial;

enum preflight_outcome {
	PREFLIGHT_OK,
	PREFLIGHT_WARNING, /* advised, and not so here */
	PREFLIGHT_MISSING, /* needed: no box can be made */
	PREFLIGHT_UNTRIED, /* needs root to be tried, or another row that is missing */
};

#define PREFLIGHT_DETAIL_MAX 256

/* A row of the table. Texts are for people: no full stop but between sentences. */
struct preflight_check {
	const char *group, *name;
	bool is_needed;   /* otherwise advised: it never is worse than a warning */
	bool needs_root;  /* to be tried */
	/* not at the start of the process that makes boxes: what uses it refuses by itself, by name */
	bool is_for_doctor;
	enum preflight_outcome (*probe)(const struct preflight_trial *t, const struct preflight_check *self,
					char *detail);
	const char *cost;   /* when it is missing */
	const char *remedy;
	const char *file;   /* of a setting, from the root on; good from min to max */
	int64_t min, max;
	bool is_absence_bad;
	unsigned number;    /* of a controller */
};

struct preflight_finding {
	const struct preflight_check *check;
	enum preflight_outcome outcome;
	char detail[PREFLIGHT_DETAIL_MAX]; /* what was found, in one line, or "" */
};

#define PREFLIGHT_FINDINGS_MAX 64
struct preflight_report {
	struct preflight_finding at[PREFLIGHT_FINDINGS_MAX];
	size_t n;
};

struct preflight_host {
	const char *root;      /* NULL: "/". Another tree is a test's, for the files that are read */
	const char *state_dir; /* the layers will be in it; it need not exist yet. NULL: "/" */
	bool is_start;         /* without the rows that are for doctor */
	bool no_disk_limit;    /* what only disk limits need is advised */
	const char *const *volumes; /* folders of the host that may be mounted into boxes */
	size_t n_volumes;
};

void preflight_run(const struct preflight_host *h, struct preflight_report *ret);

size_t preflight_count(const struct preflight_report *r, enum preflight_outcome outcome);
/* "ok", "warning", "missing", "untried" */
const char *preflight_outcome_name(enum preflight_outcome outcome);

/* 0 when nothing is missing; otherwise -1, the names of all that is in E, and to PROBLEMS a line for each:
 * what was found, what it costs, what to do. */
int preflight_refuse(const struct preflight_report *r, struct buf *problems, struct err *e);

/* Whether DIR can hold the writable layers of boxes: mounts one from a folder in it, which is removed again.
 * Needs root. PREFLIGHT_NOT_TRIED as the errno of an error: no overlay can be mounted anywhere, for which
 * there is a row. */
#define PREFLIGHT_NOT_TRIED ENOPKG /* which no call here gives */
int preflight_try_upper(const char *dir, struct err *e);

/* PATH up to the last part that exists, in OUT, which has room for as many bytes as PATH. */
void preflight_existing(const char *path, char *out, size_t size);
