// Frazil as the block cache of RocksDB: 10.4 to 11.8, of whose public headers this is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rocksdb/cache.h"
#include "rocksdb/status.h"

namespace frazil {

// What a block cache is made from. In strings the names are those of the fields.
struct BlockCacheOptions {
  // In the unit of charges: bytes.
  size_t capacity = 0;
  // What decides which blocks go: mobius, s3-fifo, clock, lru or fifo. Behind frozen+, as in frozen+lru, the hottest
  // are set aside from that as long as it pays: a thread of the cache's own finds out.
  std::string policy = "mobius";
  // Whether an insertion that asks for a handle fails where there is no room.
  bool strict_capacity_limit = false;
  // Whether what an entry takes beside its block is charged too.
  bool charge_metadata = true;
  // As ShardedCacheOptions::hash_seed.
  int32_t hash_seed = rocksdb::ShardedCacheOptions::kQuasiRandomHashSeed;
  // Unless it is empty, a file that the requests for a share of all blocks are recorded to, for `frazil
  // advise`: "blocks.frazil:0.01".
  std::string record;
  // For the blocks, if it is not null. Not to be had by a string.
  std::shared_ptr<rocksdb::MemoryAllocator> memory_allocator;
};

// Makes a block cache. InvalidArgument names an option or a policy that there is not; NotSupported a
// version of RocksDB that this was not made for.
rocksdb::Status NewBlockCache(const BlockCacheOptions& options,
                              std::shared_ptr<rocksdb::Cache>* cache);

// Sets what a text names: "capacity=1G;policy=s3-fifo", also with "id=frazil;" before. InvalidArgument names an
// option that there is not, or its value.
rocksdb::Status ParseBlockCacheOptions(const std::string& text, BlockCacheOptions* options);

// Both in one: from "capacity=1G;policy=s3-fifo".
rocksdb::Status NewBlockCache(const std::string& text, std::shared_ptr<rocksdb::Cache>* cache);

// What a block cache of ours has counted, as a page for Prometheus with the label cache="name"; empty for other
// caches.
std::string PrometheusPage(const rocksdb::Cache& cache, const std::string& name);

// Makes rocksdb::Cache::CreateFromString know "id=frazil://;capacity=1G;policy=s3-fifo". A program that
// is linked with all of the library, or that preloads it, need not call this.
void RegisterBlockCache();

}  // namespace frazil
