/// The values of one figure, one a round. What could not be measured is NaN.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }

    /// How many rounds have a value.
    pub(crate) fn count(&self) -> usize {
        self.known().len()
    }

    fn known(&self) -> Vec<f64> {
        let mut known: Vec<f64> = self.0.iter().copied().filter(|value| value.is_finite()).collect();
        known.sort_by(f64::total_cmp);
        known
    }

    pub(crate) fn median(&self) -> Option<f64> {
        let known = self.known();
        let middle = known.len() / 2;
        match known.len() {
            0 => None,
            even if even % 2 == 0 => Some(f64::midpoint(known[middle - 1], known[middle])),
            _ => Some(known[middle]),
        }
    }

    pub(crate) fn min(&self) -> Option<f64> {
        self.known().first().copied()
    }

    pub(crate) fn max(&self) -> Option<f64> {
        self.known().last().copied()
    }

    /// Round by round, ours over theirs: what the machine did in a round, it did to both.
    pub(crate) fn ratio_to(&self, reference: &Series) -> Series {
        let ratios = self.0.iter().zip(&reference.0).map(|(ours, theirs)| ours / theirs);
        Series(ratios.filter(|ratio| ratio.is_finite()).collect())
    }

    /// `median (min..max)`, and the median alone if there was one round.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let (Some(median), Some(min), Some(max)) = (self.median(), self.min(), self.max()) else {
            return "–".to_owned();
        };
        let number = |value: f64| grouped(value, decimals);
        if self.known().len() == 1 {
            return number(median);
        }
        format!("{} ({}..{})", number(median), number(min), number(max))
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

/// From here on a number is written with its power of ten.
const LARGE: f64 = 1e15;

/// With a comma after every three digits.
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    if value.abs() >= LARGE {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_median_and_spread() {
        assert_eq!(Series(vec![3.0, 1.0, 2000.0]).text(0), "3 (1..2,000)");
        assert_eq!(Series(vec![1.0, 2.0]).text(1), "1.5 (1.0..2.0)");
        assert_eq!(Series(vec![-1_234_567.25]).text(2), "-1,234,567.25");
        assert_eq!(Series(vec![f64::NAN, 7.0]).text(0), "7");
        assert_eq!(Series(vec![f64::NAN]).text(0), "–");
        assert_eq!(Series(vec![f64::INFINITY, f64::MAX]).text(0), "1.80e308");
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratio = Series(vec![2.0, 9.0]).ratio_to(&Series(vec![1.0, 3.0]));
        assert_eq!(ratio, Series(vec![2.0, 3.0]));
        assert_eq!(Series(vec![2.0]).ratio_to(&Series(vec![0.0])), Series(vec![]));
    }
}
