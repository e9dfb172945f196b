//! The system's figures for this process.

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
    let Ok(text) = std::fs::read_to_string("/proc/self/statm") else { return 0 };
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}
