// Takes the place of RocksDB's LRU cache in a program that RocksDB is linked into statically, where nothing can be
// preloaded: the linker (--wrap) turns each call of LRUCacheOptions::MakeSharedCache from another file than the one
// that has it into a call of ours.
//
// By System V's rules for x86-64 a member function is called as a function whose first parameter is the
// object.

#include <cstring>

#include "../cpp/replace.h"

extern "C" {

std::shared_ptr<rocksdb::Cache> __real__ZNK7rocksdb15LRUCacheOptions15MakeSharedCacheEv(
    const rocksdb::LRUCacheOptions* options);

std::shared_ptr<rocksdb::Cache> __wrap__ZNK7rocksdb15LRUCacheOptions15MakeSharedCacheEv(
    const rocksdb::LRUCacheOptions* options) {
  std::shared_ptr<rocksdb::Cache> cache;
  frazil_replace_block_cache(*options, &cache);
  return cache != nullptr
             ? cache
             : __real__ZNK7rocksdb15LRUCacheOptions15MakeSharedCacheEv(options);
}

#ifdef __SANITIZE_THREAD__
// What LLVM calls in Rust's code, and GCC's older runtime does not have under these names. It intercepts those that
// are called here.
void* __tsan_memcpy(void* to, const void* from, size_t len) { return memcpy(to, from, len); }
void* __tsan_memmove(void* to, const void* from, size_t len) { return memmove(to, from, len); }
void* __tsan_memset(void* to, int byte, size_t len) { return memset(to, byte, len); }
#endif
}
