// SPDX-License-Identifier: Apache-2.0
/* osb sandbox create */
#include "base/buf.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_sandbox.h"
#include "cli/local_file.h"
#include "cli/values.h"

#include "base/banned.h"

#define DOCUMENT_MAX ((size_t)4 * 1024 * 1024)

struct create_options {
	const char *output, *image, *username, *password, *timeout, *ready_timeout, *policy_file, *volumes_file;
	struct opt_list env, metadata, extensions, resource, entrypoint;
	bool credential_proxy, skip_health_check;
};

const struct opt sandbox_create_opts[] = {
	OPT(struct create_options, image, OPT_STRING, "image", 'i', "IMAGE",
	    "Image. Default: the value in the settings file."),
	OPT(struct create_options, username, OPT_STRING, "image-auth-username", 0, "NAME",
	    "Credentials for the registry of a private image."),
	OPT(struct create_options, password, OPT_STRING, "image-auth-password", 0, "SECRET", "The same."),
	OPT(struct create_options, timeout, OPT_STRING, "timeout", 't', "DURATION",
	    "How long it lives: 10m, 1h30m, or 'none' for until it is killed. Without it what the settings say, or 10 minutes."),
	OPT(struct create_options, env, OPT_LIST, "env", 'e', "KEY=VALUE", "Set an environment variable."),
	OPT(struct create_options, metadata, OPT_LIST, "metadata", 'm', "KEY=VALUE",
	    "Metadata to find it by."),
	OPT(struct create_options, extensions, OPT_LIST, "extension", 0, "KEY=VALUE", "A parameter that the server knows."),
	OPT(struct create_options, resource, OPT_LIST, "resource", 0, "KEY=VALUE",
	    "Set a limit: cpu=1, memory=2Gi."),
	OPT(struct create_options, entrypoint, OPT_LIST, "entrypoint", 0, "WORD",
	    "One argument of its command."),
	OPT(struct create_options, policy_file, OPT_STRING, "network-policy-file", 0, "FILE",
	    "What it may reach, as JSON: {\"defaultAction\": \"deny\", \"egress\": [{\"action\": \"allow\", \"target\": \"packages.example.org\"}]}.",
	    .is_file = true),
	OPT(struct create_options, credential_proxy, OPT_FLAG, "credential-proxy", 0, NULL,
	    "Let a credential vault add secrets to requests. Needs --network-policy-file."),
	OPT(struct create_options, volumes_file, OPT_STRING, "volumes-file", 0, "FILE", "Volumes, as a JSON array.", .is_file = true),
	OPT(struct create_options, skip_health_check, OPT_FLAG, "skip-health-check", 0, NULL,
	    "Do not wait until the sandbox answers."),
	OPT(struct create_options, ready_timeout, OPT_STRING, "ready-timeout", 0, "DURATION",
	    "Timeout for its first answer: 30s."),
	OPT_OUTPUT(struct create_options, output_table),
	{ 0 },
};

/* ---- documents ------------------------------------------------------------------------------------------- */

/* The text lives as long as the tree: both are in the arena. */
static const struct json *read_document(struct cli *cli, const char *path, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(DOCUMENT_MAX);
	const struct json *v;
	const char *copy;

	if (local_read(path, DOCUMENT_MAX, &text, e) < 0)
		return NULL;
	copy = arena_dup(&cli->arena, buf_str(&text));
	if (!copy)
		return err_no_memory(e), NULL;
	v = json_parse(&cli->arena, (struct str){ copy, text.n }, &(struct json_limits){ .bytes = DOCUMENT_MAX }, NULL, e);
	if (!v)
		(void)err_wrap(e, "'%s' is no JSON", path);
	return v;
}

struct policy_rule {
	const char *action, *target;
};
struct policy_document {
	const char *default_action;
	struct object_list egress;
};
static const struct field rule_fields[] = {
	FIELD(struct policy_rule, action, FIELD_STRING, "action", .required = true),
	FIELD(struct policy_rule, target, FIELD_STRING, "target", .required = true),
	{ 0 },
};
static const struct field policy_fields[] = {
	FIELD(struct policy_document, default_action, FIELD_STRING, "defaultAction", .alias = "default_action"),
	FIELD(struct policy_document, egress, FIELD_OBJECTS, "egress", .fields = rule_fields, .size = sizeof(struct policy_rule)),
	{ 0 },
};

int create_read_policy(struct cli *cli, const char *path, struct osb_policy *ret, struct err *e)
{
	const struct json *v = read_document(cli, path, e);
	struct decode d = { .arena = &cli->arena };
	struct policy_document doc = { 0 };
	struct osb_rule *rules;

	if (!v || decode(&d, v, policy_fields, &doc, e) < 0)
		return v ? err_wrap(e, "%s", path) : -1;
	rules = arena_array(&cli->arena, MAX(doc.egress.n, (size_t)1), sizeof(*rules));
	if (!rules)
		return err_no_memory(e);
	for (size_t i = 0; i < doc.egress.n; i++) {
		const struct policy_rule *r = (const struct policy_rule *)doc.egress.items + i;

		rules[i] = (struct osb_rule){ r->action, r->target };
	}
	*ret = (struct osb_policy){ .default_action = doc.default_action, .egress = rules, .n_egress = doc.egress.n };
	return 0;
}

int create_read_volumes(struct cli *cli, const char *path, struct osb_create *create, struct err *e)
{
	const struct json *v = read_document(cli, path, e);
	struct osb_volume *volumes;
	size_t n = 0;

	if (!v)
		return -1;
	if (v->type != JSON_ARRAY)
		return err_set(e, ERR_INVALID, "'%s' must hold a JSON array, not %s", path, json_type_name(v->type));
	volumes = arena_array(&cli->arena, MAX(v->kids.n, (size_t)1), sizeof(*volumes));
	if (!volumes)
		return err_no_memory(e);
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		AUTO(buf_done) struct buf b = BUF_INIT(DOCUMENT_MAX);
		struct json_out o = json_out(&b);

		json_tree(&o, kid);
		volumes[n].json = b.failed ? NULL : arena_dup(&cli->arena, buf_str(&b));
		if (!volumes[n++].json)
			return err_no_memory(e);
	}
	create->volumes = volumes;
	create->n_volumes = n;
	return 0;
}

/* ---- the request ----------------------------------------------------------------------------------------- */

/* Words that are wrong: the status is CLI_USAGE. */
static int take_words(struct cli *cli, const struct create_options *o, const char *timeout, struct osb_create *create, struct err *e)
{
	if (value_pairs(&o->env, &cli->arena, &create->env, e) < 0 || value_pairs(&o->metadata, &cli->arena, &create->metadata, e) < 0 ||
	    value_pairs(&o->extensions, &cli->arena, &create->extensions, e) < 0 ||
	    value_pairs(&o->resource, &cli->arena, &create->resource, e) < 0)
		return -1;
	if (timeout && value_duration_or_none(timeout, &create->timeout_s, e) < 0)
		return -1;
	if (timeout && create->timeout_s == 0)
		return err_set(e, ERR_INVALID, "a sandbox cannot live for no time at all");
	if (timeout && create->timeout_s == VALUES_NONE)
		create->timeout_s = OSB_TTL_NONE;
	create->entrypoint = (struct osb_strings){ o->entrypoint.items, o->entrypoint.n };
	create->image_username = o->username;
	create->image_password = o->password;
	create->skip_health_check = o->skip_health_check;
	create->credential_proxy = o->credential_proxy;
	return 0;
}

static int show_created(struct cli *cli, const char *id, const struct osb_create *create, const char *timeout)
{
	char span[VALUES_SPAN_SIZE] = "sdk-default";

	if (timeout && create->timeout_s != OSB_TTL_NONE)
		value_show_duration(create->timeout_s, span);
	return cli_show_panel(cli, cli_object(cli, "id", id, "image", create->image, "status", "created", "timeout",
					      timeout && create->timeout_s == OSB_TTL_NONE ? "manual-cleanup" : span, NULL),
			      "Sandbox Created");
}

/* What is missing or does not go together. */
static const char *find_fault(const struct create_options *o, const char *image)
{
	if (!image)
		return "Sandbox image is required. Pass --image, or set it once: osb config set defaults.image NAME";
	if (!o->username != !o->password)
		return "Pass both --image-auth-username and --image-auth-password.";
	if (o->credential_proxy && !o->policy_file)
		return "--credential-proxy requires --network-policy-file.";
	return NULL;
}

int sandbox_create(int argc, char **argv, void *arg)
{
	struct osb_create create = { .size = sizeof(create) };
	struct create_options o = { 0 };
	struct osb_policy policy;
	struct osb_sandbox *s = NULL;
	struct cli *cli = arg;
	struct err e = { 0 };
	const char *timeout, *fault;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	create.image = o.image && *o.image ? o.image : cli->settings.default_image;
	timeout = o.timeout ? o.timeout : cli->settings.default_timeout;
	if (take_words(cli, &o, timeout, &create, &e) < 0)
		return cli_fail_usage(cli, &e);
	if ((o.policy_file && access(o.policy_file, F_OK) < 0) || (o.volumes_file && access(o.volumes_file, F_OK) < 0))
		return cli_usage(cli, "path '%s' does not exist", o.policy_file && access(o.policy_file, F_OK) < 0 ? o.policy_file : o.volumes_file);
	if (cli_milliseconds(cli, o.ready_timeout, &create.ready_timeout_ms) < 0)
		return cli->status;
	fault = find_fault(&o, create.image);
	if (fault)
		return cli_fail(cli, "%s", fault);
	if ((o.policy_file && create_read_policy(cli, o.policy_file, &policy, &e) < 0) ||
	    (o.volumes_file && create_read_volumes(cli, o.volumes_file, &create, &e) < 0))
		return cli_fail_err(cli, &e);
	create.network_policy = o.policy_file ? &policy : NULL;
	if (!cli_client(cli) || cli_wait(cli, "Creating sandbox...", osb_sandbox_create(cli->client, &create, &s, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_created(cli, osb_sandbox_id(s), &create, timeout);
}
