// The capacity goes up and comes down under load: 8 MiB, 2 GiB, 64 MiB, with blocks that take their memory. No
// insertion is refused, no call takes long, and the memory comes back, but for what the cache keeps for as many entries
// as there were.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "frazil/block_cache.h"
#include "rocksdb/advanced_cache.h"

using rocksdb::Cache;
using Clock = std::chrono::steady_clock;

static const Cache::CacheItemHelper kHelper{
    rocksdb::CacheEntryRole::kDataBlock,
    [](Cache::ObjectPtr object, rocksdb::MemoryAllocator*) { free(object); }};

static size_t ResidentBytes() {
  size_t pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%zu %zu", &pages, &resident) != 2) {
    abort();
  }
  fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

int main(int argc, char** argv) {
  const size_t block = 4096;
  std::shared_ptr<Cache> cache;
  const std::string policy = argc > 1 ? argv[1] : "mobius";
  const auto status = frazil::NewBlockCache("capacity=8M;policy=" + policy, &cache);
  if (!status.ok()) {
    fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  const size_t before = ResidentBytes();
  std::atomic<bool> done{false};
  std::atomic<uint64_t> refused{0};
  std::vector<std::vector<uint32_t>> times(2);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < times.size(); ++thread) {
    threads.emplace_back([&, thread] {
      auto& took = times[thread];
      took.reserve(1 << 24);
      for (uint64_t at = 0; !done.load(std::memory_order_relaxed); ++at) {
        // Blocks of three gigabytes, a third of them asked for twice as often.
        uint64_t key[2] = {(at * 0x9e3779b97f4a7c15u + thread) >> 44, 0};
        key[0] %= at % 2 == 0 ? 786432 : 262144;
        const rocksdb::Slice slice(reinterpret_cast<const char*>(key), sizeof(key));
        const auto begun = Clock::now();
        Cache::Handle* handle = cache->Lookup(slice);
        if (handle == nullptr) {
          void* object = malloc(block);
          memset(object, 1, block);
          if (!cache->Insert(slice, object, &kHelper, block, &handle).ok()) {
            ++refused;
            free(object);
            continue;
          }
        }
        cache->Release(handle);
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begun);
        if (took.size() < took.capacity()) {
          took.push_back(static_cast<uint32_t>(std::min<int64_t>(ns.count(), UINT32_MAX)));
        }
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  cache->SetCapacity(size_t{2} << 30);
  // Until it is full, however long that takes on this machine.
  for (int s = 0; s < 120 && cache->GetUsage() < (size_t{15} << 27); ++s) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const size_t most = cache->GetUsage(), entries = cache->GetOccupancyCount();
  const auto begun = Clock::now();
  cache->SetCapacity(size_t{64} << 20);
  const double shrink_ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  done = true;
  for (auto& thread : threads) {
    thread.join();
  }
  std::vector<uint32_t> all;
  for (auto& took : times) {
    all.insert(all.end(), took.begin(), took.end());
    std::vector<uint32_t>().swap(took);
  }
  std::sort(all.begin(), all.end());
  const double p999_ms = all[all.size() - 1 - all.size() / 1000] / 1e6, longest_ms = all.back() / 1e6;
  const size_t calls = all.size();
  std::vector<uint32_t>().swap(all);
  malloc_trim(0);
  const size_t usage = cache->GetUsage(), resident = ResidentBytes() - before;
  printf(
      "%s: %zu calls, %zu refused; p99.9 %.3f ms, longest %.1f ms, the lower capacity %.0f ms; at most "
      "%.0f MiB, then %.1f MiB used and %.1f MiB resident\n",
      policy.c_str(), calls, static_cast<size_t>(refused), p999_ms, longest_ms, shrink_ms,
      most / 1048576.0, usage / 1048576.0, resident / 1048576.0);
  // A slot stays where it is as long as the cache lives: 84 bytes with its words in the index. S3-FIFO's ghost has
  // room for two hashes an entry, of 18 bytes.
  const size_t kept = (policy == "s3-fifo" ? 120 : 84) * entries;
  const bool is_full = most > (size_t{1} << 30);
  const bool is_small = usage <= (size_t{64} << 20) && resident < usage + usage / 10 + kept;
  const bool is_quick = p999_ms < 10;
  printf("  %.1f MiB kept for %zu entries: %s, %s, %s\n", kept / 1048576.0, entries,
         is_full ? "was full" : "NOT FULL", is_small ? "is small" : "NOT SMALL",
         is_quick ? "quick" : "NOT QUICK");
  return refused == 0 && is_full && is_small && is_quick ? EXIT_SUCCESS : EXIT_FAILURE;
}
