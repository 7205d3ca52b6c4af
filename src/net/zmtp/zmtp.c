// SPDX-License-Identifier: Apache-2.0
#include "net/zmtp/zmtp.h"

#include <assert.h>

#include "base/buf.h"

#include "base/banned.h"

enum { FLAG_MORE = 1, FLAG_LONG = 2, FLAG_COMMAND = 4 };

#define NAME_MAX_BYTES 255

/* ---- reading ---- */

void zmtp_decoder_init(struct zmtp_decoder *d, uint64_t message_max)
{
	*d = (struct zmtp_decoder){ .message_max = message_max };
}

static enum zmtp_event_kind fail(struct zmtp_decoder *d, struct zmtp_event *ev, const char *what)
{
	d->is_broken = true;
	d->what = what;
	*ev = (struct zmtp_event){ .kind = ZMTP_EVENT_ERROR, .what = what };
	return ZMTP_EVENT_ERROR;
}

/* Moves bytes until NEED are held. False: more must come. */
static bool hold(struct zmtp_decoder *d, struct str *in, size_t need)
{
	size_t n = d->n_held < need ? MIN(need - d->n_held, in->n) : 0;

	assert(need <= sizeof(d->held));
	if (n > 0)
		memcpy(d->held + d->n_held, in->p, n);
	d->n_held += n;
	*in = str_skip(*in, n);
	return d->n_held >= need;
}

static uint64_t big_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static enum zmtp_event_kind take_greeting(struct zmtp_decoder *d, struct str *in, struct zmtp_event *ev)
{
	static const char mechanism[20] = "NULL";

	/* Some older peers say no more than their signature and wait: that is no reason to wait for them. */
	if (!hold(d, in, 11))
		return ZMTP_EVENT_NONE;
	if (d->held[0] != 0xff || !(d->held[9] & 1) || d->held[10] < 3)
		return fail(d, ev, "the peer does not speak ZMTP 3");
	if (!hold(d, in, ZMTP_GREETING))
		return ZMTP_EVENT_NONE;
	if (memcmp(d->held + 12, mechanism, sizeof(mechanism)) != 0)
		return fail(d, ev, "the peer asks for another mechanism than NULL");
	d->has_greeting = true;
	d->n_held = 0;
	*ev = (struct zmtp_event){ .kind = ZMTP_EVENT_GREETING };
	return ZMTP_EVENT_GREETING;
}

/* NULL, or what is wrong with the frame that begins. */
static const char *check_head(struct zmtp_decoder *d)
{
	if (d->flags & FLAG_COMMAND)
		return d->flags & FLAG_MORE		? "a command in pieces"
		       : d->left > ZMTP_COMMAND_MAX	? "a command that is too large"
		       : d->frame > 0			? "a command inside a message"
							: NULL;
	if (d->frame >= ZMTP_FRAMES_MAX)
		return "a message of too many frames";
	if (d->left > d->message_max - d->of_message)
		return "a message that is too large";
	d->of_message += d->left;
	return NULL;
}

/* False: more must come, or it is wrong. */
static bool take_head(struct zmtp_decoder *d, struct str *in)
{
	size_t n;

	if (!hold(d, in, 1))
		return false;
	d->flags = d->held[0];
	if (d->flags & ~(FLAG_MORE | FLAG_LONG | FLAG_COMMAND)) {
		d->what = "a frame with unknown flags";
		return false;
	}
	n = d->flags & FLAG_LONG ? 8 : 1;
	if (!hold(d, in, 1 + n))
		return false;
	d->left = big_endian(d->held + 1, n);
	d->n_held = 0;
	d->what = check_head(d);
	d->in_frame = true;
	return !d->what;
}

static enum zmtp_event_kind take_command(struct zmtp_decoder *d, struct str *in, struct zmtp_event *ev)
{
	size_t name;

	if (!hold(d, in, (size_t)d->left))
		return ZMTP_EVENT_NONE;
	name = d->left > 0 ? d->held[0] : 0;
	if (name == 0 || name + 1 > d->left)
		return fail(d, ev, "a command without a name");
	*ev = (struct zmtp_event){
		.kind = ZMTP_EVENT_COMMAND,
		.name = { (const char *)d->held + 1, name },
		.data = { (const char *)d->held + 1 + name, (size_t)d->left - 1 - name },
	};
	d->in_frame = false;
	d->n_held = 0; /* the bytes stay until the next call */
	return ZMTP_EVENT_COMMAND;
}

static enum zmtp_event_kind take_bytes(struct zmtp_decoder *d, struct str *in, struct zmtp_event *ev)
{
	struct str piece = str_first(*in, (size_t)MIN(d->left, (uint64_t)SIZE_MAX));

	if (d->left > 0 && piece.n == 0)
		return ZMTP_EVENT_NONE;
	*in = str_skip(*in, piece.n);
	d->left -= piece.n;
	*ev = (struct zmtp_event){
		.kind = ZMTP_EVENT_BYTES,
		.data = piece,
		.frame = d->frame,
		.left = d->left,
		.is_last = !(d->flags & FLAG_MORE),
	};
	if (d->left == 0) {
		d->in_frame = false;
		d->frame = ev->is_last ? 0 : d->frame + 1;
		d->of_message = ev->is_last ? 0 : d->of_message;
	}
	return ZMTP_EVENT_BYTES;
}

enum zmtp_event_kind zmtp_decode(struct zmtp_decoder *d, struct str *in, struct zmtp_event *ret)
{
	*ret = (struct zmtp_event){ 0 };
	if (d->is_broken)
		return fail(d, ret, d->what);
	if (!d->has_greeting)
		return take_greeting(d, in, ret);
	if (!d->in_frame && !take_head(d, in))
		return d->what ? fail(d, ret, d->what) : ZMTP_EVENT_NONE;
	return d->flags & FLAG_COMMAND ? take_command(d, in, ret) : take_bytes(d, in, ret);
}

bool zmtp_property(struct str *data, struct str *ret_name, struct str *ret_value)
{
	const uint8_t *p = (const uint8_t *)data->p;
	size_t name = data->n > 0 ? p[0] : 0;
	uint64_t value;

	if (name == 0 || data->n < 1 + name + 4)
		return false;
	value = big_endian(p + 1 + name, 4);
	if (value > data->n - 1 - name - 4)
		return false;
	*ret_name = (struct str){ data->p + 1, name };
	*ret_value = (struct str){ data->p + 1 + name + 4, (size_t)value };
	*data = str_skip(*data, 1 + name + 4 + (size_t)value);
	return true;
}

/* ---- writing ---- */

bool zmtp_put_greeting(struct buf *b)
{
	static const char greeting[ZMTP_GREETING] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"; /* and zeroes */

	return buf_add(b, greeting, sizeof(greeting));
}

static bool put(struct buf *b, uint8_t flags, struct str one, struct str two)
{
	uint8_t head[ZMTP_HEAD_MAX] = { flags };
	uint64_t size = one.n + two.n;
	size_t n = size > 255 ? 8 : 1;
	char *at;

	if (n > 1)
		head[0] |= FLAG_LONG;
	for (size_t i = 0; i < n; i++)
		head[n - i] = (uint8_t)(size >> 8 * i);
	at = buf_reserve(b, 1 + n + (size_t)size);
	if (!at)
		return false;
	memcpy(at, head, 1 + n);
	if (one.n > 0)
		memcpy(at + 1 + n, one.p, one.n);
	if (two.n > 0)
		memcpy(at + 1 + n + one.n, two.p, two.n);
	buf_commit(b, 1 + n + (size_t)size);
	return true;
}

bool zmtp_put_command(struct buf *b, struct str name, struct str data)
{
	char named[1 + NAME_MAX_BYTES];

	assert(name.n > 0 && name.n <= NAME_MAX_BYTES && 1 + name.n + data.n <= ZMTP_COMMAND_MAX);
	named[0] = (char)name.n;
	memcpy(named + 1, name.p, name.n);
	return put(b, FLAG_COMMAND, (struct str){ named, 1 + name.n }, data);
}

bool zmtp_put_ready(struct buf *b, struct str socket_type)
{
	char property[32] = "\x0bSocket-Type\0\0\0"; /* and the length of what follows */
	const size_t head = 1 + 11 + 4;

	assert(socket_type.n <= sizeof(property) - head);
	property[head - 1] = (char)socket_type.n;
	memcpy(property + head, socket_type.p, socket_type.n);
	return zmtp_put_command(b, STR("READY"), (struct str){ property, head + socket_type.n });
}

bool zmtp_put_frame(struct buf *b, struct str bytes, bool is_last)
{
	return put(b, is_last ? 0 : FLAG_MORE, bytes, (struct str){ "", 0 });
}
