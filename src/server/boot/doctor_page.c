// SPDX-License-Identifier: Apache-2.0
#include "server/boot/doctor.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json_out.h"
#include "box/preflight.h"
#include "server/boot/version.h"

#include "base/banned.h"

#define NAME_WIDTH 18
#define TEXT_COLUMN (2 + 9 + NAME_WIDTH) /* where details begin, and what is below them */

/* ---- for people ---- */

static const char *colour_of(enum preflight_outcome o)
{
	static const char *const codes[] = {
		[PREFLIGHT_OK] = "32", [PREFLIGHT_WARNING] = "33", [PREFLIGHT_MISSING] = "31;1", [PREFLIGHT_UNTRIED] = "36",
	};

	return codes[o];
}

/* "  warning  " with the word in its colour; the blanks behind it have none. */
static void add_word(enum preflight_outcome o, bool colour, struct buf *out)
{
	const char *word = preflight_outcome_name(o);

	if (colour)
		buf_addf(out, "  \033[%sm%s\033[0m", colour_of(o), word);
	else
		buf_addf(out, "  %s", word);
	buf_addf(out, "%*s", (int)(9 - strlen(word)), "");
}

static void add_finding(const struct preflight_finding *f, bool colour, struct buf *out)
{
	const struct preflight_check *c = f->check;
	const char *detail = f->detail[0] == '\0' && f->outcome == PREFLIGHT_UNTRIED ? "needs root" : f->detail;

	add_word(f->outcome, colour, out);
	if (detail[0])
		buf_addf(out, "%-*s%s\n", NAME_WIDTH, c->name, detail);
	else
		buf_addf(out, "%s\n", c->name);
	if (f->outcome == PREFLIGHT_WARNING || f->outcome == PREFLIGHT_MISSING)
		buf_addf(out, "%*scost: %s\n%*sto do: %s\n", TEXT_COLUMN, "", c->cost, TEXT_COLUMN, "", c->remedy);
}

static void add_count(size_t n, const char *one, const char *many, struct buf *out)
{
	if (n > 0)
		buf_addf(out, ", %zu %s", n, n == 1 ? one : many);
}

static void add_closing(const struct preflight_report *r, struct buf *out)
{
	size_t missing = preflight_count(r, PREFLIGHT_MISSING), untried = preflight_count(r, PREFLIGHT_UNTRIED);

	if (missing > 0)
		buf_addf(out, "\nSandboxes cannot run here");
	else
		buf_addf(out, doctor_is_well(r) ? "\nSandboxes can run here" : "\nNothing is missing so far");
	buf_addf(out, ": %zu ok", preflight_count(r, PREFLIGHT_OK));
	add_count(preflight_count(r, PREFLIGHT_WARNING), "warning", "warnings", out);
	add_count(missing, "missing", "missing", out);
	add_count(untried, "untried", "untried", out);
	buf_addf(out, ".\n");
	if (untried > 0 && geteuid() != 0)
		buf_addf(out, "Run it as root for the checks that need it.\n");
}

void doctor_page(const struct preflight_report *r, bool colour, struct buf *out)
{
	const char *group = "";
	struct utsname u = { 0 };

	(void)uname(&u); /* cannot fail with memory of ours */
	buf_addf(out, "opensandbox-server " OPENSANDBOX_VERSION ", Linux %s, %s\n", u.release, u.machine);
	for (size_t i = 0; i < r->n; i++) {
		if (strcmp(group, r->at[i].check->group) != 0)
			buf_addf(out, "\n%s\n", r->at[i].check->group);
		group = r->at[i].check->group;
		add_finding(&r->at[i], colour, out);
	}
	add_closing(r, out);
}

/* ---- for programs ---- */

static void add_object(const struct preflight_finding *f, struct json_out *o)
{
	const struct preflight_check *c = f->check;
	bool is_bad = f->outcome == PREFLIGHT_WARNING || f->outcome == PREFLIGHT_MISSING;

	json_open(o, '{');
	json_key(o, "group"), json_cstr(o, c->group);
	json_key(o, "name"), json_cstr(o, c->name);
	json_key(o, "needed"), json_bool(o, c->is_needed);
	json_key(o, "outcome"), json_cstr(o, preflight_outcome_name(f->outcome));
	json_key(o, "detail"), json_cstr(o, f->detail);
	json_key(o, "cost"), json_cstr(o, is_bad ? c->cost : NULL);
	json_key(o, "remedy"), json_cstr(o, is_bad ? c->remedy : NULL);
	json_close(o, '}');
}

void doctor_json(const struct preflight_report *r, struct buf *out)
{
	struct json_out o = json_out(out);

	json_open(&o, '{');
	json_key(&o, "version"), json_cstr(&o, OPENSANDBOX_VERSION);
	json_key(&o, "can_run"), json_bool(&o, doctor_is_well(r));
	for (enum preflight_outcome i = PREFLIGHT_OK; i <= PREFLIGHT_UNTRIED; i++)
		json_key(&o, preflight_outcome_name(i)), json_uint(&o, preflight_count(r, i));
	json_key(&o, "checks"), json_open(&o, '[');
	for (size_t i = 0; i < r->n; i++)
		add_object(&r->at[i], &o);
	json_close(&o, ']');
	json_close(&o, '}');
	buf_add_char(out, '\n');
}
