// SPDX-License-Identifier: Apache-2.0
/* execd/jupyter/jupyter.h - the drivers of Jupyter kernels: one that starts kernels and connects to them
 * itself, and one for a Jupyter server that the image runs (JUPYTER_HOST). */
#pragma once
#include "execd/code/code_driver.h"

/* For the language, or the name, of a kernelspec that the image has (kernelspec.h). */
extern const struct code_driver_type jupyter_kernel_driver;

/* For all languages, when there is a server. */
extern const struct code_driver_type jupyter_server_driver;
