// Takes the place of RocksDB's block caches in a program that was not made for Frazil: preloaded
// (LD_PRELOAD), or linked before RocksDB.
//
// FRAZIL_BLOCK_CACHE has options as frazil::NewBlockCache takes them, such as "policy=s3-fifo"; capacity,
// strictness, seed, allocator and the charging of metadata are the program's own. Caches of open tables
// are left alone, and so are caches of tiers.
//
// A preloaded library is there before RocksDB is, and what it takes from that would not be found: so it takes
// nothing. The block cache is in a library beside it, which is loaded when the first cache is made.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "replace.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"

// Not there if preloaded.
#pragma weak frazil_replace_block_cache
#pragma weak frazil_block_cache_from_text

namespace {

// Whether this thread makes a cache of tiers. The first gives to the second what it evicts, as ours does not.
thread_local bool makes_tiers = false;

struct MakingTiers {
  MakingTiers() { makes_tiers = true; }
  ~MakingTiers() { makes_tiers = false; }
};

constexpr const char* kBeside = "libfrazil_block_cache.so";

// The library that an address belongs to, whose symbols everyone finds from then on.
void* LibraryOf(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) {
    return nullptr;
  }
  return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

// A function of the library beside this one, for a RocksDB that `caller` belongs to.
void* Beside(const char* symbol, const void* caller) {
  static void* const library = [caller] {
    LibraryOf(caller);
    Dl_info info;
    std::string path = kBeside;
    if (dladdr(reinterpret_cast<const void*>(&LibraryOf), &info) != 0) {
      const char* slash = strrchr(info.dli_fname, '/');
      if (slash != nullptr) {
        path.insert(0, info.dli_fname, slash + 1 - info.dli_fname);
      }
    }
    void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) {
      // Who asked for Frazil should not measure something else.
      fprintf(stderr, "frazil: %s\n", dlerror());
      abort();
    }
    return loaded;
  }();
  return dlsym(library, symbol);
}

// RocksDB's own function, which one of ours hides.
void* Original(const char* symbol, const void* caller) {
  void* function = dlsym(RTLD_NEXT, symbol);
  if (function == nullptr) {
    void* library = LibraryOf(caller);
    function = library != nullptr ? dlsym(library, symbol) : nullptr;
  }
  if (function == nullptr) {
    fprintf(stderr, "frazil: this RocksDB has no %s\n", symbol);
    abort();
  }
  return function;
}

template <typename Options>
std::shared_ptr<rocksdb::Cache> Make(const Options& options, const char* symbol,
                                     const void* caller) {
  std::shared_ptr<rocksdb::Cache> cache;
  if (!makes_tiers) {
    auto replace = &frazil_replace_block_cache;
    if (replace == nullptr) {
      replace = reinterpret_cast<decltype(replace)>(Beside("frazil_replace_block_cache", caller));
    }
    replace(options, &cache);
  }
  if (cache == nullptr) {
    using Function = std::shared_ptr<rocksdb::Cache> (*)(const Options*);
    cache = reinterpret_cast<Function>(Original(symbol, caller))(&options);
  }
  return cache;
}

}  // namespace

namespace ROCKSDB_NAMESPACE {

std::shared_ptr<Cache> LRUCacheOptions::MakeSharedCache() const {
  return Make(*this, "_ZNK7rocksdb15LRUCacheOptions15MakeSharedCacheEv", __builtin_return_address(0));
}

std::shared_ptr<Cache> HyperClockCacheOptions::MakeSharedCache() const {
  return Make(*this, "_ZNK7rocksdb22HyperClockCacheOptions15MakeSharedCacheEv",
              __builtin_return_address(0));
}

std::shared_ptr<Cache> NewTieredCache(const TieredCacheOptions& options) {
  using Function = std::shared_ptr<Cache> (*)(const TieredCacheOptions&);
  const auto original = reinterpret_cast<Function>(
      Original("_ZN7rocksdb14NewTieredCacheERKNS_18TieredCacheOptionsE", __builtin_return_address(0)));
  const MakingTiers making;
  return original(options);
}

}  // namespace ROCKSDB_NAMESPACE
