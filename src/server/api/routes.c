// SPDX-License-Identifier: Apache-2.0
#include "server/api/api.h"

#include "base/banned.h"

const struct route api_routes[] = {
	/* method  path               handler       flags       max body */
	{ "GET",   "/health",         health_get,   ROUTE_ROOT, 0 },
	{ "GET",   "/docs",           docs_get,     ROUTE_ROOT, 0 },
	{ "GET",   "/redoc",          docs_get,     ROUTE_ROOT, 0 },
	{ "GET",   "/openapi.json",   openapi_get,  ROUTE_ROOT, 0 },
	{ 0 },
};
