// SPDX-License-Identifier: Apache-2.0
/* execd/files/glob.h - patterns of file names, matched in time linear in the name.
 *
 *     *          any characters but '/'            [a-z] [!x] [^x]   one of a class; '\' escapes inside, too
 *     ?          one character but '/'             {a,b{c,d},}       alternatives, nested, also empty
 *     **         as a whole segment: any segments  !(pat)            what the pattern with pat here does not match
 *     \x         x itself
 *
 * Characters are those of UTF-8; a byte that is none of it counts as a character of its own, which a class or
 * '?' matches but only the same byte names. Dots and case are nothing special. Invalid: an open '[', '{' or
 * escape, an empty class, a class that begins with ']', a range that runs backwards, a '!' without a closed
 * group.
 *
 * A pattern is compiled to a small program per variant; alternatives that hold a negation are the only ones
 * that are multiplied out, up to GLOB_VARIANTS_MAX. A match keeps the set of all places in the program where
 * it could be: no input makes it look at a character twice. */
#pragma once
#include <stdbool.h>

#include "base/own.h"
#include "base/str.h"

struct err;
struct glob;

#define GLOB_BYTES_MAX 1024
#define GLOB_DEPTH_MAX 16
#define GLOB_VARIANTS_MAX 64

struct glob *glob_new(struct str pattern, struct err *e); /* ERR_INVALID */
void glob_free(struct glob *g);
DEFINE_AUTO(struct glob *, glob_free)

bool glob_has_slash(const struct glob *g); /* then it is for a path, else for the last component alone */
bool glob_matches(struct glob *g, struct str name);
