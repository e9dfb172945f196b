//! Vendors' list prices, for some pairs of a cache and a backend.

use clap::ValueEnum;

use super::goal::MONTH_SECONDS;

/// Prices of memory and misses for a cache before a backend: on demand, without discounts, in USD,
/// in the region us-east-1, without costs of data transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriceList {
    /// Nodes of ElastiCache before DynamoDB: USD 12.24 a GiB, 0.125 a million misses
    ElasticacheDynamodb,
    /// Nodes of ElastiCache before S3: USD 12.24 a GiB, 0.4 a million misses
    ElasticacheS3,
    /// Instances of EC2 before S3: USD 7.45 a GiB, 0.4 a million misses
    Ec2S3,
}

/// A machine with a price by the hour.
struct Machine {
    name: &'static str,
    an_hour: f64,
    gib: f64,
    read: &'static str,
    source: &'static str,
}

const ELASTICACHE: Machine = Machine {
    name: "ElastiCache cache.r7g.large",
    an_hour: 0.219,
    gib: 13.07,
    read: "2026-10-02",
    source: "https://aws.amazon.com/elasticache/pricing/",
};
const EC2: Machine = Machine {
    name: "EC2 m7g.large",
    an_hour: 0.0816,
    gib: 8.0,
    read: "2026-06-17",
    source: "https://aws.amazon.com/ec2/pricing/on-demand/",
};

/// Reads of a backend: one for each miss.
struct Reads {
    name: &'static str,
    a_million: f64,
    read: &'static str,
    source: &'static str,
}

const DYNAMODB: Reads = Reads {
    name: "DynamoDB read, consistent, of up to 4 KB",
    a_million: 0.125,
    read: "2026-07-31",
    source: "https://aws.amazon.com/dynamodb/pricing/on-demand/",
};
const S3: Reads = Reads {
    name: "S3 GET",
    a_million: 0.4,
    read: "2026-09-29",
    source: "https://aws.amazon.com/s3/pricing/",
};

impl PriceList {
    fn parts(self) -> (Machine, Reads) {
        match self {
            PriceList::ElasticacheDynamodb => (ELASTICACHE, DYNAMODB),
            PriceList::ElasticacheS3 => (ELASTICACHE, S3),
            PriceList::Ec2S3 => (EC2, S3),
        }
    }

    /// Price of a GiB of memory a month, to the cent.
    pub(crate) fn memory(self) -> f64 {
        let Machine { an_hour, gib, .. } = self.parts().0;
        (an_hour * MONTH_SECONDS / 3_600.0 / gib * 100.0).round() / 100.0
    }

    /// Price of a million misses.
    pub(crate) fn misses(self) -> f64 {
        self.parts().1.a_million
    }

    /// Source of the price of memory.
    pub(crate) fn memory_source(self) -> String {
        let Machine { name, an_hour, gib, read, source } = self.parts().0;
        format!("memory is {name} at USD {an_hour} an hour for {gib} GiB ({read}, {source})")
    }

    /// Source of the price of misses.
    pub(crate) fn misses_source(self) -> String {
        let Reads { name, read, source, .. } = self.parts().1;
        format!("a miss is a {name} ({read}, {source})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_says_what_lists_do() {
        for list in PriceList::value_variants() {
            let value = list.to_possible_value().unwrap();
            let help = value.get_help().unwrap().to_string();
            let prices = format!("USD {} a GiB, {} a million misses", list.memory(), list.misses());
            assert!(help.ends_with(&prices), "{help}: {prices}");
        }
    }
}
