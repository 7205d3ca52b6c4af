// SPDX-License-Identifier: Apache-2.0
#include "execd/command/session_shell.h"

#include <string.h>

#include "base/buf.h"

#include "base/banned.h"

/* The loop is no function, or `declare` in a command would be local to it. Everything around a command happens without
 * output, traps and tracing; the latter two are taken away after a command and given back in front of the next one. The
 * redirections of `eval` close our descriptors for what it runs: the shell keeps copies that no program inherits. No name
 * in /dev is used, where commands may have put anything. */
static const char bash_driver[] =
	"{ if [ -s /proc/self/fd/97 ]; then builtin . /proc/self/fd/97; fi; builtin cd -- \"$PWD\"; __osb_before=; } >&100 2>&1\n"
	"while { IFS= builtin read -r __osb_go <&98; } >&100 2>&1; do\n"
	"{ __osb_text=$(</proc/self/fd/96); } 2>&100\n"
	"builtin eval \"$__osb_before$__osb_text\" 96<&- 97>&- 98<&- 99>&- 100>&-\n"
	"{ __osb_status=$?\n"
	"  __osb_flags=$-; builtin set +xv\n"
	"  __osb_before=$(builtin trap -p DEBUG ERR RETURN)\n"
	"  builtin trap - DEBUG ERR RETURN\n"
	"  [ -z \"$__osb_before\" ] || __osb_before+=$'\\n'\n"
	"  case $__osb_flags in *v*) __osb_before+=$'set -v\\n' ;; esac\n"
	"  case $__osb_flags in *x*) __osb_before+=$'set -x\\n' ;; esac\n"
	"  { builtin set +o; builtin shopt -p; builtin declare -p; builtin declare -f; builtin alias -p; builtin trap -p; builtin umask -p\n"
	"  } >/proc/self/fd/97\n"
	"  builtin printf '%s\\n' \"$__osb_status\" >&99\n"
	"} >&100 2>&1\n"
	"done\n"
	"builtin exit 0\n";

/* Of sh nothing is expected that POSIX does not have. */
static const char sh_driver[] =
	"if [ -s /proc/self/fd/6 ]; then . /proc/self/fd/6; fi >&9 2>&1\n"
	"cd -- \"$PWD\" 2>&9 || cd /\n"
	"while IFS= read -r __osb_go <&7; do\n"
	"__osb_text=$(cat /proc/self/fd/5)\n"
	"eval \"$__osb_text\" 5<&- 6>&- 7<&- 8>&- 9>&-\n"
	"{ __osb_status=$?\n"
	"  set +xv\n"
	"  export PWD\n"
	"  export -p >/proc/self/fd/6\n"
	"  printf '%s\\n' \"$__osb_status\" >&8\n"
	"} >&9 2>&1\n"
	"done\n"
	"exit 0\n";

bool shell_is_bash(const char *shell)
{
	const char *slash = strrchr(shell, '/');

	return strcmp(slash ? slash + 1 : shell, "bash") == 0;
}

int shell_fds(const char *shell)
{
	return shell_is_bash(shell) ? 96 : 5;
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
