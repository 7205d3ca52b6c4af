// SPDX-License-Identifier: Apache-2.0
/* server/api/api.h - the routes of the control plane and their handlers: decode, act, encode. */
#pragma once
#include "net/server.h"

extern const struct route api_routes[];

handler_fn health_get;

handler_fn docs_get;    /* the page that shows the API, for people */
handler_fn openapi_get; /* the same for programs */
