// SPDX-License-Identifier: Apache-2.0
/* base/banned.h - functions that fail to compile here. Include it last in every .c file.
 * Each has a bounded, checked or reentrant counterpart, mostly in base/str.h and base/buf.h. */
#pragma once

/* Some C libraries define these as macros, for fortification. */
#undef alloca
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strncpy strcat strncat stpcpy sprintf vsprintf gets strtok strtok_r
#pragma GCC poison atoi atol atoll atof strtol strtoll strtoul strtoull strtoimax scanf sscanf fscanf
#pragma GCC poison alloca system popen tmpnam tempnam mktemp ctime asctime gmtime localtime rand srand
#pragma GCC poison gethostbyname inet_ntoa inet_addr
