// SPDX-License-Identifier: Apache-2.0
/* server/runtime_native.h - the embedded runtime: asks the warden, which does everything that needs privileges. */
#pragma once
struct err;
struct loop;
struct runtime;

/* PATH is the warden's socket. It need not be there yet: it is tried again until it is, and after it went away. */
struct runtime *runtime_native(struct loop *l, const char *path, struct err *e);
