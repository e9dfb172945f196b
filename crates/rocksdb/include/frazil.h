/* Frazil's concurrent cache with handles, for C. Link with libfrazil_rocksdb.a, -lpthread -ldl -lm.
 *
 * All functions may be called by any number of threads at once, but for frazil_new and frazil_free.
 * None throws or unwinds. Keys are any bytes; those of 16 cost no allocation. */
#ifndef FRAZIL_H
#define FRAZIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct frazil_cache frazil_cache;

/* How objects of a kind are dropped. A kind has to be there as long as any entry of it. */
typedef struct frazil_kind {
  /* Called once for each object that was admitted, by the thread that let go of it last, under no lock: it
   * may call the cache. May be null. Must not throw. */
  void (*drop)(void *object, void *context);
  void *context;
} frazil_kind;

/* What a handle leads to. Read it as long as it is held; do not write. */
typedef struct frazil_entry {
  void *object;
  const frazil_kind *kind;
} frazil_entry;

/* Zeroes are defaults. */
typedef struct frazil_options {
  uint64_t capacity;     /* a sum of charges */
  const char *policy;    /* "mobius" if null; "s3-fifo", "clock", "lru", "fifo"; behind "frozen+" a thread freezes
                            the hottest entries as long as that pays */
  uint64_t hash_seed;    /* decides, with the keys, the order of frazil_for_each */
  bool strict;           /* refuses what is to be held and has no room */
  bool charges_metadata; /* charges what an entry takes beside its object too */
} frazil_options;

typedef enum frazil_status {
  FRAZIL_OK = 0,
  FRAZIL_REFUSED = 1,        /* strict, and no room: the object is still the caller's */
  FRAZIL_UNKNOWN_POLICY = 2, /* no policy has this name */
  FRAZIL_CANNOT_HOLD = 3,    /* entries of this policy cannot be held */
  FRAZIL_REPLACED = 4,       /* it was done, and took the place of another object */
  FRAZIL_NO_THREAD = 5       /* the system gives no thread, which "frozen+" needs */
} frazil_status;

/* Makes a cache. On success *cache is to be given to frazil_free. */
frazil_status frazil_new(const frazil_options *options, frazil_cache **cache);

/* Drops all that is not held; the rest is dropped when it is let go of, for which the cache must be there:
 * release all handles before. Null is nothing. */
void frazil_free(frazil_cache *cache);

/* Which of the entries that the policy comes to go first. */
typedef enum frazil_priority {
  FRAZIL_LOW = 0,   /* when the policy comes to it */
  FRAZIL_HIGH = 1,  /* spared once */
  FRAZIL_BOTTOM = 2 /* before all others, unless it is hit */
} frazil_priority;

/* Puts an object in, in the place of the one of the same key: FRAZIL_REPLACED if there was one. With `handle`, it is held, and found by others
 * even where it exceeds the capacity, until it is released. Without, an object that has no room is dropped
 * at once. Only with `handle`, and in a strict cache, the answer may be FRAZIL_REFUSED. */
frazil_status frazil_insert(frazil_cache *cache, const uint8_t *key, size_t key_len, void *object,
                            const frazil_kind *kind, uint64_t charge, frazil_priority priority,
                            const frazil_entry **handle);

/* Holds an object that no look-up finds. Room is made for it; null if there is none in a strict cache,
 * unless it may be uncharged: then its charge is 0. */
const frazil_entry *frazil_standalone(frazil_cache *cache, const uint8_t *key, size_t key_len,
                                      void *object, const frazil_kind *kind, uint64_t charge,
                                      bool may_be_uncharged);

/* Holds what is there of a key, or null. */
const frazil_entry *frazil_hold(frazil_cache *cache, const uint8_t *key, size_t key_len);

/* Holds once more what is held. */
void frazil_hold_more(frazil_cache *cache, const frazil_entry *handle);

/* Lets go, once for each time it was held. If nobody else holds it, it is removed if that is asked for, or if
 * more is in use than the capacity. Whether its object was dropped. */
bool frazil_release(frazil_cache *cache, const frazil_entry *handle, bool erase_if_last);

/* Removes a key. Its object is dropped when nobody holds it. Whether it was there. */
bool frazil_erase(frazil_cache *cache, const uint8_t *key, size_t key_len);

/* Of what is held: its key, as long as it is held; its charge; its charge with metadata. */
const uint8_t *frazil_key(frazil_cache *cache, const frazil_entry *handle, size_t *key_len);
uint64_t frazil_charge(frazil_cache *cache, const frazil_entry *handle);
uint64_t frazil_total_charge(frazil_cache *cache, const frazil_entry *handle);

/* Shows all entries, each once if it is there throughout. */
void frazil_for_each(frazil_cache *cache,
                     void (*visit)(void *context, const uint8_t *key, size_t key_len,
                                   const frazil_entry *entry, uint64_t charge),
                     void *context);

/* Records the requests for a share of all keys, above 0 and at most 1, until the cache is freed: a file that the
 * commands `frazil simulate` and `frazil advise` read. False if it cannot be, and why in `message`. */
bool frazil_record(frazil_cache *cache, const char *path, double rate, char *message,
                   size_t message_len);

/* Writes what the cache has counted as a page for Prometheus, with the label cache="name": as much as there is room
 * for, and a zero byte. The answer is how long all of it is. */
size_t frazil_prometheus(frazil_cache *cache, const char *name, char *page, size_t page_len);

/* The capacity that was asked for. Another one: what is too much and not held goes. The answer is what is in
 * force, more than was asked for if that is held. */
uint64_t frazil_capacity(const frazil_cache *cache);
uint64_t frazil_set_capacity(frazil_cache *cache, uint64_t capacity);

bool frazil_is_strict(const frazil_cache *cache);
void frazil_set_strict(frazil_cache *cache, bool strict);

/* Charges, with metadata if that is charged: of all that is resident or held, which may exceed the capacity;
 * of what is held. Exact while nobody is at work. */
uint64_t frazil_usage(const frazil_cache *cache);
uint64_t frazil_held_usage(const frazil_cache *cache);

/* How many entries are resident; how many homes the hash table has, of up to 15 entries. */
uint64_t frazil_len(const frazil_cache *cache);
uint64_t frazil_homes(const frazil_cache *cache);

/* Removes all entries; all that nobody holds. */
void frazil_clear(frazil_cache *cache);
void frazil_clear_unheld(frazil_cache *cache);

#ifdef __cplusplus
}
#endif

#endif
