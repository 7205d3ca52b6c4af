// SPDX-License-Identifier: Apache-2.0
#include "execd/session_shell.h"

#include <string.h>

#include "base/buf.h"

#include "base/banned.h"

/* The loop is no function, or `declare` in a command would be local to it. Everything around a command happens without
 * output, traps and tracing; the latter two are taken away after a command and given back in front of the next one. The
 * redirections of `eval` close our descriptors for what it runs: the shell keeps copies that no program inherits. */
static const char bash_driver[] =
	"{ if [ -s /dev/fd/97 ]; then builtin . /dev/fd/97; fi; builtin cd -- \"$PWD\"; __osb_before=; } >/dev/null 2>&1\n"
	"while { IFS= builtin read -r __osb_go <&98; } >/dev/null 2>&1; do\n"
	"{ __osb_text=$(</dev/fd/96); } 2>/dev/null\n"
	"builtin eval \"$__osb_before$__osb_text\" 96<&- 97>&- 98<&- 99>&-\n"
	"{ __osb_status=$?\n"
	"  __osb_flags=$-; builtin set +xv\n"
	"  __osb_before=$(builtin trap -p DEBUG ERR RETURN)\n"
	"  builtin trap - DEBUG ERR RETURN\n"
	"  [ -z \"$__osb_before\" ] || __osb_before+=$'\\n'\n"
	"  case $__osb_flags in *v*) __osb_before+=$'set -v\\n' ;; esac\n"
	"  case $__osb_flags in *x*) __osb_before+=$'set -x\\n' ;; esac\n"
	"  { builtin set +o; builtin shopt -p; builtin declare -p; builtin declare -f; builtin alias -p; builtin trap -p; builtin umask -p\n"
	"  } >/dev/fd/97\n"
	"  builtin printf '%s\\n' \"$__osb_status\" >&99\n"
	"} >/dev/null 2>&1\n"
	"done\n"
	"builtin exit 0\n";

/* Of sh nothing is expected that POSIX does not have. */
static const char sh_driver[] =
	"if [ -s /dev/fd/7 ]; then . /dev/fd/7; fi >/dev/null 2>&1\n"
	"cd -- \"$PWD\" 2>/dev/null || cd /\n"
	"while IFS= read -r __osb_go <&8; do\n"
	"__osb_text=$(cat /dev/fd/6)\n"
	"eval \"$__osb_text\" 6<&- 7>&- 8<&- 9>&-\n"
	"{ __osb_status=$?\n"
	"  set +xv\n"
	"  export PWD\n"
	"  export -p >/dev/fd/7\n"
	"  printf '%s\\n' \"$__osb_status\" >&9\n"
	"} >/dev/null 2>&1\n"
	"done\n"
	"exit 0\n";

bool shell_is_bash(const char *shell)
{
	const char *slash = strrchr(shell, '/');

	return strcmp(slash ? slash + 1 : shell, "bash") == 0;
}

int shell_fds(const char *shell)
{
	return shell_is_bash(shell) ? 96 : 6;
}

const char *shell_driver(const char *shell)
{
	return shell_is_bash(shell) ? bash_driver : sh_driver;
}

static void add_quoted(struct buf *out, struct str text)
{
	buf_add(out, "'", 1);
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\'')
			buf_add(out, "'\\''", 4);
		else
			buf_add(out, &text.p[i], 1);
	}
	buf_add(out, "'", 1);
}

void shell_first_state(struct buf *out, const char *cwd)
{
	buf_addf(out, "cd -- ");
	add_quoted(out, str_of(cwd));
	buf_addf(out, "\n");
}

void shell_script(struct buf *out, struct str command, const char *cwd)
{
	if (!cwd) {
		buf_add_str(out, command);
		return;
	}
	buf_addf(out, "cd -- ");
	add_quoted(out, str_of(cwd));
	buf_addf(out, " && eval ");
	add_quoted(out, command);
}
