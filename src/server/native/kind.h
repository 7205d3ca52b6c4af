// SPDX-License-Identifier: Apache-2.0
/* server/native/kind.h - the native runtime as one of the kinds that the server can have. */
#pragma once
#include "server/runtime/kind.h"

extern const struct runtime_kind native_kind;
