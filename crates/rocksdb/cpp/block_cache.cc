// rocksdb::Cache on the functions of frazil.h. docs/design/rocksdb.md says what is where.

#include "frazil/block_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <set>

#include "frazil.h"
#include "kinds.h"
#include "rocksdb/advanced_cache.h"

#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/utilities/options_type.h"
#include "rocksdb/version.h"

namespace frazil {

using rocksdb::Cache;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

const char* const kId = "frazil";
constexpr uint32_t kSeedMask = 0x7fffffff;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kReportsLeaks = true;
#elif defined(__has_feature)
constexpr bool kReportsLeaks = __has_feature(address_sanitizer);
#else
constexpr bool kReportsLeaks = false;
#endif

std::unordered_map<std::string, rocksdb::OptionTypeInfo>& OptionTypes() {
  using rocksdb::OptionType;
  using rocksdb::OptionTypeFlags;
  using rocksdb::OptionVerificationType;
  const auto info = [](int offset, OptionType type) {
    return rocksdb::OptionTypeInfo(offset, type, OptionVerificationType::kNormal,
                                   OptionTypeFlags::kNone);
  };
  static std::unordered_map<std::string, rocksdb::OptionTypeInfo> types = {
      {"capacity", info(offsetof(struct BlockCacheOptions, capacity), OptionType::kSizeT)},
      {"policy", info(offsetof(struct BlockCacheOptions, policy), OptionType::kString)},
      {"strict_capacity_limit",
       info(offsetof(struct BlockCacheOptions, strict_capacity_limit), OptionType::kBoolean)},
      {"charge_metadata",
       info(offsetof(struct BlockCacheOptions, charge_metadata), OptionType::kBoolean)},
      {"record", info(offsetof(struct BlockCacheOptions, record), OptionType::kString)},
      {"hash_seed", info(offsetof(struct BlockCacheOptions, hash_seed), OptionType::kInt32T)},
  };
  return types;
}

// Seeds that repeat after two thousand million caches, from another start in each process.
uint32_t NextSeed() {
  static std::atomic<uint32_t> next{std::random_device{}()};
  // Odd, so that it is a bijection of the lower 31 bits.
  return next.fetch_add(1, std::memory_order_relaxed) * 0x5bd1e995u & kSeedMask;
}

uint32_t HostSeed() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) {
    static const uint32_t seed = NextSeed();
    return seed;
  }
  // FNV-1a.
  uint32_t hash = 2166136261u;
  for (const char* at = name; *at != 0; ++at) {
    hash = (hash ^ static_cast<unsigned char>(*at)) * 16777619u;
  }
  return hash & kSeedMask;
}

uint32_t SeedOf(int32_t option) {
  if (option >= 0) {
    return static_cast<uint32_t>(option);
  }
  return option == rocksdb::ShardedCacheOptions::kHostHashSeed ? HostSeed() : NextSeed();
}

// The files that caches of this process record to: two would write over each other.
class Files {
 public:
  static Files& All() {
    // Caches may be freed after all static objects are.
    static Files* const all = new Files();
    return *all;
  }

  // A name that no other cache has: the path, or that with a number.
  std::string Take(const std::string& path) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string name = path;
    for (int number = 2; !taken_.insert(name).second; ++number) {
      name = path + "." + std::to_string(number);
    }
    return name;
  }

  void GiveBack(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex_);
    taken_.erase(name);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> taken_;
};

// That of the library, if this was made for it.
Status CheckVersion() {
  const std::string version = rocksdb::GetRocksVersionAsString();
  int major = 0, minor = 0;
  if (sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 &&
      ((major == 10 && minor >= 4) || (major == 11 && minor <= 8))) {
    return Status::OK();
  }
  return Status::NotSupported("Frazil is made for RocksDB 10.4 to 11.8, and this is", version);
}

const uint8_t* Bytes(const Slice& slice) {
  return reinterpret_cast<const uint8_t*>(slice.data());
}

const frazil_entry* EntryOf(const Cache::Handle* handle) {
  return reinterpret_cast<const frazil_entry*>(handle);
}

Cache::Handle* HandleOf(const frazil_entry* entry) {
  return reinterpret_cast<Cache::Handle*>(const_cast<frazil_entry*>(entry));
}

frazil_priority PriorityOf(Cache::Priority priority) {
  switch (priority) {
    case Cache::Priority::HIGH:
      return FRAZIL_HIGH;
    case Cache::Priority::BOTTOM:
      return FRAZIL_BOTTOM;
    default:
      return FRAZIL_LOW;
  }
}

const Kind* KindOf(const frazil_entry* entry) { return static_cast<const Kind*>(entry->kind); }

class BlockCache final : public Cache {
 public:
  explicit BlockCache(const BlockCacheOptions& options) : options_(options) {
    RegisterOptions("FrazilBlockCacheOptions", &options_, &OptionTypes());
  }

  ~BlockCache() override {
    if (!is_disowned_) {
      frazil_free(cache_);
    }
    // RocksDB makes caches that it never uses.
    if (!file_.empty() && !kinds_.HasAny()) {
      unlink(file_.c_str());
      Files::All().GiveBack(file_);
    }
  }

  const char* Name() const override { return kId; }

  // Makes the cache, from what the options say by now.
  Status Make() {
    Status status = CheckVersion();
    if (!status.ok()) {
      return status;
    }
    // Handles may be out of what is not resident any more.
    if (kinds_.HasAny()) {
      return Status::NotSupported("a block cache that is in use cannot be configured");
    }
    seed_ = SeedOf(options_.hash_seed);
    memory_allocator_ = options_.memory_allocator;
    kinds_.SetAllocator(memory_allocator_.get());
    frazil_options options = {};
    options.capacity = options_.capacity;
    options.policy = options_.policy.c_str();
    options.hash_seed = seed_;
    options.strict = options_.strict_capacity_limit;
    options.charges_metadata = options_.charge_metadata;
    frazil_cache* cache = nullptr;
    switch (frazil_new(&options, &cache)) {
      case FRAZIL_OK:
        break;
      case FRAZIL_CANNOT_HOLD:
        return Status::InvalidArgument("policy: blocks of this one cannot be held", options_.policy);
      case FRAZIL_NO_THREAD:
        return Status::Aborted("policy: the system gives no thread for", options_.policy);
      default:
        return Status::InvalidArgument(
            "policy: unknown, and not mobius, s3-fifo, clock, lru, fifo, or frozen+ one of these",
            options_.policy);
    }
    frazil_free(cache_);
    cache_ = cache;
    return Record();
  }

  Status Insert(const Slice& key, ObjectPtr object, const CacheItemHelper* helper, size_t charge,
                Handle** handle, Priority priority, const Slice& /*compressed*/,
                rocksdb::CompressionType /*type*/) override {
    if (eviction_callback_) {
      return Status::NotSupported("Frazil calls no eviction callback, which a secondary cache needs");
    }
    const frazil_entry* entry = nullptr;
    const frazil_status status = frazil_insert(cache_, Bytes(key), key.size(), object,
                                               kinds_.Of(helper), charge, PriorityOf(priority),
                                               handle != nullptr ? &entry : nullptr);
    if (handle != nullptr) {
      *handle = HandleOf(entry);
    }
    switch (status) {
      case FRAZIL_OK:
        return Status::OK();
      case FRAZIL_REPLACED:
        // RocksDB counts those as redundant.
        return Status::OkOverwritten();
      default:
        return Status::MemoryLimit("Insert failed because the cache is full");
    }
  }

  Handle* CreateStandalone(const Slice& key, ObjectPtr object, const CacheItemHelper* helper,
                           size_t charge, bool allow_uncharged) override {
    return HandleOf(frazil_standalone(cache_, Bytes(key), key.size(), object, kinds_.Of(helper),
                                      charge, allow_uncharged));
  }

  Handle* Lookup(const Slice& key, const CacheItemHelper* /*helper*/, CreateContext* /*context*/,
                 Priority /*priority*/, rocksdb::Statistics* /*stats*/) override {
    return HandleOf(frazil_hold(cache_, Bytes(key), key.size()));
  }

  bool Ref(Handle* handle) override {
    frazil_hold_more(cache_, EntryOf(handle));
    return true;
  }

  using Cache::Release;
  bool Release(Handle* handle, bool erase_if_last_ref) override {
    return frazil_release(cache_, EntryOf(handle), erase_if_last_ref);
  }

  ObjectPtr Value(Handle* handle) override { return EntryOf(handle)->object; }

  void Erase(const Slice& key) override { frazil_erase(cache_, Bytes(key), key.size()); }

  uint64_t NewId() override { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  void SetCapacity(size_t capacity) override { frazil_set_capacity(cache_, capacity); }
  size_t GetCapacity() const override { return frazil_capacity(cache_); }

  void SetStrictCapacityLimit(bool strict) override { frazil_set_strict(cache_, strict); }
  bool HasStrictCapacityLimit() const override { return frazil_is_strict(cache_); }

  size_t GetUsage() const override { return frazil_usage(cache_); }
  size_t GetPinnedUsage() const override { return frazil_held_usage(cache_); }
  size_t GetOccupancyCount() const override { return frazil_len(cache_); }
  size_t GetTableAddressCount() const override { return frazil_homes(cache_); }

  size_t GetUsage(Handle* handle) const override {
    return frazil_total_charge(cache_, EntryOf(handle));
  }

  size_t GetCharge(Handle* handle) const override { return frazil_charge(cache_, EntryOf(handle)); }

  const CacheItemHelper* GetCacheItemHelper(Handle* handle) const override {
    return KindOf(EntryOf(handle))->helper;
  }

  // What there is then stays for ever. Who still holds something may let go of it. Where leaks are reported it goes,
  // as in RocksDB's own caches.
  void DisownData() override { is_disowned_ = !kReportsLeaks; }

  void ApplyToAllEntries(
      const std::function<void(const Slice& key, ObjectPtr object, size_t charge,
                               const CacheItemHelper* helper)>& callback,
      const ApplyToAllEntriesOptions& /*options*/) override {
    auto visit = [](void* context, const uint8_t* key, size_t len, const frazil_entry* entry,
                    uint64_t charge) {
      const auto& call = *static_cast<std::remove_reference_t<decltype(callback)>*>(context);
      call(Slice(reinterpret_cast<const char*>(key), len), entry->object, charge,
           KindOf(entry)->helper);
    };
    frazil_for_each(cache_, visit, const_cast<void*>(static_cast<const void*>(&callback)));
  }

  void ApplyToHandle(Cache* cache, Handle* handle,
                     const std::function<void(const Slice& key, ObjectPtr object, size_t charge,
                                              const CacheItemHelper* helper)>& callback) override {
    frazil_cache* its = static_cast<BlockCache*>(cache)->cache_;
    size_t len = 0;
    const uint8_t* key = frazil_key(its, EntryOf(handle), &len);
    callback(Slice(reinterpret_cast<const char*>(key), len), EntryOf(handle)->object,
             frazil_charge(its, EntryOf(handle)), KindOf(EntryOf(handle))->helper);
  }

  void EraseUnRefEntries() override { frazil_clear_unheld(cache_); }

  std::string PrometheusPage(const std::string& name) const {
    std::string page(16384, ' ');
    size_t len = 0;
    while ((len = frazil_prometheus(cache_, name.c_str(), &page[0], page.size())) >= page.size()) {
      page.resize(2 * len);
    }
    page.resize(len);
    return page;
  }

  uint32_t GetHashSeed() const override { return seed_; }

  std::string GetPrintableOptions() const override {
    return "    capacity : " + std::to_string(GetCapacity()) + "\n    policy : " + options_.policy +
           "\n    strict_capacity_limit : " + std::to_string(HasStrictCapacityLimit()) +
           "\n    charge_metadata : " + std::to_string(options_.charge_metadata) +
           "\n    hash_seed : " + std::to_string(seed_) + "\n";
  }

 protected:
  // Whether RocksDB prepares what it has configured depends on where the text was.
  Status ConfigureOptions(const rocksdb::ConfigOptions& config,
                          const std::unordered_map<std::string, std::string>& options,
                          std::unordered_map<std::string, std::string>* unused) override {
    Status status = Cache::ConfigureOptions(config, options, unused);
    return status.ok() ? Make() : status;
  }

 private:
  // Begins a recording, if one is wanted.
  Status Record() {
    if (options_.record.empty()) {
      return Status::OK();
    }
    const size_t colon = options_.record.rfind(':');
    char* end = nullptr;
    const double rate =
        colon == std::string::npos ? 0 : strtod(options_.record.c_str() + colon + 1, &end);
    if (end == nullptr || *end != 0 || colon == 0) {
      return Status::InvalidArgument("record: not FILE:RATE, such as blocks.frazil:0.01",
                                     options_.record);
    }
    char message[256];
    const std::string file = Files::All().Take(options_.record.substr(0, colon));
    if (!frazil_record(cache_, file.c_str(), rate, message, sizeof(message))) {
      Files::All().GiveBack(file);
      return Status::InvalidArgument("record: " + options_.record, message);
    }
    file_ = file;
    return Status::OK();
  }

  frazil_cache* cache_ = nullptr;
  BlockCacheOptions options_;
  bool is_disowned_ = false;
  // What it records to, if it does.
  std::string file_;
  uint32_t seed_ = 0;
  Kinds kinds_;
  std::atomic<uint64_t> next_id_{1};
};

Cache* NewUnconfigured(const std::string& /*uri*/, std::unique_ptr<Cache>* guard,
                       std::string* message) {
  auto made = std::make_unique<BlockCache>(BlockCacheOptions());
  const Status status = made->Make();
  if (!status.ok()) {
    *message = status.ToString();
    return nullptr;
  }
  *guard = std::move(made);
  return guard->get();
}

// Where all of the library is linked, or it is preloaded.
const bool kIsRegistered = (RegisterBlockCache(), true);

}  // namespace

void RegisterBlockCache() {
  static const bool is_registered = [] {
    // "frazil", "frazil://", and what follows that.
    auto id = rocksdb::ObjectLibrary::PatternEntry(kId, true).AddSeparator("://", false);
    rocksdb::ObjectLibrary::Default()->AddFactory<Cache>(id, NewUnconfigured);
    return true;
  }();
  (void)is_registered;
  (void)kIsRegistered;
}

std::string PrometheusPage(const Cache& cache, const std::string& name) {
  const bool is_ours = strcmp(cache.Name(), kId) == 0;
  return is_ours ? static_cast<const BlockCache&>(cache).PrometheusPage(name) : "";
}

Status NewBlockCache(const BlockCacheOptions& options, std::shared_ptr<Cache>* cache) {
  auto made = std::make_shared<BlockCache>(options);
  Status status = made->Make();
  if (status.ok()) {
    *cache = std::move(made);
  }
  return status;
}

Status ParseBlockCacheOptions(const std::string& text, BlockCacheOptions* options) {
  std::unordered_map<std::string, std::string> map;
  Status status = rocksdb::StringToMap(text, &map);
  if (!status.ok()) {
    return status;
  }
  const auto id = map.find("id");
  if (id != map.end()) {
    if (id->second.compare(0, strlen(kId), kId) != 0) {
      return Status::InvalidArgument("id: not frazil", id->second);
    }
    map.erase(id);
  }
  std::unordered_map<std::string, std::string> unused;
  status = rocksdb::OptionTypeInfo::ParseType(rocksdb::ConfigOptions(), map, OptionTypes(), options,
                                              &unused);
  if (status.ok() && !unused.empty()) {
    return Status::InvalidArgument("no option of Frazil's block cache", unused.begin()->first);
  }
  return status;
}

Status NewBlockCache(const std::string& text, std::shared_ptr<Cache>* cache) {
  BlockCacheOptions options;
  Status status = ParseBlockCacheOptions(text, &options);
  return status.ok() ? NewBlockCache(options, cache) : status;
}

}  // namespace frazil
