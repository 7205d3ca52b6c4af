// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_driver.h"
#include "execd/code/code_process.h"
#include "execd/jupyter/jupyter.h"

#include "base/banned.h"

/* A server is there because the image wants it to be used. */
const struct code_driver_type *const code_driver_types[] = { &jupyter_server_driver, &code_process, &jupyter_kernel_driver, NULL };
