// SPDX-License-Identifier: Apache-2.0
/* client/archive.h - bodies that are passed to the user's functions, and paged lists. */
#pragma once
#include "client/opensandbox.h"

struct ask;
struct model;
struct op;

/* Sends ASK, and gives the body of its answer to WRITE; the operation is done with it. The server may take
 * its time. */
void op_download(struct op *op, const struct ask *ask, osb_write_fn *write, void *arg);
/* POSTs what READ gives as a tar to PATH; the answer is read by MODEL. */
void op_upload(struct op *op, const char *path, osb_read_fn *read, void *arg, const struct model *model);

const char *op_query_states(struct op *op, const char *path, const struct osb_strings *states);
const char *op_query_page(struct op *op, const char *path, int64_t page, int64_t page_size); /* 0: not said */
