// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_frame.h"

#include "base/err.h"

#include "base/banned.h"

int code_frame_head(struct str in, struct code_frame *ret, size_t *ret_used, struct err *e)
{
	struct str head, rest;
	uint64_t length;

	if (in.n > 0 && (in.p[0] < 'A' || in.p[0] > 'Z'))
		return err_set(e, ERR_INVALID, "a message begins with byte %d", (unsigned char)in.p[0]);
	if (!str_cut(str_first(in, CODE_FRAME_HEAD_MAX), '\n', &head, &rest))
		return in.n < CODE_FRAME_HEAD_MAX ? 0 : err_set(e, ERR_INVALID, "a message has no length");
	if (!str_to_u64(str_skip(head, 1), 0, CODE_FRAME_MAX, &length))
		return err_set(e, ERR_INVALID, "a message has no length below %zu", CODE_FRAME_MAX);
	*ret = (struct code_frame){ .type = head.p[0], .length = (size_t)length };
	*ret_used = head.n + 1;
	return 1;
}

int code_frame_item(struct str *in, struct str *ret_name, struct str *ret_value, struct err *e)
{
	struct str head, rest, name, number;
	uint64_t length;

	if (in->n == 0)
		return 0;
	if (!str_cut(str_first(*in, CODE_ITEM_NAME_MAX + 16), '\n', &head, &rest) || !str_cut(head, ' ', &name, &number))
		return err_set(e, ERR_INVALID, "a part of a message has no head");
	rest = str_skip(*in, head.n + 1);
	if (name.n == 0 || name.n > CODE_ITEM_NAME_MAX || !str_to_u64(number, 0, rest.n, &length))
		return err_set(e, ERR_INVALID, "a part of a message has no name, or is longer than it");
	*ret_name = name;
	*ret_value = str_first(rest, (size_t)length);
	*in = str_skip(rest, (size_t)length);
	return 1;
}
