# SPDX-License-Identifier: Apache-2.0
# Runs bash code for execd, which sends this to a bash that it has started, by the socket that is descriptor 250 there; 249 is a file for the state, 248 the null device.
# No name in /dev is used, where code may have put anything.
#
# Messages are those of python.py. The loop is no function, or `declare` in a run would be local to it. Everything around a run happens
# without output, traps and tracing; the latter two are taken away after it and given back in front of the next one. Redirections of
# `eval` close our descriptors for what it runs. What a run has left is written to the state: a run that ends the shell costs no more
# than what that run had changed, because the next shell begins with it. Interrupts end the shell, but not while it writes that.
{ if [ -s /proc/self/fd/249 ]; then builtin . /proc/self/fd/249; builtin cd -- "$PWD"; fi; __osb_before=; __osb_int=; builtin printf 'H0\n' >&250; } >&248 2>&1
while { IFS= builtin read -r -u 250 __osb_head && LC_ALL=C IFS= builtin read -r -N "${__osb_head#R}" -u 250 __osb_text; } >&248 2>&1; do
	{ builtin eval "${__osb_int:-builtin trap - INT}"; builtin printf 'B0\n' >&250; } 2>&248
	builtin eval "$__osb_before$__osb_text" 248>&- 249>&- 250>&-
	{
		__osb_status=$? __osb_int=$(builtin trap -p INT)
		builtin trap '' INT
		__osb_flags=$-
		builtin set +xv
		__osb_before=$(builtin trap -p DEBUG ERR RETURN)
		builtin trap - DEBUG ERR RETURN
		[ -z "$__osb_before" ] || __osb_before+=$'\n'
		case $__osb_flags in *v*) __osb_before+=$'set -v\n' ;; esac
		case $__osb_flags in *x*) __osb_before+=$'set -x\n' ;; esac
		{
			builtin set +o
			builtin shopt -p
			builtin declare -p
			builtin declare -f
			builtin alias -p
			builtin trap -p
			builtin umask -p
		} >/proc/self/fd/249
		builtin printf 'S%d\n%s' "${#__osb_status}" "$__osb_status" >&250
	} >&248 2>&1
done
builtin exit 0
