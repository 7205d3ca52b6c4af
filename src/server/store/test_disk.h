// SPDX-License-Identifier: Apache-2.0
/* server/store/test_disk.h - for tests: a disk below SQLite that fails or stalls on command. */
#pragma once
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int disk_failure; /* what writes end with; 0: they work */
static atomic_bool disk_stalls; /* writes wait while it is set */
static _Atomic(const char *) disk_victim; /* only files with this in their names fail; NULL: all do */

#define DISK_FILES 64
static struct {
	sqlite3_file *file;
	const char *name; /* SQLite's, while the file is open */
} disk_files[DISK_FILES];

#define DISK_KINDS 4 /* of files: with locks, without, ... */
static const sqlite3_io_methods *disk_real[DISK_KINDS];
static sqlite3_io_methods disk_methods[DISK_KINDS];
static sqlite3_vfs disk_vfs, *disk_real_vfs;

static inline bool disk_fails(const sqlite3_file *f)
{
	const char *victim = atomic_load(&disk_victim);

	for (int i = 0; victim && i < DISK_FILES; i++)
		if (disk_files[i].file == f)
			return disk_files[i].name && strstr(disk_files[i].name, victim);
	return !victim;
}

static inline void disk_note(sqlite3_file *f, const char *name)
{
	int at = 0;

	while (at < DISK_FILES - 1 && disk_files[at].file)
		at++;
	disk_files[at].file = f;
	disk_files[at].name = name;
}

static inline int disk_close(sqlite3_file *f)
{
	for (int i = 0; i < DISK_FILES; i++)
		if (disk_files[i].file == f)
			disk_files[i].file = NULL;
	return disk_real[f->pMethods - disk_methods]->xClose(f);
}

static inline int disk_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	int failure;

	while (atomic_load(&disk_stalls))
		(void)usleep(1000);
	failure = atomic_load(&disk_failure);
	return failure && disk_fails(f) ? failure : disk_real[f->pMethods - disk_methods]->xWrite(f, p, n,
												  at);
}

/* Nobody cuts the power. */
static inline int disk_sync(sqlite3_file *f, int flags)
{
	(void)f, (void)flags;
	return SQLITE_OK;
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
		disk_methods[i].xClose = disk_close;
		disk_methods[i].xSync = disk_sync;
		f->pMethods = &disk_methods[i];
		disk_note(f, name);
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
