//! The Mann-Whitney U test (Mann and Whitney, 1947): whether values of one sample tend to be larger than those of
//! another. It asks nothing of their distribution, which latencies would not grant.

use statrs::stats_tests::Alternative;
use statrs::stats_tests::mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu};

/// With fewer values on a side no difference, however large, would reach a level of 1 %.
pub(super) const VALUES_MIN: usize = 6;

/// The two-sided probability that chance alone makes the samples differ as much. `None` if there are too few values, or
/// if some cannot be compared.
pub(super) fn p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < VALUES_MIN || b.len() < VALUES_MIN {
        return None;
    }
    let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
    mannwhitneyu(a, b, method, Alternative::TwoSided).ok().map(|(_, p)| p)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(p_value(&[f64::NAN; 10], &values), None);
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
