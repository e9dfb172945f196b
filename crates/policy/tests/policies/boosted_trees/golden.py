#!/usr/bin/env python3
"""Writes what XGBoost (3.2.0) learns, for `boosted_trees.rs` to compare with:

    pip install xgboost-cpu==3.2.0 numpy scipy
    ./golden.py > xgboost.txt

A case is its name, the seed, number and steps of the rows it trains on, the depth and the rounds.
The test draws the same rows. The lines that follow have the features of rows that were not trained on,
so that they fall between values that were, and what XGBoost predicts for them.
"""

import numpy
import xgboost

MASK = 2**64 - 1


class Rng:
    """SplitMix64, as `Rng` of the crate."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return ((x ^ (x >> 31)) * bound) >> 64


def samples(seed, count, steps):
    """Rows of seven features in so many steps, and a label with some noise."""
    rng, rows, labels = Rng(seed), [], []
    for _ in range(count):
        row = [rng.below(steps) for _ in range(7)]
        noise = rng.below(steps)
        kink = 2 * row[4] if 2 * row[0] < steps else row[5]
        rows.append(row)
        labels.append((row[3] + kink + noise // 4) / 1024)
    return numpy.array(rows, dtype=numpy.float32), numpy.array(labels, dtype=numpy.float32)


def case(name, seed, count, steps, depth, rounds):
    rows, labels = samples(seed, count, steps)
    data = xgboost.DMatrix(rows, label=labels)
    mean = float(numpy.float32(labels.astype(numpy.float64).mean()))
    settings = {"tree_method": "exact", "max_depth": depth, "base_score": mean, "nthread": 1}
    others, _ = samples(seed + 100, 40, steps)
    booster = xgboost.train(settings, data, num_boost_round=rounds)
    print(name, seed, count, steps, depth, rounds)
    for row, value in zip(others, booster.predict(xgboost.DMatrix(others))):
        print(*(int(x) for x in row), f"{value:.9g}")


case("fine", 1, 60, 4096, 6, 20)
case("ties", 2, 60, 8, 6, 20)
case("shallow", 3, 40, 256, 2, 8)
case("long", 4, 8192, 4096, 6, 20)
