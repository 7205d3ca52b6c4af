// SPDX-License-Identifier: Apache-2.0
/* base/version.h - of all programs here. */
#pragma once
#define OPENSANDBOX_VERSION "0.1.0"
