// SPDX-License-Identifier: Apache-2.0
#include "sys/message_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/passing.h"

#include "base/banned.h"

struct message {
	struct list_node at;
	int *fds;
	size_t n, n_fds;
	unsigned char bytes[];
};

static void message_free(struct message *m)
{
	for (size_t i = 0; i < m->n_fds; i++)
		closep(&m->fds[i]);
	free(m->fds);
	free(m);
}
DEFINE_AUTO(struct message *, message_free)

void message_queue_done(struct message_queue *q)
{
	struct message *m;

	while ((m = LIST_TAKE(&q->messages, struct message, at)))
		message_free(m);
	q->bytes = 0;
}

static int dup_fds(struct message *m, const int *fds, size_t n_fds, struct err *e)
{
	m->fds = n_fds > 0 ? calloc(n_fds, sizeof(*m->fds)) : NULL;
	if (n_fds > 0 && !m->fds)
		return err_no_memory(e);
	for (; m->n_fds < n_fds; m->n_fds++) {
		m->fds[m->n_fds] = fcntl(fds[m->n_fds], F_DUPFD_CLOEXEC, 3);
		if (m->fds[m->n_fds] < 0)
			return err_sys(e, errno, "keep a descriptor of a message");
	}
	return 0;
}

int message_queue_add(struct message_queue *q, const void *bytes, size_t n, const int *fds, size_t n_fds, struct err *e)
{
	AUTO(message_free) struct message *m = NULL;

	if (n_fds > PASSING_FDS_MAX)
		return err_set(e, ERR_LIMIT, "a message with %zu descriptors", n_fds);
	m = calloc(1, sizeof(*m) + n);
	if (!m)
		return err_no_memory(e);
	if (dup_fds(m, fds, n_fds, e) < 0)
		return -1;
	m->n = n;
	memcpy(m->bytes, bytes, n);
	q->bytes += n;
	list_append(&q->messages, &take_ptr(&m)->at);
	return 0;
}

int message_queue_send(struct message_queue *q, int fd, const void *bytes, size_t n, const int *fds, size_t n_fds, struct err *e)
{
	int sent = message_queue_is_empty(q) ? passing_send(fd, bytes, n, fds, n_fds, e) : 0;

	if (sent != 0)
		return sent < 0 ? -1 : 0;
	return message_queue_add(q, bytes, n, fds, n_fds, e);
}

int message_queue_flush(struct message_queue *q, int fd, struct err *e)
{
	struct message *m;
	int sent = 1;

	while (sent > 0 && (m = LIST_FIRST(&q->messages, struct message, at))) {
		sent = passing_send(fd, m->bytes, m->n, m->fds, m->n_fds, e);
		if (sent == 0)
			break;
		q->bytes -= m->n;
		list_remove(&q->messages, &m->at);
		message_free(m);
	}
	return sent < 0 ? -1 : 0;
}
