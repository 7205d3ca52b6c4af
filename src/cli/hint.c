// SPDX-License-Identifier: Apache-2.0
#include "cli/hint.h"

#include <string.h>

#include "base/own.h"
#include "client/opensandbox.h"

#include "base/banned.h"

static const struct {
	int status;
	const char *code; /* a part of it, or NULL: any */
	const char *hint;
} answers[] = {
	{ 401, NULL, "Set the key: --api-key KEY, OPEN_SANDBOX_API_KEY, or 'osb config set connection.api_key KEY'." },
	{ 403, NULL, "The key that is set does not allow this." },
	{ 404, "SANDBOX_NOT_FOUND", "'osb sandbox list' shows the sandboxes that there are." },
	{ 404, "SNAPSHOT", "'osb snapshot ls' shows the snapshots that there are." },
	{ 404, "POOL", "'osb pool ls' shows the pools that there are." },
	{ 404, "IMAGE", "'osb image ls' shows the images that are there; 'osb image pull NAME' fetches one." },
	{ 404, "FILE_NOT_FOUND", "'osb file search ID FOLDER --pattern \"*\"' shows what there is." },
	{ 413, NULL, "It is larger than the server takes." },
	{ 429, NULL, "The server has enough to do: try again in a moment." },
	{ 507, NULL, "The disk is full: the sandbox's, which '--resource disk=SIZE' sets when it is made, or the server's." },
	{ 503, NULL, "The server cannot do that now; 'osb doctor' may say why." },
};

const char *hint_for(const struct osb_error *e)
{
	if (e->kind == OSB_NETWORK && e->http_status == 0)
		return "Is the server running? 'osb up' starts one here; --domain or OPEN_SANDBOX_DOMAIN say where another one is.";
	if (e->kind == OSB_TIMEOUT)
		return "--request-timeout SECONDS waits longer.";
	if (e->kind == OSB_NOT_READY)
		return "'osb diagnostics logs ID --scope all' may say why; --ready-timeout waits longer.";
	for (size_t i = 0; i < ARRAY_LEN(answers); i++)
		if (e->http_status == answers[i].status && (!answers[i].code || strstr(e->code, answers[i].code)))
			return answers[i].hint;
	return NULL;
}
