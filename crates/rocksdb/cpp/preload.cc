// Takes the place of RocksDB's block caches in a program that was not made for Frazil: preloaded
// (LD_PRELOAD), or linked before RocksDB.
//
// FRAZIL_BLOCK_CACHE has options as frazil::NewBlockCache takes them, such as "policy=s3-fifo"; capacity,
// strictness, seed, allocator and the charging of metadata are the program's own.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "frazil/block_cache.h"
#include "rocksdb/cache.h"

namespace {

// max_open_files = -1 makes a table cache of so many.
constexpr size_t kTablesMax = 0x400000;

// A cache of open tables counts them, and charges for nothing else.
bool IsTableCache(const rocksdb::ShardedCacheOptions& options) {
  return options.metadata_charge_policy == rocksdb::kDontChargeCacheMetadata &&
         options.capacity <= kTablesMax && getenv("FRAZIL_ALL_CACHES") == nullptr;
}

// The library's own function, which this one hides.
template <typename Options>
std::shared_ptr<rocksdb::Cache> Original(const Options& options, const char* symbol) {
  using Function = std::shared_ptr<rocksdb::Cache> (*)(const Options*);
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol));
  return function != nullptr ? function(&options) : nullptr;
}

std::shared_ptr<rocksdb::Cache> Ours(const rocksdb::ShardedCacheOptions& options) {
  if (options.secondary_cache != nullptr) {
    fprintf(stderr, "frazil: a cache with a secondary cache is left to RocksDB\n");
    return nullptr;
  }
  const char* text = getenv("FRAZIL_BLOCK_CACHE");
  frazil::BlockCacheOptions ours;
  rocksdb::Status status = frazil::ParseBlockCacheOptions(text != nullptr ? text : "", &ours);
  ours.capacity = options.capacity;
  ours.strict_capacity_limit = options.strict_capacity_limit;
  ours.hash_seed = options.hash_seed;
  ours.memory_allocator = options.memory_allocator;
  ours.charge_metadata = options.metadata_charge_policy == rocksdb::kFullChargeCacheMetadata;
  std::shared_ptr<rocksdb::Cache> cache;
  if (status.ok()) {
    status = frazil::NewBlockCache(ours, &cache);
  }
  if (!status.ok()) {
    // Who asked for Frazil should not measure something else.
    fprintf(stderr, "frazil: FRAZIL_BLOCK_CACHE: %s\n", status.ToString().c_str());
    abort();
  }
  return cache;
}

template <typename Options>
std::shared_ptr<rocksdb::Cache> Make(const Options& options, const char* symbol) {
  std::shared_ptr<rocksdb::Cache> cache;
  if (!IsTableCache(options)) {
    cache = Ours(options);
  }
  return cache != nullptr ? cache : Original(options, symbol);
}

}  // namespace

namespace ROCKSDB_NAMESPACE {

std::shared_ptr<Cache> LRUCacheOptions::MakeSharedCache() const {
  return Make(*this, "_ZNK7rocksdb15LRUCacheOptions15MakeSharedCacheEv");
}

std::shared_ptr<Cache> HyperClockCacheOptions::MakeSharedCache() const {
  return Make(*this, "_ZNK7rocksdb22HyperClockCacheOptions15MakeSharedCacheEv");
}

}  // namespace ROCKSDB_NAMESPACE
