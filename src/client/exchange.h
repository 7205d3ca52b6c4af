// SPDX-License-Identifier: Apache-2.0
/* client/exchange.h - the requests of an operation, for its frame (client/op.c). */
#pragma once
#include <stdbool.h>

struct op;

void exchanges_stop(struct op *op, bool spares_kept); /* cancels; their memory stays */
void exchanges_free(struct op *op);
