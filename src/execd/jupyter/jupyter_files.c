// SPDX-License-Identifier: Apache-2.0
#include "execd/jupyter/jupyter_files.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/json_out.h"
#include "base/own.h"
#include "base/random.h"
#include "execd/users.h"
#include "sys/fd.h"

#include "base/banned.h"

#define FILE_MAX ((size_t)4 * 1024)

static const char *const port_names[] = {
	[JUPYTER_SHELL] = "shell_port",	       [JUPYTER_IOPUB] = "iopub_port", [JUPYTER_CONTROL] = "control_port",
	[JUPYTER_HEARTBEAT] = "hb_port",       [JUPYTER_STDIN] = "stdin_port",
};

static int reserve(int *ret_fd, unsigned short *ret_port, struct err *e)
{
	AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int on = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return err_sys(e, errno, "take a port");
	/* After the port was chosen: before, it could have been one that another socket holds in the same way. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "share a port");
	*ret_port = ntohs(a.sin_port);
	*ret_fd = take_fd(&fd);
	return 0;
}

static void write_connection(struct buf *b, const struct jupyter_files *f, const char *kernel)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	for (int i = 0; i < JUPYTER_PORTS; i++)
		json_key(&o, port_names[i]), json_uint(&o, f->ports[i]);
	json_key(&o, "ip"), json_cstr(&o, "127.0.0.1");
	json_key(&o, "transport"), json_cstr(&o, "tcp");
	json_key(&o, "key"), json_cstr(&o, f->key);
	json_key(&o, "signature_scheme"), json_cstr(&o, "hmac-sha256");
	json_key(&o, "kernel_name"), json_cstr(&o, kernel);
	json_close(&o, '}');
}

static int write_file(struct jupyter_files *f, const struct identity *as, const char *kernel, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(FILE_MAX);
	AUTO_FD fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0) {
		(void)err_sys(e, errno, "create '%s'", f->path);
		free(take_ptr(&f->path)); /* nothing of ours is there */
		return -1;
	}
	write_connection(&b, f, kernel);
	r = b.failed ? err_no_memory(e) : fd_write_all(fd, b.p, b.n, e);
	if (r == 0 && as && fchown(fd, as->uid, as->gid) < 0)
		r = err_sys(e, errno, "give '%s' away", f->path);
	secret_wipe(b.p, b.n);
	return r;
}

static int make(struct jupyter_files *f, const char *dir, const struct identity *as, const char *kernel, struct err *e)
{
	unsigned char bytes[JUPYTER_KEY_LEN / 2], name[8];
	char hex[2 * sizeof(name) + 1];

	if (random_bytes(bytes, sizeof(bytes), e) < 0 || random_bytes(name, sizeof(name), e) < 0)
		return -1;
	hex_encode(f->key, bytes, sizeof(bytes));
	hex_encode(hex, name, sizeof(name));
	for (int i = 0; i < JUPYTER_PORTS; i++)
		if (reserve(&f->reserved[i], &f->ports[i], e) < 0)
			return -1;
	if (asprintf(&f->path, "%s/kernel-%s.json", dir, hex) < 0) {
		f->path = NULL;
		return err_no_memory(e);
	}
	return write_file(f, as, kernel, e);
}

int jupyter_files_make(struct jupyter_files *f, const char *dir, const struct identity *as, const char *kernel, struct err *e)
{
	*f = JUPYTER_FILES_INIT;
	if (make(f, dir, as, kernel, e) == 0)
		return 0;
	jupyter_files_release(f);
	return -1;
}

void jupyter_files_release(struct jupyter_files *f)
{
	for (int i = 0; i < JUPYTER_PORTS; i++) {
		closep(&f->reserved[i]);
		f->reserved[i] = -1;
	}
	if (f->path)
		(void)unlink(f->path);
	free(take_ptr(&f->path));
}
