// SPDX-License-Identifier: Apache-2.0
/* base/version.h - the version of all programs. */
#pragma once
#define OPENSANDBOX_VERSION "0.1.0"
