// What stands between a program that knows nothing of Frazil and our block cache: called by preload.cc, which
// is loaded before RocksDB is and so cannot use it.
#pragma once

#include <memory>
#include <string>

#include "rocksdb/cache.h"
#include "rocksdb/status.h"

extern "C" {

// A cache of ours for these options, or none, if it is one that is left to RocksDB.
void frazil_replace_block_cache(const rocksdb::ShardedCacheOptions& options,
                                std::shared_ptr<rocksdb::Cache>* cache);

// The cache of ours that a text describes.
void frazil_block_cache_from_text(const std::string& text, std::shared_ptr<rocksdb::Cache>* cache,
                                  rocksdb::Status* status);
}
