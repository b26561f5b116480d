//! How objects are chosen: in sequence or at random.

use crate::chance::{mix64, unit};
use crate::trial::{Keys, Order};

/// Chooses the object of a ticket.
#[derive(Debug, Clone)]
pub struct KeyChooser {
    objects: u64,
    law: Law,
}

#[derive(Debug, Clone)]
enum Law {
    Sequential,
    Uniform,
    Zipf(Zipf),
}

impl KeyChooser {
    /// Makes the chooser for `objects` objects.
    #[must_use]
    pub fn new(keys: &Keys, objects: u64, seed: u64) -> Self {
        let law = match keys.order {
            Order::Sequential => Law::Sequential,
            Order::Uniform => Law::Uniform,
            Order::Zipf => Law::Zipf(Zipf::new(objects.max(1), keys.theta.unwrap_or(0.99), seed)),
        };
        Self { objects: objects.max(1), law }
    }

    /// Returns the object's number: by the ticket in sequential order, otherwise from 64 random
    /// bits.
    #[inline]
    #[must_use]
    pub fn choose(&self, ticket: u64, chance: u64) -> u64 {
        match &self.law {
            Law::Sequential => ticket % self.objects,
            Law::Uniform => ((u128::from(chance) * u128::from(self.objects)) >> 64) as u64,
            Law::Zipf(zipf) => zipf.choose(chance),
        }
    }
}

/// Zipf's law by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6(3), 1996). It needs no table, for
/// any number of objects. Ranks are permuted over the objects, so that popular objects are not
/// adjacent.
#[derive(Debug, Clone)]
struct Zipf {
    objects: u64,
    theta: f64,
    h_first: f64,
    h_last: f64,
    shift: f64,
    multiplier: u64,
    offset: u64,
}

impl Zipf {
    fn new(objects: u64, theta: f64, seed: u64) -> Self {
        // At an exponent of exactly 1, the integral is a logarithm; a small offset avoids the
        // special case.
        let theta = if (theta - 1.0).abs() < 1e-9 { 1.0 + 1e-9 } else { theta };
        let mut zipf = Self {
            objects,
            theta,
            h_first: 0.0,
            h_last: 0.0,
            shift: 0.0,
            multiplier: coprime_near_golden_ratio(objects),
            offset: mix64(seed) % objects,
        };
        zipf.h_first = zipf.integral(1.5) - 1.0;
        zipf.h_last = zipf.integral(objects as f64 + 0.5);
        zipf.shift = 2.0 - zipf.inverse(zipf.integral(2.5) - 2.0_f64.powf(-theta));
        zipf
    }

    fn integral(&self, rank: f64) -> f64 {
        (rank.powf(1.0 - self.theta) - 1.0) / (1.0 - self.theta)
    }

    fn inverse(&self, area: f64) -> f64 {
        (1.0 + area * (1.0 - self.theta)).powf(1.0 / (1.0 - self.theta))
    }

    fn choose(&self, chance: u64) -> u64 {
        let mut bits = chance;
        loop {
            let area = self.h_last + unit(bits) * (self.h_first - self.h_last);
            let point = self.inverse(area);
            let rank = (point + 0.5).floor().clamp(1.0, self.objects as f64);
            if rank - point <= self.shift
                || area >= self.integral(rank + 0.5) - rank.powf(-self.theta)
            {
                let rank = rank as u64 - 1;
                let scattered = u128::from(rank) * u128::from(self.multiplier);
                return ((scattered + u128::from(self.offset)) % u128::from(self.objects)) as u64;
            }
            bits = mix64(bits);
        }
    }
}

/// Returns a number coprime to `objects`: multiplication by it is a permutation.
fn coprime_near_golden_ratio(objects: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut candidate = ((objects as f64 * 0.618_033_988_75) as u64).max(1);
    while divisor(candidate, objects) != 1 {
        candidate += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooser(order: Order, objects: u64) -> KeyChooser {
        KeyChooser::new(&Keys { order, theta: Some(0.99) }, objects, 7)
    }

    #[test]
    fn zipf_frequencies_match_the_distribution() {
        const OBJECTS: u64 = 1000;
        const DRAWS: u64 = 400_000;
        let chooser = chooser(Order::Zipf, OBJECTS);
        let mut counts = vec![0_u64; OBJECTS as usize];
        for ticket in 0..DRAWS {
            counts[chooser.choose(ticket, mix64(ticket)) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: f64 = (1..=OBJECTS).map(|rank| (rank as f64).powf(-0.99)).sum();
        for rank in [1_usize, 2, 3, 10, 30] {
            let truth = (rank as f64).powf(-0.99) / total * DRAWS as f64;
            let count = counts[rank - 1] as f64;
            assert!((count / truth - 1.0).abs() < 0.06, "rank {rank}: {count} against {truth}");
        }
    }

    #[test]
    fn zipf_reaches_every_object_of_a_small_set_and_stays_within_a_large_one() {
        let small = chooser(Order::Zipf, 50);
        let chosen: std::collections::HashSet<u64> =
            (0..20_000).map(|ticket| small.choose(ticket, mix64(ticket))).collect();
        assert_eq!(chosen.len(), 50);
        let large = chooser(Order::Zipf, 1_000_000_000);
        assert!((0..20_000).all(|ticket| large.choose(ticket, mix64(ticket)) < 1_000_000_000));
    }

    #[test]
    fn uniform_keys_cover_the_objects_evenly() {
        let chooser = chooser(Order::Uniform, 10);
        let mut counts = [0_u64; 10];
        for ticket in 0..100_000 {
            counts[chooser.choose(ticket, mix64(ticket)) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
