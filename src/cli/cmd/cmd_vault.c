// SPDX-License-Identifier: Apache-2.0
/* osb credential-vault. Secrets come from a file or standard input, never from the command line, and no answer has them. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/local_file.h"
#include "cli/yaml/yaml_read.h"

#include "base/banned.h"

#define DOCUMENT_MAX ((size_t)1024 * 1024)
#define PATH_MAX_BYTES 4096

struct payload_options {
	const char *output, *file;
};

static const struct opt payload_opts[] = {
	OPT(struct payload_options, file, OPT_STRING, "file", 0, "FILE",
	    "Changes, as JSON or YAML; '-' is standard input.",
	    .is_required = true, .is_file = true),
	OPT_OUTPUT(struct payload_options, output_table),
	{ 0 },
};

/* ---- names ----------------------------------------------------------------------------------------------- */

/* "sourceType" becomes "source_type", as everywhere in what osb shows. */
static void add_snake_case(struct json_out *o, struct str key)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PATH_MAX_BYTES);

	for (size_t i = 0; i < key.n; i++) {
		bool is_upper = key.p[i] >= 'A' && key.p[i] <= 'Z';

		if (is_upper)
			buf_add_char(&b, '_');
		buf_add_char(&b, (char)(is_upper ? key.p[i] - 'A' + 'a' : key.p[i]));
	}
	json_key_str(o, buf_str(&b));
}

/* What the API says, in the names of the SDKs; the parser has bounded the depth. */
static void add_tree(struct json_out *o, const struct json *v)
{
	bool is_object = v->type == JSON_OBJECT;

	if (!is_object && v->type != JSON_ARRAY) {
		json_tree(o, v);
		return;
	}
	json_open(o, is_object ? '{' : '[');
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		if (is_object)
			add_snake_case(o, kid->key);
		add_tree(o, kid);
	}
	json_close(o, is_object ? '}' : ']');
}

static const struct json *answer_tree(struct cli *cli, const struct osb_bytes *answer)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8 * DOCUMENT_MAX);
	struct json_out o = json_out(&b);
	const struct json *v = cli_parse(cli, (struct str){ answer->data, answer->n });

	if (!v)
		return NULL;
	add_tree(&o, v);
	return cli_parse(cli, buf_str(&b));
}

/* ---- what goes in ---------------------------------------------------------------------------------------- */

static const struct json *read_payload(struct cli *cli, const char *path)
{
	AUTO(buf_done) struct buf text = BUF_INIT(DOCUMENT_MAX);
	const struct json *v;
	const char *copy;
	struct err e = { 0 };

	if (local_read(path, DOCUMENT_MAX, &text, &e) < 0)
		return (void)cli_fail_err(cli, &e), NULL;
	copy = arena_dup(&cli->arena, buf_str(&text));
	v = copy ? yaml_parse(&cli->arena, (struct str){ copy, text.n }, &e) : NULL;
	if (!v)
		(void)cli_fail(cli, "'%s' cannot be read as JSON or YAML: %s", path, copy ? e.msg : "out of memory");
	else if (v->type != JSON_OBJECT)
		(void)cli_fail(cli, "Credential vault payload must be a JSON/YAML object.");
	secret_wipe(text.p, text.n);
	return v && v->type == JSON_OBJECT ? v : NULL;
}

/* What is wrong with it, or NULL. */
static const char *check_create(const struct json *v)
{
	const struct json *credentials = json_get(v, "credentials"), *bindings = json_get(v, "bindings");

	if (!credentials || credentials->type != JSON_ARRAY)
		return "Credential vault payload field 'credentials' must be a list.";
	if (!bindings || bindings->type != JSON_ARRAY)
		return "Credential vault payload field 'bindings' must be a list.";
	return NULL;
}

static bool is_given(const struct json *v)
{
	return v && v->type != JSON_NULL;
}

static const struct json *revision_of(const struct json *v)
{
	const struct json *r = json_get(v, "expectedRevision");

	return r ? r : json_get(v, "expected_revision");
}

static const char *check_patch(const struct json *v)
{
	const struct json *credentials = json_get(v, "credentials"), *bindings = json_get(v, "bindings"), *revision = revision_of(v);

	if (is_given(credentials) && credentials->type != JSON_OBJECT)
		return "Credential vault patch field 'credentials' must be an object.";
	if (is_given(bindings) && bindings->type != JSON_OBJECT)
		return "Credential vault patch field 'bindings' must be an object.";
	if (!is_given(credentials) && !is_given(bindings))
		return "Credential vault patch payload must include credentials or bindings.";
	if (is_given(revision) && revision->type != JSON_INT)
		return "Credential vault expectedRevision must be an integer.";
	return NULL;
}

static void add_if_given(struct json_out *o, const char *key, const struct json *v)
{
	if (is_given(v))
		json_key(o, key), json_tree(o, v);
}

/* ---- the operations -------------------------------------------------------------------------------------- */

struct order {
	const char *method, *path, *body, *title;
	const char *const *columns; /* of a list, or NULL */
};

static int do_order(struct cli *cli, const struct order *order)
{
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct osb_sandbox *s = cli_connect(cli, cli->operands[0]);
	const struct json *v;

	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_vault(s, order->method, order->path, order->body, &answer, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	if (!answer)
		return cli_fail(cli, "the answer is empty");
	v = answer_tree(cli, answer);
	if (v && order->columns && v->type == JSON_OBJECT) /* the list, without what the API puts around it */
		v = json_first(v);
	return order->columns ? cli_show_rows(cli, v, order->columns, order->title) : cli_show(cli, v, order->title);
}

static int send_payload(int argc, char **argv, struct cli *cli, const char *method, const char *(*check)(const struct json *))
{
	AUTO(buf_done) struct buf b = BUF_INIT(8 * DOCUMENT_MAX);
	struct json_out out = json_out(&b);
	struct payload_options o = { 0 };
	const struct json *v;
	const char *fault;
	int status;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	v = read_payload(cli, o.file);
	if (!v)
		return cli->status;
	fault = check(v);
	if (fault)
		return cli_fail(cli, "%s", fault);
	json_open(&out, '{');
	add_if_given(&out, "expectedRevision", revision_of(v));
	add_if_given(&out, "credentials", json_get(v, "credentials"));
	add_if_given(&out, "bindings", json_get(v, "bindings"));
	json_close(&out, '}');
	status = b.failed ? cli_fail(cli, "the payload is too long")
			  : do_order(cli, &(struct order){ .method = method, .body = buf_z(&b), .title = "Credential Vault" });
	secret_wipe(b.p, b.n);
	return status;
}

static int vault_create(int argc, char **argv, void *arg)
{
	return send_payload(argc, argv, arg, "POST", check_create);
}

static int vault_patch(int argc, char **argv, void *arg)
{
	return send_payload(argc, argv, arg, "PATCH", check_patch);
}

/* GET of PATH, or of PATH with the second operand behind it. */
static int show_part(int argc, char **argv, struct cli *cli, const struct order *order)
{
	char path[PATH_MAX_BYTES];
	struct only_output o = { 0 };
	struct order with_name = *order;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (cli->n_operands > 1) {
		AUTO(buf_done) struct buf b = BUF_INIT(sizeof(path) - 1);

		buf_addf(&b, "%s/", order->path);
		for (const char *p = cli->operands[1]; *p; p++)
			buf_addf(&b, strchr("/?#%", *p) || (unsigned char)*p <= ' ' ? "%%%02X" : "%c", (unsigned char)*p);
		if (b.failed)
			return cli_fail(cli, "the name is too long");
		memcpy(path, b.p, b.n + 1);
		with_name.path = path;
	}
	return do_order(cli, &with_name);
}

static int vault_get(int argc, char **argv, void *arg)
{
	return show_part(argc, argv, arg, &(struct order){ .method = "GET", .path = "", .title = "Credential Vault" });
}

static int vault_delete(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_vault(s, "DELETE", "", NULL, NULL, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show_panel(cli, cli_object(cli, "sandbox_id", cli->operands[0], "status", "deleted", NULL), "Credential Vault Deleted");
}

static const char *const credential_columns[] = { "name", "source_type", "revision", NULL };
static const char *const binding_columns[] = { "name", "revision", "match", "auth", NULL };

static int credential_list(int argc, char **argv, void *arg)
{
	return show_part(argc, argv, arg, &(struct order){ .method = "GET", .path = "/credentials", .columns = credential_columns,
							   .title = "Credential Vault Credentials" });
}

static int credential_get(int argc, char **argv, void *arg)
{
	return show_part(argc, argv, arg, &(struct order){ .method = "GET", .path = "/credentials", .title = "Credential Vault Credential" });
}

static int binding_list(int argc, char **argv, void *arg)
{
	return show_part(argc, argv, arg, &(struct order){ .method = "GET", .path = "/bindings", .columns = binding_columns,
							   .title = "Credential Vault Bindings" });
}

static int binding_get(int argc, char **argv, void *arg)
{
	return show_part(argc, argv, arg, &(struct order){ .method = "GET", .path = "/bindings", .title = "Credential Vault Binding" });
}

/* ---- the groups ------------------------------------------------------------------------------------------ */

#define OPERANDS(text_, n_) .operands = (text_), .min_operands = (n_), .max_operands = (n_), CLI_COMPLETES_SANDBOX

static const struct opt_command credential_commands[] = {
	{ .name = "list", .summary = "list the credentials, without their values", .opts = cli_table_opts, .run = credential_list,
	  OPERANDS("SANDBOX", 1) },
	{ .name = "get", .summary = "show one of them, without its value", .opts = cli_table_opts, .run = credential_get,
	  OPERANDS("SANDBOX NAME", 2) },
	{ 0 },
};

static const struct opt_command binding_commands[] = {
	{ .name = "list", .summary = "list which requests get which credential", .opts = cli_table_opts, .run = binding_list,
	  OPERANDS("SANDBOX", 1) },
	{ .name = "get", .summary = "show one of these bindings", .opts = cli_table_opts, .run = binding_get, OPERANDS("SANDBOX NAME", 2) },
	{ 0 },
};

const struct opt_command vault_commands[] = {
	{ .name = "create", .summary = "make the vault of a sandbox", .opts = payload_opts, .run = vault_create, OPERANDS("SANDBOX", 1),
	  .about = "The file is an object with two lists, credentials and bindings." },
	{ .name = "get", .summary = "show what is in it, without the values", .opts = cli_table_opts, .run = vault_get, OPERANDS("SANDBOX", 1) },
	{ .name = "patch", .summary = "change its contents", .opts = payload_opts, .run = vault_patch,
	  OPERANDS("SANDBOX", 1),
	  .about = "The file is an object with credentials, bindings or both, each with add, replace and delete, and perhaps with "
		   "expectedRevision: the change is refused if the vault has another revision." },
	{ .name = "delete", .summary = "remove the vault of a sandbox", .opts = cli_table_opts, .run = vault_delete, OPERANDS("SANDBOX", 1) },
	{ .name = "credential", .summary = "look at the credentials", .commands = credential_commands },
	{ .name = "binding", .summary = "look at the bindings", .commands = binding_commands },
	{ 0 },
};
