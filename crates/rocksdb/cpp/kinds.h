// The kinds of a cache's entries: one for each helper that RocksDB has brought.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "frazil.h"
#include "rocksdb/advanced_cache.h"

namespace frazil {

// How entries of a helper are dropped.
struct Kind : frazil_kind {
  const rocksdb::Cache::CacheItemHelper* helper = nullptr;
  rocksdb::MemoryAllocator* allocator = nullptr;
};

// Kinds by helper. A program has some forty helpers, all static.
class Kinds {
 public:
  // Kinds that come before the allocator is set do not know it.
  void SetAllocator(rocksdb::MemoryAllocator* allocator) { allocator_ = allocator; }

  // Whether anything was ever inserted.
  bool HasAny() {
    std::lock_guard<std::mutex> lock(mutex_);
    return !kinds_.empty();
  }

  const Kind* Of(const rocksdb::Cache::CacheItemHelper* helper) {
    const size_t home = (reinterpret_cast<uintptr_t>(helper) >> 4) % kPlaces;
    // Acquire: what is in it; partner is the Release of Add.
    const Kind* kind = places_[home].load(std::memory_order_acquire);
    return kind != nullptr && kind->helper == helper ? kind : Add(helper, home);
  }

 private:
  static constexpr size_t kPlaces = 127;

  static void Drop(void* object, void* context) {
    const Kind* kind = static_cast<const Kind*>(context);
    kind->helper->del_cb(object, kind->allocator);
  }

  // Of two helpers of one place the second is looked for under the lock, each time.
  const Kind* Add(const rocksdb::Cache::CacheItemHelper* helper, size_t home) {
    std::lock_guard<std::mutex> lock(mutex_);
    // A node of the map stays where it is.
    Kind& kind = kinds_[helper];
    if (kind.helper == nullptr) {
      kind.drop = helper->del_cb != nullptr ? &Drop : nullptr;
      kind.context = &kind;
      kind.helper = helper;
      kind.allocator = allocator_;
      const Kind* none = nullptr;
      places_[home].compare_exchange_strong(none, &kind, std::memory_order_release,
                                            std::memory_order_relaxed);
    }
    return &kind;
  }

  std::atomic<const Kind*> places_[kPlaces] = {};
  std::mutex mutex_;
  std::unordered_map<const rocksdb::Cache::CacheItemHelper*, Kind> kinds_;
  rocksdb::MemoryAllocator* allocator_ = nullptr;
};

}  // namespace frazil
