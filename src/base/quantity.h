// SPDX-License-Identifier: Apache-2.0
/* base/quantity.h - amounts with a unit: "500m" CPUs, "512Mi".
 *
 * All functions return ERR_INVALID with a message that names the mistake ("bad memory size '1.5G': fractions
 * are not allowed"). Text is at most QUANTITY_TEXT_MAX bytes. Results never wrap: a value that does not fit
 * is refused. */
#pragma once
#include <stdint.h>

#include "base/str.h"

struct err;

#define QUANTITY_TEXT_MAX 64
#define QUANTITY_CPU_MAX_MILLI UINT64_C(1000000000) /* a million CPUs */

/* "500m", "0.5", "2", ".25": thousandths of a CPU. 'm' in either case, blanks around are allowed; must be
 * above zero. A part of a thousandth counts as a whole one, so that no request becomes 0. */
int quantity_cpu(struct str text, uint64_t *ret_milli, struct err *e);

/* "512Mi", "1G", "100kb", " 64 " as bytes: an integer with b, k kb ki, m mb mi, g gb gi or t tb ti in any
 * case ("m" is a million here, not a thousandth), blanks around are allowed. 0 is accepted; at most
 * INT64_MAX. */
int quantity_memory(struct str text, uint64_t *ret_bytes, struct err *e);

/* "10Gi", "1.5Ti", "1000" as Kubernetes writes storage: Ki Mi Gi Ti Pi Ei in this case only, no blanks. A
 * part of a byte counts as a whole one; at most INT64_MAX. */
int quantity_storage(struct str text, uint64_t *ret_bytes, struct err *e);
