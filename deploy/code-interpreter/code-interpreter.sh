#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The entrypoint that clients of code interpreters name. There is nothing to start: execd runs the kernels itself.
trap 'exit 0' TERM INT
while :; do
	sleep 3600 &
	wait $!
done
