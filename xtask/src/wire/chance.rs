//! Random numbers from a seed (splitmix64), and random damage to bytes.

pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn of<'t>(&mut self, those: &[&'t str]) -> &'t str {
        those[self.below(those.len() as u64) as usize]
    }

    /// Changes a few bytes, none of them to one of `never`.
    pub(super) fn damage(&mut self, bytes: &mut Vec<u8>, never: &[u8]) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() as u64 + 1) as usize;
            let kind = self.below(4);
            let byte = if kind == 0 {
                self.below(256) as u8
            } else {
                b" \r\n-0*$1"[self.below(8) as usize]
            };
            match kind {
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ if never.contains(&byte) => {}
                0 if at < bytes.len() => bytes[at] = byte,
                _ => bytes.insert(at, byte),
            }
        }
    }
}
