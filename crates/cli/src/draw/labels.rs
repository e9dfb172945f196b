//! Places of a chart's labels, so that none covers another: names of lines are at their ends, those
//! of vertical marks above the plot.

/// Distance of labels: a line of text.
pub(super) const LINE: f64 = 14.0;
/// Width of a character of 12 px, a little above the mean.
const CHARACTER: f64 = 6.9;
/// Space between two labels in a row.
const APART: f64 = 8.0;

/// Approximate width of a text.
pub(super) fn width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// Places moved apart, in the same order, and within two ends if they fit.
pub(super) fn spread(places: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&one, &other| places[one].total_cmp(&places[other]));
    let mut moved = places.to_vec();
    let mut least = low;
    for &at in &order {
        moved[at] = moved[at].max(least);
        least = moved[at] + LINE;
    }
    let mut most = high;
    for &at in order.iter().rev() {
        moved[at] = moved[at].min(most);
        most = moved[at] - LINE;
    }
    moved
}

/// For each mark, in order of place: the row above the plot, and where its text begins.
pub(super) fn rows(marks: &[(f64, &str)], start: f64, end: f64) -> Vec<(usize, f64)> {
    let mut ends: Vec<f64> = Vec::new();
    let mut row_of = |&(at, text): &(f64, &str)| {
        let width = width(text);
        let left = (at - width / 2.0).min(end - width).max(start);
        let row = ends.iter().position(|&taken| taken + APART <= left).unwrap_or(ends.len());
        if row == ends.len() {
            ends.push(0.0);
        }
        ends[row] = left + width;
        (row, left)
    };
    marks.iter().map(&mut row_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart_in_order() {
        let moved = spread(&[50.0, 51.0, 10.0, 99.0, 98.0], 0.0, 100.0);
        let mut sorted = moved.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 1e-9), "{moved:?}");
        assert!(moved.iter().all(|place| (0.0..=100.0).contains(place)), "{moved:?}");
        assert!(moved[2] < moved[0] && moved[0] < moved[1] && moved[4] < moved[3], "{moved:?}");
        assert_eq!(moved[2], 10.0, "what is apart stays");
        assert_eq!(spread(&[], 0.0, 1.0), Vec::<f64>::new());
    }

    #[test]
    fn marks_that_are_near_have_rows_of_their_own() {
        let rows = rows(&[(0.0, "frugal"), (20.0, "balanced"), (200.0, "ample")], 0.0, 200.0);
        assert_eq!(rows.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(rows[0].1, 0.0, "it begins where the plot does");
        assert!(rows[2].1 + width("ample") <= 200.0, "{rows:?}");
    }
}
