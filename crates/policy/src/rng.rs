//! Random numbers for policies: small, fast, and the same on every platform.

/// SplitMix64: 8 bytes of state, a few instructions a number.
///
/// Good enough for choosing victims; not for secrets.
///
/// ```
/// use frazil_policy::Rng;
/// let mut rng = Rng::new(7);
/// assert!(rng.below(10) < 10);
/// assert!((0.0..1.0).contains(&rng.unit()));
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A sequence that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The whole state: [`Rng::new`] of it continues this sequence. So a sequence can be
    /// kept in a word, such as a thread's atomic.
    ///
    /// ```
    /// use frazil_policy::Rng;
    /// let mut rng = Rng::new(7);
    /// rng.bits();
    /// assert_eq!(Rng::new(rng.state()).bits(), rng.bits());
    /// ```
    #[inline]
    pub fn state(&self) -> u64 {
        self.0
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`, which is not 0. Off from uniform by less than
    /// `bound` / 2⁶⁴.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}
