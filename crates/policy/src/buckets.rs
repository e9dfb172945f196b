//! Numbers in buckets an eighth wide: exact up to 15, then eight to each doubling.

/// Buckets for each doubling, as a power of two.
const FINE_BITS: u32 = 3;

/// How many buckets numbers of `bits` bits need.
pub(crate) const fn buckets_for(bits: u32) -> usize {
    (bits as usize - FINE_BITS as usize + 1) << FINE_BITS
}

/// The bucket of a number.
#[inline]
pub(crate) fn bucket_of(number: u64) -> usize {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(FINE_BITS + 1);
    ((u64::from(shift) << FINE_BITS) + (number >> shift)) as usize
}

/// The least number of a bucket.
pub(crate) fn least_of(bucket: usize) -> u64 {
    let shift = (bucket >> FINE_BITS).saturating_sub(1);
    ((bucket - (shift << FINE_BITS)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_the_numbers_they_say() {
        let powers = (4..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for number in (0..5000).chain(powers) {
            let bucket = bucket_of(number);
            let least = least_of(bucket);
            assert!(least <= number && number - least <= least / 8, "{number}");
            assert_eq!(bucket_of(least), bucket);
            if number > 0 {
                assert!(bucket - bucket_of(number - 1) <= 1);
            }
        }
        assert_eq!(bucket_of(u64::from(u32::MAX)) + 1, buckets_for(32));
        assert_eq!(bucket_of(u64::MAX) + 1, buckets_for(64));
        assert_eq!(least_of(buckets_for(32)), 1 << 32);
    }
}
