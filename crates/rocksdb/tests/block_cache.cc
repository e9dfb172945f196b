// What RocksDB's own tests do not ask: options, bad input, and the ways in.

#include "frazil/block_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "rocksdb/advanced_cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/table.h"

using rocksdb::Cache;
using rocksdb::Status;

static int failures = 0;

#define CHECK(what)                                               \
  do {                                                            \
    if (!(what)) {                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);  \
      ++failures;                                                 \
    }                                                             \
  } while (false)

static int dropped = 0;

static void Drop(Cache::ObjectPtr, rocksdb::MemoryAllocator*) { ++dropped; }

static const Cache::CacheItemHelper kHelper{rocksdb::CacheEntryRole::kMisc, &Drop};
static const Cache::CacheItemHelper kSilent{rocksdb::CacheEntryRole::kDataBlock};

static std::shared_ptr<Cache> Make(const std::string& options) {
  std::shared_ptr<Cache> cache;
  const Status status = frazil::NewBlockCache(options, &cache);
  CHECK(status.ok());
  return cache;
}

static void Refuses(const std::string& options, const std::string& named) {
  std::shared_ptr<Cache> cache;
  const Status status = frazil::NewBlockCache(options, &cache);
  CHECK(status.IsInvalidArgument() && cache == nullptr);
  if (status.ToString().find(named) == std::string::npos) {
    fprintf(stderr, "%s: %s\n", options.c_str(), status.ToString().c_str());
    ++failures;
  }
}

static void Options() {
  auto cache = Make("id=frazil;capacity=1G;policy=s3-fifo;strict_capacity_limit=true;hash_seed=7");
  CHECK(cache->GetCapacity() == size_t{1} << 30 && cache->HasStrictCapacityLimit());
  CHECK(cache->GetHashSeed() == 7);
  CHECK(cache->GetPrintableOptions().find("s3-fifo") != std::string::npos);
  Refuses("capacity=1G;policy=lruu", "lruu");
  Refuses("capacity=1G;policy=arc", "arc");
  Refuses("capacity=1G;policy=frozen+lruu", "frozen+lruu");
  Refuses("capacity=1G;policy=frozen+arc", "frozen+arc");
  Refuses("capacity=1G;policy=frozen+frozen+lru", "frozen+frozen+lru");
  Refuses("capacity=1G;policy=frozen+", "frozen+");
  Refuses("capacity=many", "capacity");
  Refuses("capcity=1G", "capcity");
  Refuses("capacity=1G;secondary_cache=compressed_secondary_cache://", "secondary_cache");
  Refuses("id=lru;capacity=1G", "lru");
}

static void Record() {
  const std::string file = "block_cache_test.frazil";
  {
    auto cache = Make("capacity=1M;record=" + file + ":1");
    for (int at = 0; at < 1000; ++at) {
      const std::string key = std::to_string(at % 100);
      Cache::Handle* handle = cache->Lookup(key);
      if (handle == nullptr) {
        CHECK(cache->Insert(key, nullptr, &kSilent, 4096).ok());
      } else {
        cache->Release(handle);
      }
    }
  }
  FILE* recorded = fopen(file.c_str(), "r");
  CHECK(recorded != nullptr && fseek(recorded, 0, SEEK_END) == 0 && ftell(recorded) > 10000);
  if (recorded != nullptr) {
    fclose(recorded);
  }
  {
    unlink((file + ".2").c_str());
    auto used = Make("capacity=1M;record=" + file + ":1");
    auto unused = Make("capacity=1M;record=" + file + ":1");
    CHECK(used->Insert("key", nullptr, &kSilent, 1).ok());
  }
  CHECK(access((file + ".2").c_str(), F_OK) == 0 && access((file + ".3").c_str(), F_OK) != 0);
  Refuses("capacity=1M;record=" + file, "FILE:RATE");
  Refuses("capacity=1M;record=" + file + ":2", "rate");
  Refuses("capacity=1M;record=/no/such/folder/file:1", "/no/such/folder");
}

static void FromString() {
  frazil::RegisterBlockCache();
  std::shared_ptr<Cache> cache;
  const rocksdb::ConfigOptions config;
  Status status =
      Cache::CreateFromString(config, "id=frazil://;capacity=1M;policy=clock", &cache);
  CHECK(status.ok() && cache != nullptr && cache->GetCapacity() == 1 << 20);
  CHECK(cache != nullptr && std::string(cache->Name()) == "frazil");
  cache.reset();
  rocksdb::BlockBasedTableOptions table;
  status = rocksdb::GetBlockBasedTableOptionsFromString(
      config, rocksdb::BlockBasedTableOptions(), "block_cache={id=frazil://;capacity=1M;policy=lru}",
      &table);
  CHECK(status.ok() && std::string(table.block_cache->Name()) == "frazil");
  rocksdb::ConfigOptions unprepared;
  unprepared.invoke_prepare_options = false;
  CHECK(Cache::CreateFromString(unprepared, "id=frazil://;capacity=1M", &cache).ok());
  CHECK(cache != nullptr && cache->Insert("key", nullptr, &kSilent, 1).ok());
  CHECK(cache->ConfigureFromString(config, "capacity=2M").IsNotSupported());
  cache.reset();
  CHECK(!Cache::CreateFromString(config, "id=frazil://;capacity=1M;polcy=clock", &cache).ok());
  CHECK(!Cache::CreateFromString(config, "id=frazil://;capacity=1M;policy=clok", &cache).ok());
}

static void Replacements() {
  auto cache = Make("capacity=1000;charge_metadata=false");
  Cache::Handle *first = nullptr, *second = nullptr;
  CHECK(!cache->Insert("key", nullptr, &kSilent, 1, &first).IsOkOverwritten());
  CHECK(cache->Insert("key", nullptr, &kSilent, 1, &second).IsOkOverwritten());
  CHECK(cache->Insert("key", nullptr, &kSilent, 1).IsOkOverwritten());
  CHECK(!cache->Insert("other", nullptr, &kSilent, 1).IsOkOverwritten());
  cache->Release(first);
  cache->Release(second);
}

static void OddEntries() {
  auto cache = Make("capacity=1000;charge_metadata=false");
  dropped = 0;
  int kept = 0;
  std::vector<Cache::Handle*> handles;
  std::vector<std::string> keys = {"", "a", std::string(16, 'k'), std::string(100000, 'z')};
  for (const std::string& key : keys) {
    for (const size_t charge : {size_t{0}, size_t{1001}, SIZE_MAX, SIZE_MAX - 1}) {
      Cache::Handle* handle = nullptr;
      CHECK(cache->Insert(key, nullptr, &kHelper, charge, &handle).ok() && handle != nullptr);
      CHECK(handle != nullptr && cache->Value(handle) == nullptr);
      CHECK(handle != nullptr && cache->GetCharge(handle) == charge);
      handles.push_back(handle);
      CHECK(cache->Insert(key, nullptr, &kHelper, charge).ok());
      kept += 2;
    }
  }
  for (Cache::Handle* handle : handles) {
    cache->Release(handle);
  }
  cache->EraseUnRefEntries();
  CHECK(cache->GetUsage() == 0 && cache->GetPinnedUsage() == 0 && cache->GetOccupancyCount() == 0);
  CHECK(dropped == kept);
}

static void Standalone() {
  auto cache = Make("capacity=100;charge_metadata=false;strict_capacity_limit=true");
  CHECK(cache->Insert("key", nullptr, &kHelper, 40).ok());
  Cache::Handle* alone = cache->CreateStandalone("key", nullptr, &kHelper, 50, false);
  CHECK(alone != nullptr && cache->GetUsage() == 90);
  Cache::Handle* found = cache->Lookup("key");
  CHECK(found != nullptr && found != alone);
  CHECK(cache->CreateStandalone("key", nullptr, &kHelper, 20, false) == nullptr);
  Cache::Handle* uncharged = cache->CreateStandalone("key", nullptr, &kHelper, 20, true);
  CHECK(uncharged != nullptr && cache->GetCharge(uncharged) == 0);
  cache->Release(found);
  cache->Release(uncharged);
  CHECK(cache->Release(alone));
  CHECK(cache->GetUsage() == 40);
}

// Nobody finds what is out, and it weighs nothing.
static void ConfiguredInUse() {
  std::shared_ptr<Cache> cache;
  const rocksdb::ConfigOptions config;
  const char* text = "id=frazil://;capacity=1M;charge_metadata=false";
  CHECK(Cache::CreateFromString(config, text, &cache).ok());
  dropped = 0;
  Cache::Handle* alone = cache->CreateStandalone("key", nullptr, &kHelper, 0, false);
  CHECK(cache->GetOccupancyCount() == 0);
  CHECK(cache->ConfigureFromString(config, "capacity=2M").IsNotSupported());
  CHECK(cache->GetCapacity() == 1 << 20);
  CHECK(cache->Release(alone) && dropped == 1);
}

static void StandaloneWithoutCapacity() {
  auto cache = Make("capacity=0;strict_capacity_limit=true");
  dropped = 0;
  CHECK(cache->CreateStandalone("key", nullptr, &kHelper, 20, false) == nullptr);
  Cache::Handle* uncharged = cache->CreateStandalone("key", nullptr, &kHelper, 20, true);
  CHECK(uncharged != nullptr && dropped == 0);
  if (uncharged != nullptr) {
    CHECK(cache->GetCharge(uncharged) == 0 && cache->GetUsage() == 0);
    CHECK(cache->Release(uncharged) && dropped == 1);
  }
}

// As with RocksDB's own, what holds something may let go of it after that.
static void Disowned() {
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    auto cache = Make("capacity=1M");
    dropped = 0;
    Cache::Handle* handle = nullptr;
    CHECK(cache->Insert("key", nullptr, &kHelper, 1, &handle).ok());
    cache->DisownData();
    CHECK(cache->GetUsage() > 0);
    CHECK(!cache->Release(handle));
    cache.reset();
    CHECK(dropped == 0);
    _exit(failures);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// The first tier gives to the second what it evicts, and is left to RocksDB.
static void Tiers() {
  rocksdb::LRUCacheOptions first;
  rocksdb::TieredCacheOptions options;
  options.cache_opts = &first;
  options.total_capacity = 64 << 20;
  options.compressed_secondary_ratio = 0.25;
  auto cache = rocksdb::NewTieredCache(options);
  CHECK(cache != nullptr && cache->Insert("sixteen bytes...", nullptr, &kSilent, 1).ok());
  CHECK(std::string(first.MakeSharedCache()->Name()) == "frazil");
}

static void Metadata() {
  auto cache = Make("capacity=1M");
  Cache::Handle* handle = nullptr;
  CHECK(cache->Insert("sixteen bytes...", nullptr, &kSilent, 1000, &handle).ok());
  CHECK(cache->GetCharge(handle) == 1000 && cache->GetUsage(handle) > 1000);
  CHECK(cache->GetUsage(handle) < 1100 && cache->GetUsage() == cache->GetUsage(handle));
  CHECK(cache->GetCacheItemHelper(handle) == &kSilent);
  const std::string page = frazil::PrometheusPage(*cache, "blocks");
  CHECK(page.find("frazil_insertions_total{cache=\"blocks\"} 1\n") != std::string::npos);
  CHECK(page.find("frazil_held_weight{cache=\"blocks\"} 1084\n") != std::string::npos);
  cache->Release(handle);
}

// The library that is tested has debug assertions.
static void ReleasedTwice() {
  const pid_t child = fork();
  if (child == 0) {
    auto cache = Make("capacity=1M");
    Cache::Handle* handle = nullptr;
    CHECK(cache->Insert("key", nullptr, &kHelper, 1, &handle).ok());
    cache->Release(handle);
    cache->Release(handle);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

// Of as many of each as fit, those of high priority stay longest.
static void Priorities() {
  for (const char* policy : {"mobius", "s3-fifo", "clock", "lru"}) {
    auto cache = Make(std::string("capacity=300;charge_metadata=false;policy=") + policy);
    const auto count = [&](const char* prefix) {
      int found = 0;
      cache->ApplyToAllEntries(
          [&](const rocksdb::Slice& key, Cache::ObjectPtr, size_t, const Cache::CacheItemHelper*) {
            found += key.starts_with(prefix);
          },
          {});
      return found;
    };
    // Where all is high nothing is.
    for (int at = 0; at < 100; ++at) {
      CHECK(cache->Insert(std::to_string(at), nullptr, &kSilent, 1, nullptr, Cache::Priority::BOTTOM).ok());
    }
    for (int at = 0; at < 100; ++at) {
      const std::string number = std::to_string(at);
      CHECK(cache->Insert("bottom" + number, nullptr, &kSilent, 1, nullptr, Cache::Priority::BOTTOM).ok());
      CHECK(cache->Insert("low" + number, nullptr, &kSilent, 1, nullptr, Cache::Priority::LOW).ok());
      CHECK(cache->Insert("high" + number, nullptr, &kSilent, 1, nullptr, Cache::Priority::HIGH).ok());
    }
    for (int at = 0; at < 150; ++at) {
      CHECK(cache->Insert("new" + std::to_string(at), nullptr, &kSilent, 1).ok());
    }
    CHECK(count("high") > count("low") || count("low") == 100);
    CHECK(count("low") > count("bottom"));
    CHECK(count("high") >= 90);
  }
}

// Two threads read blocks until some of their hits were of what is frozen. What they hold is what they have found,
// and each block is dropped once.
static void Frozen() {
  static std::atomic<int> living{0};
  static const Cache::CacheItemHelper helper{
      rocksdb::CacheEntryRole::kDataBlock, [](Cache::ObjectPtr object, rocksdb::MemoryAllocator*) {
        delete static_cast<uint64_t*>(object);
        --living;
      }};
  for (const char* policy : {"lru", "mobius", "s3-fifo", "clock", "fifo"}) {
    const std::string name = std::string("frozen+") + policy;
    auto cache = Make("capacity=2000;charge_metadata=false;policy=" + name);
    CHECK(cache->GetPrintableOptions().find(name) != std::string::npos);
    std::atomic<bool> done{false};
    std::atomic<int> strays{0};
    const auto read = [&](uint64_t seed) {
      while (!done.load()) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint64_t one = (seed >> 33) % 2200, other = (seed >> 20) % 2200;
        const uint64_t number = one * other / 2200;
        char key[16] = {};
        memcpy(key, &number, 8);
        Cache::Handle* handle = cache->Lookup(rocksdb::Slice(key, 16));
        if (handle == nullptr) {
          ++living;
          if (!cache->Insert(rocksdb::Slice(key, 16), new uint64_t(number), &helper, 1, &handle).ok()) {
            ++strays;
            continue;
          }
        }
        strays += *static_cast<uint64_t*>(cache->Value(handle)) != number;
        cache->Release(handle, seed >> 54 == 0);
      }
    };
    std::thread one(read, 1), other(read, 2);
    // It begins by waiting until the content was renewed, half a second at least.
    bool is_frozen = false;
    for (int tenths = 0; tenths < 600 && !is_frozen; ++tenths) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::string page = frazil::PrometheusPage(*cache, "blocks");
      is_frozen = page.find("frazil_frozen_hits_total{cache=\"blocks\"} 0\n") == std::string::npos;
    }
    CHECK(is_frozen);
    cache->SetCapacity(1000);
    done = true;
    one.join();
    other.join();
    CHECK(strays == 0 && cache->GetPinnedUsage() == 0 && cache->GetUsage() <= 1000);
    CHECK(size_t(living.load()) == cache->GetOccupancyCount());
    cache.reset();
    CHECK(living == 0);
  }
}

static void EvictionCallback() {
  auto cache = Make("capacity=1M");
  cache->SetEvictionCallback([](const rocksdb::Slice&, Cache::Handle*, bool) { return false; });
  CHECK(cache->Insert("key", nullptr, &kHelper, 1).IsNotSupported());
}

// The capacity changes under load: nothing is refused.
static void Resize() {
  auto cache = Make("capacity=8M;policy=s3-fifo");
  std::vector<std::thread> threads;
  std::atomic<bool> done{false};
  std::atomic<int> refused{0};
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t at = 0; !done.load() || at < 1000; ++at) {
        char key[16] = {};
        const uint64_t number = (at * 2654435761u + thread) % 50000;
        memcpy(key, &number, 8);
        Cache::Handle* handle = nullptr;
        if (!cache->Insert(rocksdb::Slice(key, 16), nullptr, &kSilent, 4096, &handle).ok()) {
          ++refused;
        } else {
          cache->Release(handle);
        }
      }
    });
  }
  for (const size_t capacity : {size_t{2} << 30, size_t{64} << 20, size_t{8} << 20}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cache->SetCapacity(capacity);
    CHECK(cache->GetCapacity() == capacity);
  }
  done = true;
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(refused == 0 && cache->GetUsage() <= size_t{8} << 20);
}

int main() {
  Options();
  Record();
  FromString();
  Replacements();
  OddEntries();
  Standalone();
  StandaloneWithoutCapacity();
  ConfiguredInUse();
  Disowned();
  Tiers();
  Metadata();
  ReleasedTwice();
  Priorities();
  Frozen();
  EvictionCallback();
  Resize();
  printf("%d failures\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
