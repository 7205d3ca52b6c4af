// SPDX-License-Identifier: Apache-2.0
#include "execd/code_driver.h"
#include "execd/code_process.h"
#include "execd/jupyter.h"

#include "base/banned.h"

const struct code_driver_type *const code_driver_types[] = { &code_process, &jupyter_kernel_driver, NULL };
