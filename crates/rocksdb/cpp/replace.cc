#include "replace.h"

#include <cstdio>
#include <cstdlib>

#include "frazil/block_cache.h"

namespace {

// max_open_files = -1 makes a table cache of so many.
constexpr size_t kTablesMax = 0x400000;

// A cache of open tables counts them, and charges for nothing else.
bool IsTableCache(const rocksdb::ShardedCacheOptions& options) {
  return options.metadata_charge_policy == rocksdb::kDontChargeCacheMetadata &&
         options.capacity <= kTablesMax && getenv("FRAZIL_ALL_CACHES") == nullptr;
}

}  // namespace

void frazil_replace_block_cache(const rocksdb::ShardedCacheOptions& options,
                                std::shared_ptr<rocksdb::Cache>* cache) {
  if (IsTableCache(options)) {
    return;
  }
  if (options.secondary_cache != nullptr) {
    fprintf(stderr, "frazil: a cache with a secondary cache is left to RocksDB\n");
    return;
  }
  const char* text = getenv("FRAZIL_BLOCK_CACHE");
  frazil::BlockCacheOptions ours;
  rocksdb::Status status = frazil::ParseBlockCacheOptions(text != nullptr ? text : "", &ours);
  ours.capacity = options.capacity;
  ours.strict_capacity_limit = options.strict_capacity_limit;
  ours.hash_seed = options.hash_seed;
  ours.memory_allocator = options.memory_allocator;
  ours.charge_metadata = options.metadata_charge_policy == rocksdb::kFullChargeCacheMetadata;
  if (status.ok()) {
    status = frazil::NewBlockCache(ours, cache);
  }
  if (!status.ok()) {
    // Who asked for Frazil should not measure something else.
    fprintf(stderr, "frazil: FRAZIL_BLOCK_CACHE: %s\n", status.ToString().c_str());
    abort();
  }
}

void frazil_block_cache_from_text(const std::string& text, std::shared_ptr<rocksdb::Cache>* cache,
                                  rocksdb::Status* status) {
  *status = frazil::NewBlockCache(text, cache);
}
