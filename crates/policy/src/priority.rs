//! How much an entry is worth to the caller that inserts it.

/// The start position of a new entry in a policy: how soon the policy evicts it without a hit.
///
/// ```
/// use frazil_policy::Priority;
/// assert_eq!(Priority::default(), Priority::Low);
/// assert!(Priority::Bottom < Priority::Low && Priority::Low < Priority::High);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Evicted before all entries of low priority, unless it is hit.
    Bottom,
    /// Evicted when the policy reaches it.
    #[default]
    Low,
    /// Spared once when the policy reaches it.
    High,
}
