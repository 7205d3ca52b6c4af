// SPDX-License-Identifier: Apache-2.0
/* opensandbox-fetch: brings one image from a registry into the server's folder of blobs, or does another such errand (see
 * image/fetch.h). It begins with ids of its own, without any rights, an empty environment and two descriptors; before it reads
 * the order it gives up what it does not need of the little that this is. */
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/confine.h"
#include "fetch/asker.h"
#include "fetch/blob.h"
#include "fetch/confine.h"
#include "fetch/load.h"
#include "fetch/order.h"
#include "fetch/pull.h"
#include "sys/signals.h"

#include "base/banned.h"

static int obey(const struct order *o, struct asker *a, int archive, struct err *e)
{
	switch ((enum order_kind)o->kind) {
	case ORDER_PULL:
		return pull_image(o, a, FETCH_FD_BLOBS, e);
	case ORDER_CHECK:
		return pull_check(o, a, e);
	case ORDER_SWEEP:
		return blobs_sweep(FETCH_FD_BLOBS, &o->keep, o->with_new, e);
	case ORDER_LOAD:
		return load_archive(o, a, archive, FETCH_FD_BLOBS, e);
	}
	return err_set(e, ERR_INTERNAL, "unknown order");
}

static int run(struct asker *a, struct err *e)
{
	AUTO(order_done) struct order o = ORDER_INIT;
	AUTO_FD order = -1;
	AUTO_FD archive = -1;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_no_memory(e);
	if (confine_fetcher(e) < 0)
		return err_wrap(e, "give up rights");
	if (asker_receive(a, &order, &archive, e) < 0 || order_read(&o, order, e) < 0)
		return -1;
	if (confine_files(&o, FETCH_FD_BLOBS, e) < 0)
		return err_wrap(e, "give up files");
	return obey(&o, a, archive, e);
}

int main(int argc, char **argv)
{
	static const char usage[] = "opensandbox-fetch: started by opensandbox-server; it is of no use on its own\n";
	struct asker a = { .fd = FETCH_FD_ASKER };
	struct err e = { 0 };

	(void)argv;
	if (argc > 1 || fcntl(FETCH_FD_ASKER, F_GETFD) < 0 || fcntl(FETCH_FD_BLOBS, F_GETFD) < 0) {
		(void)!write(STDERR_FILENO, usage, sizeof(usage) - 1);
		return 2;
	}
	(void)close(FETCH_FD_PROGRAM); /* or it was not there */
	(void)prctl(PR_SET_NAME, "opensandbox-fetch", 0, 0, 0); /* it was started by a number */
	(void)umask(027); /* the server reads what is left in the folder, by its group */
	signals_prepare_daemon();
	if (run(&a, &e) == 0)
		e = (struct err){ 0 };
	asker_end(&a, &e);
	curl_global_cleanup();
	confine_process_end();
	return e.code == ERR_NONE ? 0 : 1;
}
