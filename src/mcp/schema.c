// SPDX-License-Identifier: Apache-2.0
#include "mcp/schema.h"

#include <assert.h>
#include <math.h>

#include "base/buf.h"
#include "base/decode.h"
#include "base/json_out.h"
#include "mcp/args.h"

#include "base/banned.h"

#define TITLE_MAX 64
#define EXACT_MAX 9007199254740992.0

/* "sandbox_id" is titled "Sandbox Id", "defaultAction" "Defaultaction". */
static void write_title(struct json_out *o, struct str name)
{
	char title[TITLE_MAX];
	bool begins = true;

	name = str_first(name, sizeof(title));
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i] == '_' ? ' ' : name.p[i];

		if (begins && c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		else if (!begins && c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		begins = c == ' ';
		title[i] = c;
	}
	json_key(o, "title"), json_str(o, (struct str){ title, name.n });
}

static void write_type(struct json_out *o, const char *type)
{
	json_key(o, "type"), json_cstr(o, type);
}

static void write_string_items(struct json_out *o, const char *key)
{
	json_key(o, key), json_open(o, '{');
	write_type(o, "string");
	json_close(o, '}');
}

static void write_ref(struct json_out *o, struct str name)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TITLE_MAX + 16);

	(void)buf_addf(&b, "#/$defs/%.*s", STR_ARG(name));
	json_key(o, "$ref"), json_cstr(o, buf_z(&b));
}

/* ---- input ---- */

static void write_enum(const struct field *f, struct json_out *o)
{
	json_key(o, "enum"), json_open(o, '[');
	for (size_t i = 0; f->names[i]; i++)
		json_cstr(o, f->names[i]);
	json_close(o, ']');
	write_type(o, "string");
}

static void write_kind(const struct field *f, struct json_out *o)
{
	switch (f->kind) {
	case FIELD_STRING:
	case FIELD_TEXT:
		write_type(o, "string");
		break;
	case FIELD_INT:
		write_type(o, "integer");
		break;
	case FIELD_REAL:
		write_type(o, "number");
		break;
	case FIELD_BOOL:
		write_type(o, "boolean");
		break;
	case FIELD_ENUM:
		write_enum(f, o);
		break;
	case FIELD_STRINGS:
		write_string_items(o, "items");
		write_type(o, "array");
		break;
	case FIELD_MAP:
		write_string_items(o, "additionalProperties");
		write_type(o, "object");
		break;
	case FIELD_OBJECTS:
		json_key(o, "items"), json_open(o, '{');
		write_ref(o, str_of(args_title(f->fields)));
		json_close(o, '}');
		write_type(o, "array");
		break;
	case FIELD_OBJECT:
		write_ref(o, str_of(args_title(f->fields)));
		break;
	case FIELD_ANY:
		write_type(o, "object");
		break;
	}
}

static void write_number(struct json_out *o, double v)
{
	if (floor(v) == v && fabs(v) < EXACT_MAX)
		json_int(o, (int64_t)v);
	else
		json_real(o, v);
}

/* DEFAULTS is the struct around the field. */
static bool may_be_null(const struct field *f, const char *defaults)
{
	switch (f->kind) {
	case FIELD_STRING:
		return !*(const char *const *)(const void *)(defaults + f->offset);
	case FIELD_INT:
		return f->has > 0;
	case FIELD_TEXT:
	case FIELD_REAL:
	case FIELD_BOOL:
		return false;
	case FIELD_ENUM:
	case FIELD_STRINGS:
	case FIELD_MAP:
	case FIELD_OBJECTS:
	case FIELD_OBJECT:
	case FIELD_ANY:
		return true;
	}
	return true;
}

static void write_default(const struct field *f, const char *defaults, struct json_out *o)
{
	const void *value = defaults + f->offset;

	json_key(o, "default");
	if (f->kind == FIELD_ENUM)
		json_cstr(o, f->names[*(const int *)value]);
	else if (may_be_null(f, defaults))
		json_null(o);
	else if (f->kind == FIELD_STRING)
		json_cstr(o, *(const char *const *)value);
	else if (f->kind == FIELD_INT)
		json_int(o, *(const int64_t *)value);
	else if (f->kind == FIELD_REAL)
		write_number(o, *(const double *)value);
	else if (f->kind == FIELD_BOOL)
		json_bool(o, *(const bool *)value);
	else
		json_cstr(o, "");
}

static void write_property(const struct field *f, const char *defaults, struct json_out *o)
{
	bool is_nullable = !f->required && may_be_null(f, defaults);

	json_key(o, f->name), json_open(o, '{');
	if (is_nullable) {
		json_key(o, "anyOf"), json_open(o, '[');
		json_open(o, '{');
	}
	write_kind(f, o);
	if (is_nullable) {
		json_close(o, '}');
		json_open(o, '{'), write_type(o, "null"), json_close(o, '}');
		json_close(o, ']');
	}
	if (!f->required)
		write_default(f, defaults, o);
	if (f->kind != FIELD_OBJECT)
		write_title(o, str_of(f->name));
	if (f->help)
		json_key(o, "description"), json_cstr(o, f->help);
	json_close(o, '}');
}

/* The members of an object's schema, without the brackets around it. */
static void write_object(const struct field *fields, const void *defaults, struct json_out *o)
{
	bool any = false;

	json_key(o, "properties"), json_open(o, '{');
	for (const struct field *f = fields; f->name; f++) {
		write_property(f, defaults, o);
		any |= f->required;
	}
	json_close(o, '}');
	if (any) {
		json_key(o, "required"), json_open(o, '[');
		for (const struct field *f = fields; f->name; f++)
			if (f->required)
				json_cstr(o, f->name);
		json_close(o, ']');
	}
	write_type(o, "object");
}

/* What the struct of a table inside another holds before. */
static const void *inner_defaults(const struct field *f, const char *defaults)
{
	static const struct {
		int64_t zeroes[32];
	} none;

	assert(f->size <= sizeof(none));
	if (f->kind == FIELD_OBJECT)
		return defaults + f->offset;
	return f->defaults ? f->defaults : &none;
}

static void write_defs_of(const struct field *fields, const void *defaults, bool *opened, struct json_out *o)
{
	for (const struct field *f = fields; f->name; f++) {
		const void *inner;

		if (!f->fields)
			continue;
		inner = inner_defaults(f, defaults);
		if (!*opened)
			json_key(o, "$defs"), json_open(o, '{');
		*opened = true;
		json_key(o, args_title(f->fields)), json_open(o, '{');
		json_key(o, "title"), json_cstr(o, args_title(f->fields));
		write_object(f->fields, inner, o);
		json_close(o, '}');
		write_defs_of(f->fields, inner, opened, o); /* tables of ours: two deep, and none twice */
	}
}

void schema_input(const char *tool, const struct field *fields, struct json_out *o)
{
	AUTO(buf_done) struct buf title = BUF_INIT(2 * TITLE_MAX);
	bool opened = false;

	json_open(o, '{');
	write_defs_of(fields, &args_defaults, &opened, o);
	if (opened)
		json_close(o, '}');
	(void)buf_addf(&title, "%sArguments", tool);
	json_key(o, "title"), json_cstr(o, buf_z(&title));
	write_object(fields, &args_defaults, o);
	json_close(o, '}');
}

/* ---- output ---- */

static const struct shape {
	const char *name, *members;
} shapes[] = {
	{ "SandboxStatus", "state:string reason:string? message:string? last_transition_at:time?" },
	{ "SandboxImageAuth", "username:string password:string" },
	{ "SandboxImageSpec", "image:string auth:SandboxImageAuth?" },
	{ "PlatformSpec", "os:string arch:string" },
	{ "SandboxInfo", "id:string status:SandboxStatus entrypoint:string[] expires_at:time? created_at:time "
			 "image:SandboxImageSpec? snapshot_id:string? platform:PlatformSpec? metadata:map?" },
	{ "SandboxInfoResponse", "sandbox_id:string info:SandboxInfo" },
	{ "StatusResponse", "status:string" },
	{ "PaginationInfo", "page:int page_size:int total_items:int total_pages:int has_next_page:bool" },
	{ "PagedSandboxInfos", "sandbox_infos:SandboxInfo[] pagination:PaginationInfo" },
	{ "SandboxRenewResponse", "expires_at:time" },
	{ "SandboxMetrics", "cpu_count:number cpu_used_percentage:number memory_total_in_mib:number memory_used_in_mib:number "
			    "timestamp:int" },
	{ "SandboxHealthResponse", "sandbox_id:string healthy:bool" },
	{ "SandboxEndpoint", "endpoint:string headers:map~" },
	{ "ExecutionResult", "text:string? timestamp:int extra_properties:map~" },
	{ "ExecutionError", "name:string value:string timestamp:int traceback:string[]~" },
	{ "ExecutionComplete", "timestamp:int execution_time_in_millis:int" },
	{ "OutputMessage", "text:string timestamp:int is_error:bool~" },
	{ "ExecutionLogs", "stdout:OutputMessage[]~ stderr:OutputMessage[]~" },
	{ "Execution", "id:string? execution_count:int? result:ExecutionResult[]~ error:ExecutionError? "
		       "complete:ExecutionComplete? exit_code:int? logs:ExecutionLogs~" },
	{ "FileReadResponse", "path:string content:string encoding:string~ size:int~ note:string?" },
	{ "EntryInfo", "path:string type:string? mode:int owner:string group:string size:int modified_at:time created_at:time" },
	{ "ReplaceResult", "path:string replaced_count:int?" },
	{ "CommandStatus", "id:string? content:string? running:bool exit_code:int? error:string? started_at:time? finished_at:time?" },
	{ "CommandLogs", "content:string cursor:int? note:string?" },
	{ "Session", "session_id:string" },
	{ "CodeContext", "id:string language:string cwd:string?" },
	{ "Snapshot", "id:string sandbox_id:string name:string? status:SandboxStatus created_at:time" },
	{ "PagedSnapshots", "snapshots:Snapshot[] pagination:PaginationInfo" },
	{ "Forks", "sandbox_infos:SandboxInfo[]" },
	{ "NetworkRule", "action:string target:string" },
	{ "NetworkPolicyInfo", "default_action:string egress:NetworkRule[]" },
	{ "Diagnostics", "sandbox_id:string kind:string content:string note:string?" },
};

static const struct shape *find_shape(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (str_is(name, shapes[i].name))
			return &shapes[i];
	return NULL;
}

struct member {
	struct str name, type;
	bool is_list, is_nullable, is_optional;
};

static bool member_next(struct str *in, struct member *ret)
{
	struct str word;

	if (!str_take_word(in, &word, TITLE_MAX * 2))
		return false;
	*ret = (struct member){ 0 };
	(void)str_cut(word, ':', &ret->name, &ret->type);
	if (str_ends(ret->type, STR("~")))
		ret->is_optional = true, ret->type.n--;
	if (str_ends(ret->type, STR("?")))
		ret->is_nullable = ret->is_optional = true, ret->type.n--;
	if (str_ends(ret->type, STR("[]")))
		ret->is_list = true, ret->type.n -= 2;
	return true;
}

static void write_plain(struct str type, struct json_out *o)
{
	static const struct {
		const char *name, *type;
	} plain[] = {
		{ "string", "string" }, { "int", "integer" }, { "number", "number" }, { "bool", "boolean" },
	};

	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (str_is(type, plain[i].name)) {
			write_type(o, plain[i].type);
			return;
		}
	if (str_is(type, "time")) {
		json_key(o, "format"), json_cstr(o, "date-time");
		write_type(o, "string");
	} else if (str_is(type, "map")) {
		write_string_items(o, "additionalProperties");
		write_type(o, "object");
	} else {
		assert(find_shape(type));
		write_ref(o, type);
	}
}

static void write_member(const struct member *m, struct json_out *o)
{
	json_key_str(o, m->name), json_open(o, '{');
	if (m->is_nullable)
		json_key(o, "anyOf"), json_open(o, '['), json_open(o, '{');
	if (m->is_list)
		json_key(o, "items"), json_open(o, '{');
	write_plain(m->type, o);
	if (m->is_list)
		json_close(o, '}'), write_type(o, "array");
	if (m->is_nullable) {
		json_close(o, '}');
		json_open(o, '{'), write_type(o, "null"), json_close(o, '}');
		json_close(o, ']');
		json_key(o, "default"), json_null(o);
	}
	if (m->is_list || !find_shape(m->type))
		write_title(o, m->name);
	json_close(o, '}');
}

static void write_members(const char *members, struct json_out *o)
{
	struct str in = str_of(members);
	struct member m;
	bool any = false;

	json_key(o, "properties"), json_open(o, '{');
	while (member_next(&in, &m)) {
		write_member(&m, o);
		any |= !m.is_optional;
	}
	json_close(o, '}');
	if (any) {
		json_key(o, "required"), json_open(o, '[');
		for (in = str_of(members); member_next(&in, &m);)
			if (!m.is_optional)
				json_str(o, m.name);
		json_close(o, ']');
	}
	write_type(o, "object");
}

/* Marks the shapes that MEMBERS need, and those that these need. */
static void mark(const char *members, bool *used)
{
	struct str in = str_of(members);
	struct member m;

	while (member_next(&in, &m)) {
		const struct shape *s = find_shape(m.type);

		if (s && !used[s - shapes]) {
			used[s - shapes] = true;
			mark(s->members, used); /* our own table, without a circle */
		}
	}
}

static void write_shapes(const char *members, struct json_out *o)
{
	bool used[ARRAY_LEN(shapes)] = { 0 }, opened = false;

	mark(members, used);
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		if (!used[i])
			continue;
		if (!opened)
			json_key(o, "$defs"), json_open(o, '{');
		opened = true;
		json_key(o, shapes[i].name), json_open(o, '{');
		json_key(o, "title"), json_cstr(o, shapes[i].name);
		write_members(shapes[i].members, o);
		json_close(o, '}');
	}
	if (opened)
		json_close(o, '}');
}

void schema_output(const char *tool, const char *shape, struct json_out *o)
{
	AUTO(buf_done) struct buf title = BUF_INIT(2 * TITLE_MAX), list = BUF_INIT(2 * TITLE_MAX);
	const struct shape *s = find_shape(str_of(shape));

	(void)buf_addf(&title, s ? "%.0s%s" : "%sOutput%.0s", tool, shape);
	(void)buf_addf(&list, "result:%s", shape);
	json_open(o, '{');
	write_shapes(s ? s->members : buf_z(&list), o);
	json_key(o, "title"), json_cstr(o, buf_z(&title));
	write_members(s ? s->members : buf_z(&list), o);
	json_close(o, '}');
}
