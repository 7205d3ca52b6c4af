// SPDX-License-Identifier: Apache-2.0
/* server/api/parts.h - what exposes a plane to clients: its proxy, host ports, audit log, and request
 * rules. */
#pragma once
#include <stdint.h>

#include "server/api/create.h"

struct plane;
struct plane_parts;
struct request;

extern const struct plane_parts api_parts; /* for plane_spec */

/* What holds for everything that is made from a request; the caller adds what is its own. */
struct create_rules create_rules_of(const struct plane *p);
struct create_rules create_volume_rules_of(const struct plane *p); /* the same, for what may have volumes */

/* For service_spec. */
void parts_audit(const struct request *rq, unsigned status, uint64_t body_bytes);
/* P NULL: nobody keeps an audit */
void parts_audit_left_out(const struct plane *p, const char *what, uint64_t n);
