//! What the system counts of this process, and how the process holds memory.

/// Blocks that are large: a request for one costs a call of the system, and a fault for each of its pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 64 << 10;
/// Such blocks at once: half of the mappings that Linux allows a process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCKS: libc::c_int = 32 << 10;

/// Seconds of the process, in user mode and in the system.
pub(crate) fn processor_time() -> (f64, f64) {
    let Ok(text) = std::fs::read_to_string("/proc/self/stat") else { return (0.0, 0.0) };
    // Behind the name, which may hold anything: the 12th and 13th field, in hundredths of a second.
    let fields = text.rsplit(')').next().unwrap_or("");
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>());
    let mut next = || ticks.next().and_then(Result::ok).unwrap_or(0.0) / 100.0;
    (next(), next())
}

/// Bytes of memory that the process has; 0 if the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    let [resident, _] = pages();
    resident * rustix::param::page_size() as u64
}

/// Of these, what is not of files, as its program is.
pub(crate) fn anonymous_bytes() -> u64 {
    let [resident, of_files] = pages();
    resident.saturating_sub(of_files) * rustix::param::page_size() as u64
}

/// All that are resident, and those of files.
fn pages() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = text.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    [(); 2].map(|()| fields.next().unwrap_or(0))
}

/// Has the allocator give pages back to the system in which nothing is, where it can be told to.
pub(crate) fn give_back_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, and takes the locks that it needs.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the allocator take large blocks from the system one by one, where it can be told to, so that the memory of each is
/// given back when it is freed.
pub(crate) fn part_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, and takes the locks that it needs.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_MMAP_MAX, LARGE_BLOCKS);
    }
}
