// SPDX-License-Identifier: Apache-2.0
/* server/store/test_disk.h - for tests: a disk that fails or stalls when it is told to. It stands below SQLite. */
#pragma once
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int disk_failure; /* what writes end with; 0: they work */
static atomic_bool disk_stalls; /* writes wait while it is set */

#define DISK_KINDS 4 /* of files: with locks, without, ... */
static const sqlite3_io_methods *disk_real[DISK_KINDS];
static sqlite3_io_methods disk_methods[DISK_KINDS];
static sqlite3_vfs disk_vfs, *disk_real_vfs;

static inline int disk_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	int failure;

	while (atomic_load(&disk_stalls))
		(void)usleep(1000);
	failure = atomic_load(&disk_failure);
	return failure ? failure : disk_real[f->pMethods - disk_methods]->xWrite(f, p, n, at);
}

static inline int disk_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
	int rc = disk_real_vfs->xOpen(v, name, f, flags, out);

	if (rc != SQLITE_OK || !f->pMethods)
		return rc;
	for (int i = 0; i < DISK_KINDS; i++) {
		if (disk_real[i] && disk_real[i] != f->pMethods)
			continue;
		disk_real[i] = f->pMethods;
		disk_methods[i] = *disk_real[i];
		disk_methods[i].xWrite = disk_write;
		f->pMethods = &disk_methods[i];
		return rc;
	}
	abort();
}

static inline void disk_install(void)
{
	disk_real_vfs = sqlite3_vfs_find(NULL);
	disk_vfs = *disk_real_vfs;
	disk_vfs.zName = "test-disk";
	disk_vfs.pNext = NULL;
	disk_vfs.xOpen = disk_open;
	(void)sqlite3_vfs_register(&disk_vfs, 1);
}
