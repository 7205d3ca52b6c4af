// SPDX-License-Identifier: Apache-2.0
/* Runs a fuzz harness over files, without libFuzzer: replay DIRECTORY-OR-FILE... */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16 * 1024 * 1024);
	FILE *f = fopen(path, "re");
	size_t n = 1;

	if (!f) {
		perror(path);
		return -1;
	}
	while (n > 0) {
		char *at = buf_reserve(&b, 65536);

		n = at ? fread(at, 1, 65536, f) : 0;
		if (n > 0)
			buf_commit(&b, n);
	}
	(void)fclose(f);
	(void)LLVMFuzzerTestOneInput((const uint8_t *)buf_z(&b), b.n);
	return 0;
}

static int replay(const char *path)
{
	struct stat st;
	struct dirent *entry;
	DIR *d;
	int count = 0;

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return replay_file(path) == 0 ? 1 : -1;
	d = opendir(path);
	if (!d) {
		perror(path);
		return -1;
	}
	while ((entry = readdir(d))) {
		char file[4096];

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		if (replay_file(file) < 0)
			count = -1;
		if (count < 0)
			break;
		count++;
	}
	(void)closedir(d);
	return count;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i]);

		if (n < 0)
			return 1;
		total += n;
	}
	printf("%d inputs\n", total);
	return total > 0 ? 0 : 1;
}
