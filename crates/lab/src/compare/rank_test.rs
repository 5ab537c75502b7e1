//! The Mann-Whitney U test (Mann and Whitney, 1947): whether values of one sample tend to be larger than those of
//! another. It asks nothing of their distribution, which latencies would not grant.

/// With fewer values on a side no difference, however large, would reach a level of 1 %.
pub(super) const VALUES_MIN: usize = 6;

/// The two-sided probability that chance alone makes the samples differ as much; none where there are too few values.
pub(super) fn p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < VALUES_MIN || b.len() < VALUES_MIN {
        return None;
    }
    let (rank_sum, ties) = rank_sum_of_first(a, b);
    let (count_a, count_b) = (a.len() as f64, b.len() as f64);
    let u = rank_sum - count_a * (count_a + 1.0) / 2.0;
    let all = count_a + count_b;
    let variance = count_a * count_b / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return Some(1.0); // Every value is the same.
    }
    // The half is the correction for continuity.
    let distance = ((u - count_a * count_b / 2.0).abs() - 0.5).max(0.0);
    Some((2.0 * upper_tail(distance / variance.sqrt())).min(1.0))
}

/// The sum of the ranks of `a` among all values, and the correction for values that are equal.
fn rank_sum_of_first(a: &[f64], b: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|value| (*value, true)).chain(b.iter().map(|value| (*value, false))).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut sum, mut ties, mut from) = (0.0, 0.0, 0);
    while from < all.len() {
        let equal = all[from..].iter().take_while(|(value, _)| value.total_cmp(&all[from].0).is_eq()).count();
        // Equal values share the mean of their ranks, which are counted from 1.
        let rank = (from + 1) as f64 + (equal - 1) as f64 / 2.0;
        sum += rank * all[from..from + equal].iter().filter(|(_, is_first)| *is_first).count() as f64;
        ties += (equal as f64).powi(3) - equal as f64;
        from += equal;
    }
    (sum, ties)
}

/// The probability that a normal variable exceeds `z`, which is not negative. Abramowitz and Stegun, 26.2.17: exact to
/// seven decimals.
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let coefficients = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let polynomial = coefficients.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (density * polynomial).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_that_of_the_normal_distribution() {
        for (z, tail) in [(0.0, 0.5), (1.0, 0.158_655_3), (1.959_964, 0.025), (3.0, 0.001_349_9)] {
            assert!((upper_tail(z) - tail).abs() < 1e-6, "{z}: {}", upper_tail(z));
        }
    }

    /// U is 32 of 36, hence z is (32 - 18 - 0.5) / √39.
    #[test]
    fn known_samples_have_their_known_probability() {
        let a = [19.0, 22.0, 16.0, 29.0, 24.0, 18.0];
        let b = [20.0, 11.0, 17.0, 12.0, 13.0, 10.0];
        assert!((p_value(&a, &b).unwrap() - 0.030_64).abs() < 1e-4, "{:?}", p_value(&a, &b));
        let far: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
        let near: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(p_value(&near, &far).unwrap() < 1e-6);
        assert_eq!(p_value(&near, &far), p_value(&far, &near));
    }

    #[test]
    fn the_same_values_do_not_differ() {
        let same = [5.0; 10];
        assert_eq!(p_value(&same, &same), Some(1.0));
        let values: Vec<f64> = (0..30).map(|i| f64::from(i % 7)).collect();
        assert!(p_value(&values, &values).unwrap() > 0.9);
        assert_eq!(p_value(&values, &[1.0, 2.0]), None);
    }

    /// Where nothing changed, one test in a hundred says so wrongly at a level of 1 %; more would be a broken test.
    #[test]
    fn noise_is_seldom_taken_for_a_change() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64
        };
        let mut alarms = 0;
        for _ in 0..1000 {
            let (a, b): (Vec<f64>, Vec<f64>) = (0..20).map(|_| (random(), random())).unzip();
            alarms += u32::from(p_value(&a, &b).unwrap() < 0.01);
        }
        assert!(alarms < 25, "{alarms} of 1000");
    }
}
