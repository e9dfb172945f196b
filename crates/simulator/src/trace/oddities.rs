//! Oddities of a file that was read nevertheless, for a report.

/// The oddities of a trace's file, and how the reader treated them.
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, read};
///
/// let path = std::env::temp_dir().join(format!("frazil-odd-{}.csv", std::process::id()));
/// std::fs::write(&path, "time,id\n1,5\n2,6\noops\n")?;
/// let options = ReadOptions { skip_bad_rows: true, ..ReadOptions::default() };
/// let oddities = read(&path, &options)?.origin.oddities;
/// assert_eq!(oddities.skipped_rows, 1);
/// assert!(oddities.first_skipped.is_some_and(|it| it.starts_with("line 4: ")));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Oddities {
    /// Invalid lines, skipped because of
    /// [`ReadOptions::skip_bad_rows`](super::ReadOptions::skip_bad_rows).
    pub skipped_rows: u64,
    /// The place of the first of them, and its error.
    pub first_skipped: Option<String>,
    /// Lines of a web server's log whose method neither reads nor changes an object, such as
    /// OPTIONS, or that have no method. They are skipped.
    pub other_lines: u64,
    /// Records whose id is a number beyond 64 bits, which was hashed to 64 bits as text is.
    pub hashed_ids: u64,
    /// Records whose time is before that of the record before, if times were requested.
    pub backward_times: u64,
    /// Objects without a size in any record, in a trace with sizes. They have the mean size of the
    /// others.
    pub unknown_sizes: u64,
    /// How columns were found that neither the user nor their usual names gave.
    pub layout: Option<String>,
}
