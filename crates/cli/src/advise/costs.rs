//! Costs of memory and of misses by size, as a chart.

use super::Advice;
use super::board::{Kept, Row};
use super::recommend::Measured;
use super::told::{price, prices, request_rate};

/// Monthly costs of the cheapest policy at a size.
pub(super) struct Cost {
    pub(super) capacity: u64,
    pub(super) policy: usize,
    pub(super) memory: f64,
    pub(super) misses: f64,
}

impl Cost {
    pub(super) fn sum(&self) -> f64 {
        self.memory + self.misses
    }
}

/// The data of a chart of costs.
pub(super) struct Costs {
    /// Prices of a GiB and of misses.
    pub(super) prices: String,
    /// The request rate.
    pub(super) rate: String,
    /// Monthly costs if all requests miss.
    pub(super) without_cache: f64,
    /// By size.
    pub(super) all: Vec<Cost>,
    /// The recommended size; `None` if that is no cache.
    pub(super) chosen: Option<Cost>,
    /// Its name in a chart. A target or a budget may exclude cheaper sizes.
    pub(super) label: String,
}

/// `None` unless there are prices.
pub(super) fn costs(advice: &Advice<'_>) -> Option<Costs> {
    let money = advice.money()?;
    let of = |capacity, policy, kept: &Kept| {
        let [memory, misses] = money.a_month(capacity, kept);
        Cost { capacity, policy, memory, misses }
    };
    let cheapest = |row: &Row| {
        let entry = money.cheapest(row.entries.iter())?;
        Some(of(row.capacity, entry.measured.policy, &entry.kept))
    };
    let Measured { policy, capacity, .. } = advice.choice.winner.chosen;
    let chosen = of(capacity, policy, &advice.choice.kept);
    let all: Vec<Cost> = advice.board.rows.iter().filter_map(cheapest).collect();
    let is_cheapest = all.iter().all(|it| chosen.sum() <= it.sum() * (1.0 + 1e-9));
    let name = if is_cheapest { "cheapest" } else { "advised" };
    Some(Costs {
        prices: prices(money),
        rate: request_rate(money),
        without_cache: money.without_cache(),
        all,
        label: format!("{name}: {}", price(chosen.sum())),
        chosen: advice.choice.is_size().then_some(chosen),
    })
}
