//! A concurrent cache whose hits take no lock and write no shared line.
//!
//! A [`Cache`] holds a bounded number of entries, or entries of a bounded weight, and evicts by a
//! [policy](#choosing-a-policy). Use it where several threads read far more often than they
//! write, and where a miss costs more than a look-up: in front of a database, a disk, a network,
//! or a slow computation. It loads an absent key [once](#usage), however many threads or tasks
//! request it. Entries may expire, and the capacity may change at run time. For a single thread a
//! cache behind `&mut` does the same with less.
//!
//! 1. [Usage](#usage)
//! 2. [Choosing a policy](#choosing-a-policy)
//! 3. [Recording](#recording)
//! 4. [Freezing](#freezing)
//! 5. [Consistency](#consistency)
//! 6. [Your code inside a call](#your-code-inside-a-call)
//! 7. [Performance](#performance)
//! 8. [Memory](#memory)
//! 9. [Platforms and limits](#platforms-and-limits)
//! 10. [Metrics and events](#metrics-and-events)
//! 11. [Cargo features](#cargo-features)
//!
//! # Usage
//!
//! Build a cache, share it by reference, look up first, and insert after a miss:
//!
//! ```
//! use frazil::Cache;
//!
//! fn load(key: u64) -> String {
//!     format!("row {key}") // slow, in earnest
//! }
//!
//! let cache: Cache<u64, String> = Cache::builder(10_000).build();
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             for key in 0..1_000 {
//!                 let row = cache.get(&key).unwrap_or_else(|| {
//!                     let row = load(key);
//!                     cache.insert(key, row.clone());
//!                     row
//!                 });
//!                 assert_eq!(row, load(key));
//!             }
//!         });
//!     }
//! });
//! let stats = cache.stats();
//! assert_eq!(stats.hits + stats.misses, 4_000);
//! ```
//!
//! Threads that outlive the caller share it in an [`Arc`](std::sync::Arc):
//!
//! ```
//! use std::sync::Arc;
//! let cache: Arc<frazil::Cache<String, u64>> = Arc::new(frazil::Cache::builder(100).build());
//! let shared = Arc::clone(&cache);
//! std::thread::spawn(move || shared.insert("answer".to_owned(), 42)).join().unwrap();
//! assert_eq!(cache.get("answer"), Some(42));
//! ```
//!
//! **Reading.** [`get`](Cache::get) clones the value, so make that cheap: put large values
//! into an `Arc`. [`pin`](Cache::pin) gives a guard through which values are read in place,
//! without a clone; one pin serves many gets. [`peek`](Cache::peek) and
//! [`contains_key`](Cache::contains_key) are invisible to the policy and to the counts.
//! [`get_many`](Cache::get_many) looks up many keys in less than half the time. A look-up takes
//! any borrowed form of the key, such as `&str` for `String`, and any type that is
//! [`Equivalent`] to the key and has the same hash, such as two borrowed strings for a pair of
//! strings.
//!
//! ```
//! use frazil::{Cache, Equivalent};
//!
//! #[derive(Hash)]
//! struct Row<'q>(&'q str, u32); // hashes as the pair does, field by field
//!
//! impl Equivalent<(String, u32)> for Row<'_> {
//!     fn equivalent(&self, key: &(String, u32)) -> bool {
//!         self.0 == key.0 && self.1 == key.1
//!     }
//! }
//!
//! let rows: Cache<(String, u32), u64> = Cache::builder(100).build();
//! rows.insert(("table".to_owned(), 7), 42);
//! assert_eq!(rows.get(&Row("table", 7)), Some(42));
//! ```
//!
//! **Writing.** [`insert`](Cache::insert) adds or replaces, and
//! [`try_insert`](Cache::try_insert) returns which of the two it did, or returns an entry that was
//! [not admitted](#consistency), with the reason. [`remove`](Cache::remove) returns a clone of the
//! value; [`invalidate`](Cache::invalidate) removes without one. [`clear`](Cache::clear) removes
//! all entries, [`retain`](Cache::retain) those for which a closure returns false.
//!
//! **Loading.** [`get_or_insert_with`](Cache::get_or_insert_with) and its variants for errors
//! and for tasks run one loader for an absent key. All others that request the key meanwhile wait
//! and share the value. If the loader fails, panics or is cancelled, the next waiting caller runs
//! its own. A write of the key during a load wins: the loaded value is not stored.
//!
//! ```
//! # #[derive(Debug, PartialEq)] struct Offline;
//! # fn fetch(page: &str) -> Result<String, Offline> { Ok(format!("<h1>{page}</h1>")) }
//! let pages: frazil::Cache<String, String> = frazil::Cache::builder(100).build();
//! let page = pages.try_get_or_insert_with("index", || fetch("index"))?;
//! assert_eq!(pages.get("index"), Some(page));
//! # Ok::<(), Offline>(())
//! ```
//!
//! **Fetching.** [`get_or_fetch`](Cache::get_or_fetch) and
//! [`get_or_fetch_blocking`](Cache::get_or_fetch_blocking) do the same for remote backends.
//! [`Builder::fetching`] bounds how many callers wait for a key and for how long. It also sets who
//! gets an error: only the caller that fetched ([`OnError::Retry`], after which the next waiting
//! caller tries), or all waiting callers ([`OnError::Share`]), and how long the error is remembered
//! for later callers. [`fetch_stats`](Cache::fetch_stats) has histograms of latency, delay and
//! waiters.
//!
//! ```
//! use frazil::{Cache, FetchError, Fetching, OnError};
//! use std::time::Duration;
//! # fn fetch(_: u64) -> Result<String, &'static str> { Err("offline") }
//! let rows: Cache<u64, String> = Cache::builder(1_000)
//!     .fetching(Fetching {
//!         timeout: Some(Duration::from_secs(2)),
//!         on_error: OnError::Share,
//!         negative_ttl: Duration::from_secs(1),
//!         ..Fetching::default()
//!     })
//!     .build();
//! match rows.get_or_fetch_blocking(&7, || fetch(7)) {
//!     Ok(row) => println!("{row}"),
//!     Err(FetchError::Failed(error)) => assert_eq!(*error, "offline"),
//!     Err(FetchError::TimedOut | FetchError::TooManyWaiters) => println!("busy"),
//! }
//! ```
//!
//! **More about fetches.** [`entry(key)`](Cache::entry) and [`entry_by_ref`](Cache::entry_by_ref)
//! have two more forms. With [`or_fetch`](Entry::or_fetch) the fetch may set the value's lifetime
//! and weight ([`Loaded`]). [`or_fetch_detached`](Entry::or_fetch_detached) starts a fetch that
//! outlives its caller. [`Builder::refresh_ahead`] has one caller reload an entry before it
//! expires, while the others get the old value. A load takes any borrowed form of which a key can
//! be made ([`ToKey`]), such as `&str` for `Arc<str>`.
//!
//! **Threads and tasks.** Calls that wait for others block their thread, except those that are
//! `async`: await these in tasks. A thread of an executor that blocks while a task loads keeps that
//! task from being polled. [`FetchStats::blocked`] counts such waits. A thread that has polled a
//! pending loader does not wait, but loads by itself. Inside a loader that is a future such a wait
//! panics.
//!
//! **One key in one step.** [`entry(key)`](Cache::entry) has `or_insert` and its variants, and
//! [`and_compute`](Entry::and_compute), which inserts, removes or keeps an entry after it has seen
//! the present one; [`and_compute_async`](Entry::and_compute_async) awaits the answer.
//!
//! **Holding.** A [`HandleCache`] is another kind of cache, for values that are held for long, sent
//! to other threads, and dropped as soon as no thread uses them. [`hold`](HandleCache::hold)
//! returns a [`Held`] that outlives removal, replacement and the cache. Each insertion states its
//! charge. Evictions skip held entries. [`insert_with`](HandleCache::insert_with) gives an entry a
//! [`Priority`]. A look-up executes two locked instructions; one of a [`Cache`] executes none.
//!
//! ```
//! use frazil::{HandleCache, Outcome};
//! let blocks: HandleCache<u64, Vec<u8>> = HandleCache::builder(1 << 20).build();
//! let new = blocks.insert_held(7, vec![0; 4096], 4096)?;
//! assert_eq!((new.outcome, new.held.len()), (Outcome::New, 4096));
//! blocks.erase(&7);
//! assert_eq!(blocks.held_usage(), 4096, "until `new.held` is dropped");
//! # Ok::<(), frazil::Refused<u64, Vec<u8>>>(())
//! ```
//!
//! **Inspection.** [`for_each`](Cache::for_each) visits all entries in place, [`iter`](Cache::iter)
//! clones them, [`keys`](Cache::keys) clones their keys. [`stats`](Cache::stats) has hits, misses,
//! evictions, and how much threads hinder each other; [`len`](Cache::len) and
//! [`weight`](Cache::weight) the size.
//!
//! **Order and snapshots.** [`hottest`](Cache::hottest) and [`coldest`](Cache::coldest) list keys
//! in the reverse order of eviction, and in that order. [`snapshot`](Cache::snapshot) writes all
//! entries to a file, with their order, marks and lifetimes, while the cache is in use.
//! [`restore`](Cache::restore) inserts them into another cache: all of them, or none if the file is
//! damaged.
//!
//! **Weights.** With a [`weigher`](Builder::weigher) the capacity is a weight, usually in bytes.
//! The number of entries need not be known; [`entries`](Builder::entries) bounds it:
//!
//! ```
//! let cache: frazil::Cache<u64, Vec<u8>> = frazil::Cache::builder(1 << 20)
//!     .weigher(|_, page: &Vec<u8>| page.len() as u64)
//!     .entries(1_000)
//!     .build();
//! (0..100).for_each(|page| cache.insert(page, vec![0; 1 << 15]));
//! assert_eq!((cache.weight(), cache.len()), (1 << 20, 32));
//! ```
//!
//! **Capacity.** [`set_capacity`](Cache::set_capacity) changes it at run time: up to
//! [`entries`](Builder::entries) if that is set, and to any weight with a weigher.
//!
//! **Listening.** A [`listener`](Builder::listener) is called for every entry that leaves the cache
//! or is not admitted, with its [`Cause`]: once, by the thread that caused it, outside all locks.
//!
//! **Lifetimes.** Entries may expire:
//! [`time_to_live`](Builder::time_to_live), [`time_to_idle`](Builder::time_to_idle), or by key
//! and value [`expire_after`](Builder::expire_after), for all entries of a cache;
//! [`insert_for`](Cache::insert_for) for one entry of any cache. No look-up finds an expired
//! entry. Later insertions remove it, at most 64 expired entries each; [`purge`](Cache::purge)
//! removes all at once. No thread runs for that. Until then [`len`](Cache::len) and
//! [`weight`](Cache::weight) count it.
//!
//! ```
//! use std::time::Duration;
//! let sessions: frazil::Cache<u64, String> = frazil::Cache::builder(10_000)
//!     .time_to_live(Duration::from_secs(86_400))
//!     .time_to_idle(Duration::from_secs(1_800))
//!     .build();
//! sessions.insert(1, "a day, or half an hour unused".to_owned());
//! sessions.insert_for(2, "a minute".to_owned(), Duration::from_secs(60));
//! assert!(sessions.lifetime_left(&2) < sessions.lifetime_left(&1));
//! ```
//!
//! **Hashers.** Keys are hashed with `foldhash` and a random seed;
//! [`with_hasher`](Builder::with_hasher) takes any other. The cache mixes the bits once more, so a
//! weak hasher is enough.
//!
//! # Choosing a policy
//!
//! A [`Policy`] chooses the entry to evict. Four policies run without a lock, and a hit at most
//! sets a mark beside the entry, once:
//!
//! | policy | a hit | suits |
//! |---|---|---|
//! | [`Mobius`](Policy::Mobius), the default | sets a mark | most workloads; keeps entries requested again and again, with the fewest writes; poor where only recent keys are requested |
//! | [`S3Fifo`](Policy::S3Fifo) | counts up to 3 | scans and many keys requested only once; small caches. Takes [more memory](#memory) |
//! | [`Clock`](Policy::Clock) | raises a mark, or counts up to 3 | keys whose popularity soon passes |
//! | [`Fifo`](Policy::Fifo) | nothing | where every get counts and order hardly matters |
//!
//! All other online policies run under a lock, which every insertion and eviction takes:
//! [`WTinyLfu`](Policy::WTinyLfu), [`Arc`](Policy::Arc), [`Lirs`](Policy::Lirs),
//! [`Lru`](Policy::Lru) and its variants, and the rest of [`Policy`]. Their [`Promotion`] sets what
//! a hit does. Most are *adaptive*: they note hits and apply 32 of them under one lock. If the lock
//! is often taken they skip hits of entries promoted lately. `Lru`, `LruProb` and `LruDelayed` wait
//! for the lock on every hit, as in textbooks; [`promotion`](Builder::promotion) changes that:
//!
//! ```
//! use frazil::{Cache, Policy, Promotion};
//! let cache: Cache<u64, u64> = Cache::builder(10_000)
//!     .policy(Policy::Lru)
//!     .promotion(Promotion::Adaptive)
//!     .build();
//! # cache.insert(1, 1);
//! ```
//!
//! [`shards`](Builder::shards) divides such a policy into shards with a lock each.
//!
//! Do not guess: [record](#recording) the requests of your program, and ask the command. It
//! replays the same policies, and a single thread misses exactly as often as it prints (nearly, for
//! policies that remember or count hashes of evicted entries: S3-FIFO, W-TinyLFU):
//!
//! ```sh
//! frazil advise --trace requests.frazil
//! frazil bench --workload requests.frazil --policy mobius,s3-fifo --capacity 1%,10%
//! ```
//!
//! # Recording
//!
//! [`Cache::record`] writes the requests for a share of the keys to a file while the program runs,
//! until its guard is dropped:
//!
//! ```
//! # let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
//! # let path = std::env::temp_dir().join(format!("guide-{}.frazil", std::process::id()));
//! let recording = cache.record(&path, 0.01)?;
//! // The program goes on: a minute, an hour, a day.
//! # cache.get(&1);
//! let recorded = recording.finish()?;
//! println!("{} requests, {} lost", recorded.records, recorded.lost);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `frazil simulate` and `advise` take capacities for all keys, replay the sample at its share of
//! them, and answer in capacities for all keys. A sample should have a thousand keys in the
//! smallest cache that you ask about: a rate of 0.01 for 100,000 entries. The recording begins with
//! a full cache and the simulation with an empty one, so record for long, or exclude the beginning
//! with `--warmup`. The example `record` shows the whole cycle.
//!
//! # Freezing
//!
//! If nearly all requests hit and threads wait for each other's hits, above all under a policy with
//! a lock, the cache can *freeze* its hottest entries for a while. Hits of frozen entries take no
//! lock and set no mark, and frozen entries are not evicted. A thread of the cache learns which
//! share to freeze, measures the effect, and thaws when it does not pay:
//!
//! ```
//! use std::sync::Arc;
//! use frazil::{Cache, Freezing, Policy};
//! let cache: Arc<Cache<u64, u64>> =
//!     Arc::new(Cache::builder(100_000).policy(Policy::Lru).freezing(Freezing::Learned).build());
//! let control = cache.control_freezing()?; // until it is dropped
//! # cache.insert(1, 1);
//! println!("{:?}", cache.freezing_state().map(|state| (state.phase, state.reason)));
//! # drop(control);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`freezing_state`](Cache::freezing_state) returns what the thread does and why. It decides
//! within some seconds after the cache is full; for half a second of that, a trial refuses new
//! entries. With [`Freezing::ByHand`] the program decides: [`Cache::freeze`], [`Cache::thaw`].
//! Small keys and values can be [copied](Builder::freezing_copies) into a separate table. The
//! example `freezing` prints the gain second by second.
//!
//! # Consistency
//!
//! *An entry may be evicted at any time*; a miss says nothing about earlier insertions. Apart from
//! that:
//!
//! - **Each key by itself is linearizable**: every operation takes effect at one moment
//!   between its call and its return. What a `get` returns was inserted under that key, was
//!   neither replaced nor removed when the `get` began, and all that the inserting thread
//!   had done before is visible. A replacement is one step: no one finds the key absent in
//!   between.
//! - **Two first inserts at the same time.** If two threads insert a key that neither
//!   found there, both values may be in the table until both calls have returned, and then
//!   one is. Meanwhile gets agree on one of them; if that is removed, the other may be
//!   seen. A get at the moment at which one is removed may miss. The same holds for an insert and a
//!   load that begins during it.
//! - **A loaded value is not stored if its key was written since**: if an insert, a removal,
//!   [`clear`](Cache::clear) or [`retain`](Cache::retain) begins after the loader has begun, no
//!   later caller gets the loaded value. So after a change of the source an `invalidate` leaves no
//!   stale value, if loaders see the change in any way that orders memory: a lock, a system call,
//!   SeqCst.
//! - **An insert may not be admitted**: the entry is heavier than the capacity, the policy rejects
//!   it (S3-FIFO refuses entries that weigh more than a tenth of a full cache), or no slot is free
//!   because [pins](Pin) hold too many. Then the key is absent, never stale. [`Stats::refusals`]
//!   counts it, [`try_insert`](Cache::try_insert) returns it, and a [listener](Builder::listener)
//!   is called.
//! - **Different keys** have no order among each other except the program's: a thread that sees one
//!   of another thread's insertions sees the effects of the earlier ones.
//! - **The bound holds at every moment**: never more entries, nor more weight, than the capacity;
//!   while [`set_capacity`](Cache::set_capacity) lowers it, the old one. An evicted, replaced or
//!   removed entry no longer counts, though its value is [dropped a little later](#memory).
//! - **[`iter`](Cache::iter)** is no snapshot, nor are [`for_each`](Cache::for_each),
//!   [`keys`](Cache::keys) and `Debug`. An entry present throughout is shown once. One inserted or
//!   removed meanwhile may be shown, and one removed and inserted again perhaps twice.
//! - **[`clear`](Cache::clear)** removes all entries it finds, one by one; entries inserted
//!   meanwhile may stay. **[`invalidate_all`](Cache::invalidate_all)** hides all present entries at
//!   one moment.
//! - **[`len`](Cache::len), [`weight`](Cache::weight), [`stats`](Cache::stats)** add up the counts
//!   of all threads, which they read one after the other. They are exact while no thread writes.
//!
//! # Your code inside a call
//!
//! Methods of keys and values run in the middle of the cache's work. All of them may call the cache
//! again, this one too:
//!
//! | code | runs | if it panics |
//! |---|---|---|
//! | weigher, `expire_after`, `expire_after_update` | in `insert`, before anything except the removal of expired entries | nothing has changed |
//! | `expire_after_read` | in `get`, `get_many`, and loads that find their key | the entry is as it was |
//! | `clock` | in every call that inserts or looks up, once there are lifetimes | the cache is as before the call |
//! | `Hash` | in every call with a key; of victims too, in `insert` and `set_capacity`; of removed entries, in `clear`, `retain` and `purge` | in `insert` see below |
//! | `Eq` | in every call that looks for a key | in `insert` see below |
//! | `Clone` | in `get`, `get_many`, `peek`, `remove`, `iter`, `keys`; after a load, for the cache and for waiting callers | the cache is as after the call |
//! | loaders, `and_compute` | outside all locks; others that request the key wait | nothing has changed, and the next waiting caller has the turn |
//! | the closure of `retain` | in `retain`, outside all locks | entries not checked yet stay |
//! | the closure of `for_each`, `Debug` of keys and values | outside all locks; entries that it reads are kept | nothing has changed |
//! | `Drop` | of a new entry not admitted: in its `insert`; of others: in a later `insert`, `remove`, `invalidate`, `clear`, `purge`, or `get` of an expired entry, by any thread, and when the cache is dropped | the others of its batch are dropped later |
//! | listener | at the end of the operation that removed entries or was refused, outside all locks; entries that it reads are pinned | the others are reported, the operation has taken effect |
//!
//! During a load or a computation, code other than the loader must not request the same key: it
//! would wait for itself, and panics. A loader that requests its own key loads by itself.
//!
//! A `Hash` or `Eq` that panics inside an `insert` passes the panic on. The cache keeps working and
//! has lost nothing. If `Hash` or `Eq` calls the cache, the thread's buffers are in use, and the
//! call borrows others, which takes a lock.
//!
//! Equal keys must have equal hashes, and no key may change its hash while it is in the
//! cache, as in a `HashMap`.
//!
//! # Performance
//!
//! A *line* is 64 bytes of memory that processors hand to each other; a *locked
//! instruction* is an atomic read-modify-write, 5 to 20 ns even when alone. In a full cache,
//! on Linux, beside hashing:
//!
//! | operation | locked instructions | lines of shared data |
//! |---|---|---|
//! | `get` that hits | none | the bucket and the entry, both read |
//! | the same with its mark not raised yet | none | the entry is written |
//! | `get` that misses | none | the bucket, read |
//! | `insert` that evicts | 3, and one for each survivor skipped | the new entry's and the victim's bucket, entry and queue word, written |
//! | `insert` that replaces | 2 | bucket, new and old entry, queue word, written |
//! | `remove`, `invalidate` | 2 | bucket, entry, queue word, written |
//! | `get` that hits a frozen entry | none | the bucket and the entry, or a line of copies, read |
//! | with `freezing`, operations that end an entry | 1 or 2 more, and 1 if it is frozen under a lock | the entry; with copies that as well |
//! | a write, while any key is being loaded | 2 more | the count of loads, and a shard of their table |
//! | with lifetimes, `get` that hits | none | the deadline, read where it is not far |
//! | the same with time to idle, 64 times in that span | 1 | the deadline, written |
//! | with `expire_after_read`, which moves the deadline | 1; 2 more for an earlier one | the deadline, written |
//! | with lifetimes, `insert` | 0; 2 if its slot is not listed for an earlier time | two deadlines, written |
//!
//! Everything else that a write does (queue ends, free slots, counts of free capacity) goes through
//! buffers of its thread, and touches shared memory once for up to 16 entries. Counting is a plain
//! store to a line of the thread's own. Values are reclaimed up to 512 at a time, for which one
//! system call fences all running threads. That call, and your destructors, are what makes an
//! `insert` slow now and then.
//!
//! What helps:
//!
//! - Clone little: `Arc<T>` or small `Copy` values. An `Arc` that all threads clone is a shared
//!   line too; a [pin](Pin) is not.
//! - Pin for a batch of gets, not for the life of a thread. A pin keeps what its gets have found
//!   until it is dropped, and the cache refuses new entries when more than its [spare slots](Pin),
//!   or a quarter of its weight, wait.
//! - Do not write the same value again and again. A `get` before an `insert` costs less than a
//!   replacement.
//! - Do not poll [`stats`](Cache::stats) or [`len`](Cache::len) in a loop: they read a line
//!   of every thread.
//! - Watch [`Stats::retries`]: compared with the other counts it shows how much threads hinder each
//!   other.
//!
//! No step of an operation waits for another thread's, with these exceptions: the lock of a policy
//! that has one; a thread's first call, which takes a lock to number the thread; a key that is
//! being loaded, where readers wait for the loader, and a writer waits while the loaded value is
//! inserted; and an `insert` that lists a deadline while another thread visits up to 64 of the same
//! 8,192 slots. A thread that is suspended in the middle of an eviction hides at most the 64
//! entries in its buffers.
//!
//! # Memory
//!
//! An empty cache takes less than 4 kB, whatever its capacity and policy (5.5 kB with
//! `Freezing::Learned`). Table, slots and queues grow with the entries, up to the most entries
//! there have been at once. A cache of a million entries `u64` → `u64` takes 47.2 bytes of memory
//! an entry with Mobius and 62.7 with S3-FIFO (`bench/cache.toml`, 24 November 2026). These consist
//! of:
//!
//! | part | bytes | |
//! |---|---|---|
//! | entry | 24 a slot | key, value, and 8 bytes for the policy |
//! | index | 7.3 | 15 words of 4 bytes to a line, 60 % full. As it grows from 15 % |
//! | hashes | 4 a slot | read when the table grows |
//! | queues | 5 a place | segments of 16 words and their links; up to twice as many places as slots, because removals leave segments partly empty |
//! | rings | 0.5 to 1 a queue | one word for each segment; Mobius and S3-FIFO have two |
//! | S3-FIFO's ghost | 17.8 | from the first eviction; up to four times as much where entries are weighed |
//! | weights | 8 a slot | with a weigher only |
//! | deadlines | 24 a slot | with lifetimes only; from the first entry that has one |
//! | the same with time to idle | 32 a slot | and 8 more if reads decide lifetimes beside a time to live |
//! | generations | 4 a slot | from the first [`invalidate_all`](Cache::invalidate_all) on, beside deadlines |
//! | frozen entries | 4 to 8 a frozen one | with `freezing` only, while there are any: a list of their slots, whose memory doubles as it grows |
//! | copies of them | 40.8 | with `freezing_copies` only; from the first time |
//! | the learner | 1.0 | with `Freezing::Learned` only |
//!
//! Data kept by slot lies in chunks that double in size, so up to half of the address space may be
//! unused; a page is mapped when it is first used. [`Cache::reserved_bytes`] returns the sum for
//! your cache:
//!
//! ```
//! let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(1_000_000).build();
//! assert!(cache.reserved_bytes() < 4_096);
//! (0..10_000).for_each(|key| cache.insert(key, key));
//! assert!(cache.reserved_bytes() < 1_300_000);
//! ```
//!
//! While a larger table replaces the present one, seven times on the way to a million entries,
//! writers [wait](#platforms-and-limits). Each thread that uses a cache adds 1,024 bytes, in groups
//! of eight and more, and a thread that pins adds what its [names](Pin) take. What keys and values
//! point to is not included.
//!
//! **Values are dropped late.** A reader may still be looking at an entry that is evicted, replaced
//! or removed. The entry waits until enough have come together to be worth a fence, and as long as
//! a pin shows it; then its slot is free again. Resident and waiting entries together are never
//! more than the most entries of the cache, a quarter of that, 512, and 16 for each up to 16,384.
//! With a [weigher](Builder::weigher) the waiting ones weigh a 64th of the capacity (a 16th if
//! entries are few and light), a 1,024th for each thread, another 64th for each thread that is
//! suspended while it drops others, and a quarter that readers may keep, with an eighth of that
//! until it is noticed. While more than a quarter waits, insertions yield to other threads, some
//! hundred times each. In a cache without writers they stay waiting; [`flush`](Cache::flush) drops
//! all that no reader can be looking at. So do not keep values in a cache that must be closed at a
//! certain moment.
//!
//! ```
//! use std::sync::Arc;
//! let cache: frazil::Cache<u64, Arc<u64>> = frazil::Cache::builder(100).build();
//! let value = Arc::new(1);
//! cache.insert(1, value.clone());
//! cache.invalidate(&1);
//! assert_eq!(Arc::strong_count(&value), 2); // gone, and not dropped yet
//! cache.clear();
//! assert_eq!(Arc::strong_count(&value), 1);
//! ```
//!
//! # Platforms and limits
//!
//! Any platform of Rust with atomics of 64 bits. On Linux the system call `membarrier` orders reads
//! against reclamation, and reads cost no fence. Elsewhere, or if a sandbox forbids the call from
//! the beginning, each read that finds an entry and each write execute a sequentially consistent
//! fence. If the call is forbidden later they do so from then on. On x86-64 a bucket is scanned
//! with SSE2.
//!
//! On Linux a process that forks may use its caches in the child, if their policies take no lock
//! and nothing is loaded or expires: the child gives up what the missing threads were reading. A
//! mutex that one of them held stays held, and so does a load under way. A fork waits while the
//! table of a cache is copied.
//!
//! - At most 2^29 entries. If the system has no memory for them the process aborts.
//! - When the table has become too small, writers wait until it is copied into one four times as
//!   large: some milliseconds for a quarter of a million entries. Readers do not wait, unless they
//!   find an expired entry and remove it.
//! - The index keeps 12 bits of each hash for a million entries, and slightly less with every
//!   doubling. A look-up reads a wrong entry once in 450 times there, and once in 14 with 30
//!   million.
//! - The policy and the bound [`entries`](Builder::entries), if set, are fixed when a cache is
//!   built. Memory stays with the cache, whatever is removed.
//!
//! # Metrics and events
//!
//! With the feature `prometheus` a page (`prometheus::Page`) shows the counts of [`Stats`] and
//! [`FetchStats`], entries, weight, capacity and bytes, and [`FreezingState`] if there is one, for
//! any number of caches, as Prometheus reads it. It adds no dependency.
//!
//! With the feature `tracing` a cache emits events of the target `frazil`, for rare occurrences
//! that somebody would act on. None concerns a hit. All have `cache`, a number that identifies the
//! cache in its process:
//!
//! | event | level | fields | what it means |
//! |---|---|---|---|
//! | `cache built` | debug | `policy`, `capacity`, `entries`, `reserved_bytes` | which number is which cache |
//! | `cache cleared` | debug | | |
//! | `capacity set` | debug | `wanted`, `capacity` | the second is in force |
//! | `frozen` | debug | `entries`, `share` | by hand, or by the controller |
//! | `freezing` | debug | `phase`, `reason`, `share`, `frozen_hit_share`, `dynamic_hit_share`, `latency_ns`, `threshold_ns` | the controller is in another phase, or in the same for another reason: [`FreezingState`] |
//! | `recording began` | debug | `path`, `rate` | |
//! | `recording ended` | debug | `records`, `lost`, `bytes` | |
//! | `recording failed` | warn | `error` | also of a recording that was dropped, which reports it in no other way |
//! | `snapshot written`, `snapshot restored` | info | `entries` | how many were written to the file, or read from it |
//! | `slots held up by pins` | warn | `held_up`, `spare`, `pins` | more than half of the spare slots wait for [`Pin`]s that have shown them: reported once for each doubling. Drop pins sooner |
//! | `newcomers refused: no slot` | warn | `refusals`, `waiting`, `pins` | nothing could be evicted or reclaimed: reported at the 1st, 2nd, 4th, 8th, … time |
//! | `system refuses membarrier` | warn | | once for a process, see [above](#platforms-and-limits): from here on reads pay a fence |
//!
//! `pins` is the number of threads that hold one at that moment. There is no event for what a
//! result tells the caller, such as a failed loader. A subscriber is called outside all locks and
//! may call the cache.
//!
//! # Cargo features
//!
//! A program can leave out what it does not use. These features are on unless `default-features` is
//! `false`, and each works with or without the others:
//!
//! | feature | what it brings | without it |
//! |---|---|---|
//! | `expiry` | lifetimes: [`time_to_live`](Builder::time_to_live) and its like, [`insert_for`](Cache::insert_for), [`purge`](Cache::purge); with `loading` [`refresh_ahead`](Builder::refresh_ahead) and [`Loaded::lifetime`] | [`invalidate_all`](Cache::invalidate_all) is [`clear`](Cache::clear); [`restore`](Cache::restore) leaves out entries with a lifetime |
//! | `freezing` | [`freezing`](Builder::freezing), [`freeze`](Cache::freeze), [`thaw`](Cache::thaw), [`control_freezing`](Cache::control_freezing) | |
//! | `listener` | [`listener`](Builder::listener), [`Cause`] | |
//! | `loading` | one load for each absent key: [`get_or_insert_with`](Cache::get_or_insert_with), [`get_or_fetch`](Cache::get_or_fetch), [`entry`](Cache::entry), [`fetch_stats`](Cache::fetch_stats) | one crate less (hashbrown); no delay is reported to policies that weigh it |
//! | `recording` | [`record`](Cache::record) | one crate less (`frazil-recording`); what `frazil advise` reads comes from elsewhere |
//!
//! Gets, insertions, removals, weights, pins, iterators, snapshots and counts are always included.
//! Two more features are off by default, `prometheus` and `tracing` ([above](#metrics-and-events)).
#![warn(missing_docs)]

#[cfg(feature = "measure")]
mod bare;
mod build_error;
mod builder;
mod bypass;
mod cache;
mod chunks;
mod clock;
mod core;
#[cfg(feature = "loading")]
mod distribution;
mod ensure;
#[cfg(feature = "loading")]
mod entry;
mod events;
mod features;
#[cfg(feature = "freezing")]
mod freezing;
mod handles;
mod hottest;
mod iter;
#[cfg(feature = "expiry")]
mod lifetimes;
#[cfg(feature = "loading")]
mod loading;
mod many;
#[cfg(all(test, loom))]
mod models;
mod once_box;
mod pin;
#[cfg(feature = "prometheus")]
pub mod prometheus;
#[cfg(feature = "recording")]
mod recording;
mod smr;
mod snapshot;
mod sync;
mod validate;
mod write;

pub use crate::core::admission::{Admitted, Refusal, Refused};
pub use crate::core::order::locked::Promotion;
#[cfg(feature = "measure")]
pub use crate::core::order::locked::turns::{ListCosts, ListTurns};
#[cfg(feature = "measure")]
pub use bare::BareCache;
pub use build_error::BuildError;
pub use builder::Builder;
pub use cache::Cache;
#[cfg(feature = "loading")]
pub use distribution::Distribution;
#[cfg(feature = "loading")]
pub use entry::{Compute, Computed, Entry, TimedOut};
pub use equivalent::Equivalent;
#[cfg(feature = "loading")]
pub use features::fetch::{
    fetching::{FetchError, FetchStats, Fetching, OnError},
    key::{ByRef, ByValue, EntryKey, ToKey},
    loaded::Loaded,
};
#[cfg(feature = "freezing")]
pub use features::frozen::Freezing;
#[cfg(feature = "listener")]
pub use features::listen::Cause;
#[cfg(feature = "recording")]
pub use features::record::{Recorded, Recording};
pub use features::stats::Stats;
#[cfg(feature = "freezing")]
pub use frazil_freezing::{
    CurvePoint, FreezingControl, FreezingState, Phase as FreezingPhase, Reason as FreezingReason,
    Tried as FreezingTried, Verdict as FreezingVerdict,
};
pub use frazil_policy::{Online as Policy, Priority, SpecError as PolicyError};
pub use handles::{HandleBuilder, HandleCache, Held, Insertion, Outcome};
pub use iter::{Iter, Keys};
pub use pin::Pin;
pub use snapshot::RestoreError;

/// The cache of all tests in here: each kind of cache takes as long to compile as half the crate.
#[cfg(all(test, not(any(loom, shuttle))))]
type Tested = Cache<u64, String>;

/// The Rust in the documents, as tests.
#[cfg(doctest)]
// A shell's blocks say `norun` to the test of commands.
#[allow(rustdoc::invalid_codeblock_attributes)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/guide/embed.md")]
    mod embed {}
    #[cfg(feature = "freezing")]
    #[doc = include_str!("../../../docs/guide/freezing.md")]
    mod freezing {}
    #[doc = include_str!("../../../docs/guide/move.md")]
    mod moving {}
    #[cfg(feature = "prometheus")]
    #[doc = include_str!("../../../docs/guide/serve.md")]
    mod serve {}
}
