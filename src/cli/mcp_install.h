// SPDX-License-Identifier: Apache-2.0
/* cli/mcp_install.h - adds the MCP server to the configuration of programs that use it.
 *
 * These files belong to other programs: an entry is inserted into the text, and every other byte stays. A
 * file that is not plain JSON or TOML is not changed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;

#define MCP_NAME "opensandbox" /* of the entry */
#define MCP_CONFIG_MAX ((size_t)8 * 1024 * 1024)

enum mcp_form { MCP_FORM_SERVERS, MCP_FORM_VSCODE, MCP_FORM_OPENCODE, MCP_FORM_TOML };

struct mcp_client {
	const char *name, *label;
	/* the file, below this folder and below the home; NULL: there is none */
	const char *project, *global;
	enum mcp_form form;
};
const struct mcp_client *mcp_client_at(size_t i);
const struct mcp_client *mcp_client_find(const char *name);

struct mcp_command {
	const char *program;
	const char *const *args;
	size_t n_args;
};

/* What is to be added to a file that has nothing else, ready to be read by people. */
void mcp_entry_write(const struct mcp_client *c, const struct mcp_command *command, struct buf *out);

/* TEXT (which may be empty) with the entry in it. ERR_INVALID: it is nothing that could be added to. */
int mcp_entry_merge(const struct mcp_client *c, const struct mcp_command *command, struct str text,
		    struct buf *out, struct err *e);
