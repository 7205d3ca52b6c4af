// SPDX-License-Identifier: Apache-2.0
/* http_parse_loop COUNT - parses one typical request COUNT times, for bench/http_parse.py to count instructions. */
#include <stdio.h>

#include "net/http/http1.h"

#include "base/banned.h"

static const char request[] = "POST /v1/sandboxes?state=Running HTTP/1.1\r\n"
			      "Host: 127.0.0.1:8080\r\n"
			      "User-Agent: OpenSandbox-Python-SDK/0.1.9\r\n"
			      "Accept: */*\r\n"
			      "Accept-Encoding: gzip, deflate\r\n"
			      "Connection: keep-alive\r\n"
			      "OPEN-SANDBOX-API-KEY: 0123456789abcdef0123456789abcdef\r\n"
			      "X-Request-ID: 7d9fbb2a6a7c4c0d9a3b5f7be1e2d3c4\r\n"
			      "Content-Type: application/json\r\n"
			      "Content-Length: 128\r\n"
			      "\r\n";

int main(int argc, char **argv)
{
	uint64_t count, good = 0;

	if (argc != 2 || !str_to_u64(str_of(argv[1]), 1, 1000000000, &count)) {
		(void)fprintf(stderr, "usage: http_parse_loop COUNT\n");
		return 2;
	}
	for (uint64_t i = 0; i < count; i++) {
		struct http_scan scan = { 0 };
		struct http_fault f;
		struct http_head h;

		good += http_request_head(&scan, STR(request), &h, &f) == 1 && h.length == 128;
	}
	return good == count ? 0 : 1;
}
