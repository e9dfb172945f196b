//! The system's figures for this process, and its allocator's use of memory.

/// Size of a large block. Allocating one costs a system call, and a fault for each of its pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 64 << 10;
/// Largest number of such blocks: half of the mappings that Linux allows a process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCKS: libc::c_int = 32 << 10;

/// Processor time in seconds: in user mode, and in the system.
pub(crate) fn processor_time() -> (f64, f64) {
    let Ok(text) = std::fs::read_to_string("/proc/self/stat") else { return (0.0, 0.0) };
    // The name may contain anything. After it, the 12th and 13th field are the times, in hundredths of a second.
    let fields = text.rsplit(')').next().unwrap_or("");
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>());
    let mut next = || ticks.next().and_then(Result::ok).unwrap_or(0.0) / 100.0;
    (next(), next())
}

/// Resident bytes of the process; 0 if the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let [resident, _] = pages();
    resident * rustix::param::page_size() as u64
}

/// Resident bytes that do not come from files, as the program does.
pub(crate) fn anonymous_bytes() -> u64 {
    let [resident, of_files] = pages();
    resident.saturating_sub(of_files) * rustix::param::page_size() as u64
}

/// Resident pages, and those of files among them.
fn pages() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = text.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    [(); 2].map(|()| fields.next().unwrap_or(0))
}

/// Returns free pages of the allocator to the system, where the allocator can do that.
pub(crate) fn give_back_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, and takes the locks that it needs.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets the allocator map each large block by itself, where it can, so that a freed block returns to the system.
pub(crate) fn part_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, and takes the locks that it needs.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_MMAP_MAX, LARGE_BLOCKS);
    }
}
