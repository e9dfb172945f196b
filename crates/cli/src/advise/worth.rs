//! The value of memory (`docs/design/advice.md`): three sizes of a curve, the cheapest size, and
//! the intervals to search more finely before either is final. Independent of measurement and
//! printing.
//!
//! The input is two numbers a size: the size itself, and its misses.

/// Share of the avoidable misses that a frugal size avoids.
pub(crate) const FRUGAL: f64 = 0.5;
/// The same share of an ample size.
pub(crate) const AMPLE: f64 = 0.95;
/// If a cache for all objects avoids fewer misses than this, no cache helps.
pub(crate) const HOPELESS: f64 = 0.01;
/// A curve within this distance from its chord has no knee.
const STRAIGHT: f64 = 0.05;
/// Share of the possible gain in one step that makes the step a cliff.
pub(crate) const CLIFF: f64 = 0.5;
/// The largest ratio of the two sizes around a cliff.
pub(crate) const CLIFF_WITHIN: f64 = 1.3;
/// The search does not separate sizes with a smaller ratio.
const NEAR: f64 = 1.12;
/// The search ignores smaller shares of the possible saving.
pub(crate) const SLIGHT: f64 = 0.01;
/// Share of all objects: smaller sizes are not considered.
const LEAST: f64 = 1e-6;
/// Share of all objects below which steps are larger.
const SMALL: f64 = 1e-3;

/// A size, and its share of the avoidable misses that remain: from 1, without a cache, to 0, with a
/// cache for all objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) size: u64,
    pub(crate) left: f64,
}

impl Point {
    /// No cache.
    const NOTHING: Point = Point { size: 0, left: 1.0 };

    fn avoids(&self, share: f64) -> bool {
        1.0 - self.left >= share
    }
}

/// Prices of memory and misses: the cheapest size has the least sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prices {
    /// For each unit of size.
    pub(crate) size: f64,
    /// The price of all misses without a cache.
    pub(crate) misses: f64,
}

impl Prices {
    /// The prices of a straight line from no cache to a cache for all objects: on it all sizes cost
    /// the same.
    fn chord(everything: u64) -> Self {
        Prices { size: 1.0 / everything.max(1) as f64, misses: 1.0 }
    }

    /// Cost of a size and its remaining misses.
    pub(crate) fn of(&self, point: &Point) -> f64 {
        self.size * point.size as f64 + self.misses * point.left
    }

    /// Number of the cheapest size; among equals the smallest.
    pub(crate) fn cheapest(&self, points: &[Point]) -> Option<usize> {
        let cost = |&at: &usize| self.of(&points[at]);
        (0..points.len()).min_by(|one, two| cost(one).total_cmp(&cost(two)))
    }
}

/// The knees of a curve, by their numbers: the vertices of its lower convex hull, from size 0 on.
/// At any prices that are proportional to memory and misses, the cheapest size is one of these or
/// no cache. O(points).
pub(crate) fn knees(curve: &[Point]) -> Vec<usize> {
    let point = |at: Option<&usize>| at.map_or(Point::NOTHING, |&at| curve[at]);
    let mut hull: Vec<usize> = Vec::new();
    for (at, next) in curve.iter().enumerate() {
        // A larger size with as many misses is never the cheapest.
        while point(hull.last()).left > next.left {
            let Some(last) = hull.last().map(|&last| curve[last]) else { break };
            let before = point(hull.iter().nth_back(1));
            let slope = |to: &Point| {
                (before.left - to.left) / to.size.saturating_sub(before.size).max(1) as f64
            };
            if slope(&last) > slope(next) {
                break;
            }
            hull.pop();
        }
        if point(hull.last()).left > next.left {
            hull.push(at);
        }
    }
    hull
}

/// Shape of the curve at the middle size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It bends there: memory gains more below it, and less above.
    Knee,
    /// Most of the gain comes there at once.
    Cliff,
    /// It does not bend: each percent of memory avoids about the same share of misses.
    Straight,
}

/// Three sizes by their numbers on the curve, smallest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizes {
    /// Avoids [`FRUGAL`]; `None` if no size does.
    pub(crate) frugal: Option<usize>,
    pub(crate) balanced: usize,
    /// Avoids [`AMPLE`]; `None` if no size does.
    pub(crate) ample: Option<usize>,
    pub(crate) shape: Shape,
}

/// The three sizes of a curve, which is in order of size. `None` if it has no points.
pub(crate) fn sizes(curve: &[Point], everything: u64) -> Option<Sizes> {
    let first = |share| curve.iter().position(|point| point.avoids(share));
    let chord = Prices::chord(everything);
    let knee = chord.cheapest(curve)?;
    let straight = chord.of(&curve[knee]) > 1.0 - STRAIGHT;
    let balanced = if straight { straight_end(curve, everything) } else { knee };
    // A knee may lie outside the range of frugal and ample: a large gain in one step can end beyond
    // either.
    Some(Sizes {
        frugal: first(FRUGAL).map(|at| at.min(balanced)),
        balanced,
        ample: first(AMPLE).map(|at| at.max(balanced)),
        shape: match straight {
            _ if is_cliff(curve, balanced) => Shape::Cliff,
            true => Shape::Straight,
            false => Shape::Knee,
        },
    })
}

/// On a straight line memory pays up to its end or not at all.
fn straight_end(curve: &[Point], everything: u64) -> usize {
    let last = curve.len().saturating_sub(1);
    let any = curve.iter().any(|point| point.avoids(HOPELESS));
    match curve.iter().position(|point| point.size >= everything) {
        Some(all) => all,
        None if any => last,
        None => 0,
    }
}

fn is_cliff(curve: &[Point], at: usize) -> bool {
    let Some(below) = at.checked_sub(1).map(|below| curve[below]) else { return false };
    let near = curve[at].size as f64 <= below.size as f64 * CLIFF_WITHIN;
    near && below.left - curve[at].left >= CLIFF
}

/// Two sizes next to each other; 0 is no cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) lower: u64,
    pub(crate) upper: u64,
}

impl Gap {
    /// The size to replay between the two; `None` if they are close enough.
    pub(crate) fn middle(self, everything: u64) -> Option<u64> {
        let Gap { lower, upper } = self;
        let least = (everything as f64 * LEAST).max(1.0);
        let middle = if lower == 0 {
            if upper as f64 <= least {
                return None;
            }
            let parts = if upper as f64 > everything as f64 * SMALL { 4.0 } else { 16.0 };
            (upper as f64 / parts).max(least).round() as u64
        } else {
            if upper as f64 <= lower as f64 * NEAR {
                return None;
            }
            (lower as f64 * upper as f64).sqrt().round() as u64
        };
        (lower < middle && middle < upper).then_some(middle)
    }
}

/// All gaps of a curve, each with the points that it lies between.
fn gaps(curve: &[Point]) -> impl Iterator<Item = (Point, Point)> + '_ {
    let below = std::iter::once(Point::NOTHING).chain(curve.iter().copied());
    below.zip(curve.iter().copied())
}

fn between((below, above): (Point, Point)) -> Gap {
    Gap { lower: below.size, upper: above.size }
}

/// The gap below the first size for which `met` holds; `None` if it holds for no size.
pub(crate) fn gap_to_first(curve: &[Point], met: impl Fn(usize) -> bool) -> Option<Gap> {
    let at = (0..curve.len()).find(|&at| met(at))?;
    gaps(curve).nth(at).map(between)
}

/// The gap that may hide the largest saving: a size in it would be the cheapest if the whole gain
/// of the gap came at its beginning. `None` if no gap could save `slight`.
pub(crate) fn gap_to_cheapest(
    curve: &[Point],
    prices: &Prices,
    everything: u64,
    slight: f64,
) -> Option<Gap> {
    let known = prices.of(&curve[prices.cheapest(curve)?]).min(prices.of(&Point::NOTHING));
    let at_best = |(below, above): &(Point, Point)| {
        prices.of(&Point { size: below.size, left: above.left.min(below.left) })
    };
    let wide = gaps(curve).filter(|pair| between(*pair).middle(everything).is_some());
    let saves = wide.filter(|pair| at_best(pair) < known - slight);
    saves.min_by(|one, two| at_best(one).total_cmp(&at_best(two))).map(between)
}

/// Sizes to replay before [`sizes`] are final; empty if none are needed.
pub(crate) fn gaps_to_sizes(curve: &[Point], everything: u64) -> Vec<Gap> {
    let first = |share| gap_to_first(curve, |at| curve[at].avoids(share));
    let balanced = gap_to_cheapest(curve, &Prices::chord(everything), everything, SLIGHT);
    let all = balanced.into_iter().chain(first(FRUGAL)).chain(first(AMPLE));
    let mut wide: Vec<Gap> = Vec::new();
    for gap in all.filter(|gap| gap.middle(everything).is_some()) {
        if !wide.contains(&gap) {
            wide.push(gap);
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: u64 = 100_000;
    /// Sizes that may be added to the first ones.
    const MORE: usize = 12;

    /// The misses that remain with a share of everything.
    type Curve = fn(f64) -> f64;

    fn curves() -> [(&'static str, Curve); 5] {
        let two_knees = |share: f64| match share {
            ..0.02 => 1.0 - 25.0 * share,
            ..0.3 => 0.5 - (share - 0.02) * 0.1,
            ..0.35 => 0.472 - (share - 0.3) * 8.0,
            _ => 0.072 * (1.0 - share) / 0.65,
        };
        [
            ("flat", |share| if share < 1.0 { 1.0 } else { 0.0 }),
            ("cliff", |share| if share < 0.43 { 1.0 - 0.02 * share } else { 0.0 }),
            ("two knees", two_knees),
            ("concave", |share| (1.0 - share.powf(0.25)).max(0.0)),
            ("step", |share| if share < 0.07 { 0.9 } else { 0.3 * (1.0 - share) }),
        ]
    }

    fn at(curve: Curve, size: u64) -> Point {
        Point { size, left: curve(size as f64 / EVERYTHING as f64) }
    }

    fn first_sizes(curve: Curve) -> Vec<Point> {
        let shares = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0];
        shares.map(|share: f64| at(curve, (share * EVERYTHING as f64) as u64)).to_vec()
    }

    /// Adds sizes while there are gaps, up to [`MORE`].
    fn look(curve: Curve, closer: impl Fn(&[Point]) -> Vec<Gap>) -> Vec<Point> {
        let mut points = first_sizes(curve);
        for _ in 0..MORE {
            let gap = closer(&points).into_iter().next();
            let Some(size) = gap.and_then(|gap| gap.middle(EVERYTHING)) else { break };
            points.push(at(curve, size));
            points.sort_by_key(|point| point.size);
        }
        points
    }

    #[test]
    fn the_cheapest_size_is_found_at_any_price() {
        for (name, curve) in curves() {
            for memory in [0.02, 0.5, 5.0] {
                let prices = Prices { size: memory / EVERYTHING as f64, misses: 1.0 };
                let closer = |points: &[Point]| {
                    let best = prices.cheapest(points).map(|best| prices.of(&points[best]));
                    let slight = best.unwrap_or(0.0) * SLIGHT;
                    gap_to_cheapest(points, &prices, EVERYTHING, slight).into_iter().collect()
                };
                let points = look(curve, closer);
                let found = prices.of(&points[prices.cheapest(&points).unwrap()]);
                let every: Vec<Point> = (1..=EVERYTHING).map(|size| at(curve, size)).collect();
                let best = &every[prices.cheapest(&every).unwrap()];
                // A step of the grid: the excess cost of a size that is too large by at most that.
                let step = prices.size * best.size as f64 * (NEAR - 1.0);
                let least = prices.of(best).min(prices.of(&Point::NOTHING));
                let found = found.min(prices.of(&Point::NOTHING));
                assert!(
                    found <= least * (1.0 + SLIGHT) + step,
                    "{name} at {memory}: {found}, best {least} with {best:?}, of {points:?}"
                );
            }
        }
    }

    #[test]
    fn the_cheapest_is_a_knee_at_any_price() {
        for (name, curve) in curves() {
            let points = first_sizes(curve);
            let knees = knees(&points);
            assert!(knees.is_sorted() && !knees.is_empty(), "{name}");
            for step in -40..60 {
                let prices = Prices { size: 1.3f64.powi(step) / EVERYTHING as f64, misses: 1.0 };
                let best = prices.cheapest(&points).unwrap();
                let none = prices.of(&points[best]) >= prices.of(&Point::NOTHING);
                assert!(none || knees.contains(&best), "{name}: {best} of {knees:?}");
            }
        }
        let points = [(1, 1.0), (2, 0.5), (3, 0.4), (4, 0.1), (5, 0.1), (6, 0.2)];
        assert_eq!(knees(&points.map(|(size, left)| Point { size, left })), [1, 3]);
        assert_eq!(knees(&[]), Vec::<usize>::new());
    }

    fn three(curve: Curve) -> ([u64; 3], Shape) {
        let mut points = first_sizes(curve);
        let mut more = MORE;
        loop {
            let gaps = gaps_to_sizes(&points, EVERYTHING);
            let sizes = gaps.iter().filter_map(|gap| gap.middle(EVERYTHING)).take(more);
            let new: Vec<Point> = sizes.map(|size| at(curve, size)).collect();
            if new.is_empty() {
                break;
            }
            more -= new.len();
            points.extend(new);
            points.sort_by_key(|point| point.size);
        }
        let Sizes { frugal, balanced, ample, shape } = sizes(&points, EVERYTHING).unwrap();
        ([frugal.unwrap(), balanced, ample.unwrap()].map(|at| points[at].size), shape)
    }

    /// Within a step of the grid of a share.
    fn near(size: u64, share: f64) -> bool {
        let times = size as f64 / (share * EVERYTHING as f64);
        (1.0 - SLIGHT..NEAR * 1.01).contains(&times)
    }

    #[test]
    fn three_sizes_in_order() {
        for (name, curve) in curves() {
            let ([frugal, balanced, ample], shape) = three(curve);
            assert!(frugal <= balanced && balanced <= ample, "{name}");
            match name {
                // All of the gain is at the end.
                "flat" => assert_eq!((frugal, ample), (EVERYTHING, EVERYTHING)),
                "cliff" => {
                    assert!(frugal == ample && near(frugal, 0.43), "{frugal} {ample}");
                    assert_eq!(shape, Shape::Cliff);
                }
                "two knees" => {
                    assert!(near(frugal, 0.02), "{frugal}");
                    assert!(near(balanced, 0.02) || near(balanced, 0.35), "{balanced}");
                    assert_eq!(shape, Shape::Knee);
                }
                "concave" => {
                    // The point at which the slope is that of the chord: share^-0.75 = 4.
                    assert!(near(frugal, 0.0625) && near(ample, 0.8145), "{frugal} {ample}");
                    let gain = |size: u64| -at(curve, size).left - size as f64 / 1e5;
                    assert!(gain(balanced) > gain(15_749) - SLIGHT, "{balanced}");
                }
                _ => {
                    assert!(near(frugal, 0.07) && near(balanced, 0.07), "{frugal} {balanced}");
                    assert_eq!(shape, Shape::Cliff);
                }
            }
        }
    }

    #[test]
    fn a_straight_line_has_no_knee() {
        let ([frugal, balanced, ample], shape) = three(|share| 1.0 - share);
        assert!(near(frugal, 0.5), "{frugal}");
        assert_eq!((balanced, ample, shape), (EVERYTHING, EVERYTHING, Shape::Straight));
    }

    #[test]
    fn a_useful_set_that_is_small_is_found() {
        // Twelve of a hundred thousand.
        let (sizes, shape) = three(|share| if share < 1.2e-4 { 1.0 } else { 0.0 });
        assert!(sizes.iter().all(|&size| near(size, 1.2e-4)), "{sizes:?}");
        assert_eq!(shape, Shape::Cliff);
    }

    #[test]
    fn a_knee_outside_of_what_the_names_promise_moves_them() {
        // Two fifths at once, then evenly: the balanced size avoids less than half.
        let early = [(1_000, 0.6), (50_000, 0.3), (100_000, 0.0)];
        let points = early.map(|(size, left)| Point { size, left });
        let early = sizes(&points, EVERYTHING).unwrap();
        assert_eq!((early.frugal, early.balanced, early.ample), (Some(0), 0, Some(2)));
        // Nearly all misses are avoided before the knee.
        let late = [(1_000, 0.05), (2_000, 0.0), (100_000, 0.0)];
        let late = sizes(&late.map(|(size, left)| Point { size, left }), EVERYTHING).unwrap();
        assert_eq!((late.frugal, late.balanced, late.ample), (Some(0), 1, Some(1)));
    }

    #[test]
    fn sizes_that_were_asked_for_may_reach_nothing() {
        assert_eq!(sizes(&[], 10), None);
        let small = [(100, 1.0), (1_000, 1.0)].map(|(size, left)| Point { size, left });
        let small = sizes(&small, EVERYTHING).unwrap();
        assert_eq!((small.frugal, small.balanced, small.ample), (None, 0, None));
        let large = [(100, 0.2), (200_000, 0.0)].map(|(size, left)| Point { size, left });
        assert_eq!(sizes(&large, EVERYTHING).unwrap().ample, Some(1));
    }

    #[test]
    fn gaps_are_bounded() {
        assert_eq!(Gap { lower: 1, upper: 2 }.middle(2), None);
        assert_eq!(Gap { lower: 0, upper: 1 }.middle(1), None);
        assert_eq!(Gap { lower: 100, upper: 110 }.middle(1_000), None);
        assert_eq!(Gap { lower: 100, upper: 400 }.middle(1_000), Some(200));
        assert_eq!(Gap { lower: 0, upper: 400 }.middle(1_000), Some(100));
        assert_eq!(Gap { lower: 0, upper: 400 }.middle(1_000_000), Some(25));
        assert_eq!(Gap { lower: u64::MAX - 1, upper: u64::MAX }.middle(u64::MAX), None);
        let huge = Gap { lower: 1, upper: u64::MAX }.middle(u64::MAX);
        assert!(huge.is_some_and(|middle| middle > 1 << 31));
    }
}
