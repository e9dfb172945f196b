/* A program that knows nothing of Frazil, and loads RocksDB as Java does: late, and for itself alone. It prints
 * whose block cache it has. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

static void *library;

/* A function of the library, by the type that the header gives it. */
#define FIND(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)

static void check(char *error) {
  if (error != NULL) {
    fprintf(stderr, "%s\n", error);
    exit(EXIT_FAILURE);
  }
}

int main(int argc, char **argv) {
  if (argc != 3 || (library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) == NULL) {
    fprintf(stderr, "usage: unchanged LIBRARY DIRECTORY\n");
    return EXIT_FAILURE;
  }
  FIND(rocksdb_options_create);
  FIND(rocksdb_options_set_create_if_missing);
  FIND(rocksdb_options_set_block_based_table_factory);
  FIND(rocksdb_block_based_options_create);
  FIND(rocksdb_block_based_options_set_block_cache);
  FIND(rocksdb_cache_create_lru);
  FIND(rocksdb_cache_get_usage);
  FIND(rocksdb_open);
  FIND(rocksdb_close);
  FIND(rocksdb_put);
  FIND(rocksdb_get);
  FIND(rocksdb_free);
  FIND(rocksdb_flush);
  FIND(rocksdb_writeoptions_create);
  FIND(rocksdb_readoptions_create);
  FIND(rocksdb_flushoptions_create);
  FIND(rocksdb_property_value);

  rocksdb_cache_t *cache = p_rocksdb_cache_create_lru(1 << 20);
  rocksdb_block_based_table_options_t *table = p_rocksdb_block_based_options_create();
  p_rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_options_t *options = p_rocksdb_options_create();
  p_rocksdb_options_set_create_if_missing(options, 1);
  p_rocksdb_options_set_block_based_table_factory(options, table);
  char *error = NULL;
  rocksdb_t *db = p_rocksdb_open(options, argv[2], &error);
  check(error);

  const int keys = 20000;
  char key[16], value[100] = {0};
  rocksdb_writeoptions_t *writes = p_rocksdb_writeoptions_create();
  for (int at = 0; at < keys; ++at) {
    snprintf(key, sizeof key, "%08d", at);
    p_rocksdb_put(db, writes, key, strlen(key), value, sizeof value, &error);
    check(error);
  }
  p_rocksdb_flush(db, p_rocksdb_flushoptions_create(), &error);
  check(error);
  int missing = 0;
  rocksdb_readoptions_t *reads = p_rocksdb_readoptions_create();
  for (int at = 0; at < 2 * keys; ++at) {
    snprintf(key, sizeof key, "%08d", at * 7919 % keys);
    size_t length = 0;
    char *found = p_rocksdb_get(db, reads, key, strlen(key), &length, &error);
    check(error);
    missing += found == NULL || length != sizeof value;
    p_rocksdb_free(found);
  }
  char *whose = p_rocksdb_property_value(db, "rocksdb.block-cache-entry-stats");
  printf("%d missing, %zu used\n%s", missing, p_rocksdb_cache_get_usage(cache), whose);
  p_rocksdb_free(whose);
  p_rocksdb_close(db);
  return missing == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
