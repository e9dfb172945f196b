//! Medians, for reports of runs on a shared machine.

use std::borrow::Borrow;

/// The median; for an even count the mean of the middle two. 0 for none.
pub(crate) fn median(numbers: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().map(|number| *number.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found_in_any_order() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([] as [f64; 0]), 0.0);
    }
}
