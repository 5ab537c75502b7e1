//! What the page's script tells noise by, in every view that a reader chooses: the rounds themselves.

use serde_json::{Value, json};

use super::forest::Leaves;
use super::stacks::Weight;

/// A share is a whole number of these.
const SHARE_UNIT: f64 = 1e-7;
/// Squares are told with so many digits.
const DIGITS: i32 = 4;

/// By side: each round as `node, share, node, share, …`, and the squares of all rounds alike. `deviations` are those from
/// the base, and those of the reversed tree.
pub(super) fn noise(leaves: &[Vec<Leaves>; 2], deviations: [Option<f64>; 2], is_sampling: bool) -> Value {
    let rounds = leaves
        .each_ref()
        .map(|side| side.iter().filter(|round| total(round) > 0.0).map(shares).collect::<Vec<Value>>());
    json!({
        "rounds": rounds,
        "squares": leaves.each_ref().map(|side| squares(side)),
        "deviations": deviations,
        "isSampling": is_sampling,
    })
}

fn total(round: &Leaves) -> f64 {
    round.iter().map(|(_, weight)| weight.sum as f64).sum()
}

fn shares(round: &Leaves) -> Value {
    let total = total(round);
    let share = |weight: &Weight| (weight.sum as f64 / total / SHARE_UNIT).round() as u64;
    round.iter().flat_map(|(leaf, weight)| [*leaf as u64, share(weight)]).collect()
}

fn squares(side: &[Leaves]) -> Value {
    let mut out: Vec<Value> = Vec::new();
    for round in side {
        let total = total(round);
        for (leaf, weight) in round.iter().filter(|(_, weight)| weight.squares > 0.0) {
            out.extend([json!(leaf), json!(rounded(weight.squares / (total * total)))]);
        }
    }
    Value::Array(out)
}

/// Pages stay small.
fn rounded(number: f64) -> f64 {
    let scale = 10_f64.powi(DIGITS - 1 - number.log10().floor() as i32);
    let rounded = (number * scale).round() / scale;
    if rounded.is_finite() { rounded } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_told_in_shares_of_their_own() {
        let weight = |sum, squares| Weight { sum, squares };
        let one = vec![(0, weight(1, 1.0)), (3, weight(3, 5.0))];
        let sides = [vec![one, vec![]], vec![vec![(3, weight(8, 64.0))]]];
        let told = noise(&sides, [Some(4.5), None], true);
        assert_eq!(told["rounds"], json!([[[0, 2_500_000, 3, 7_500_000]], [[3, 10_000_000]]]));
        assert_eq!(told["squares"], json!([[0, 0.0625, 3, 0.3125], [3, 1.0]]));
        assert_eq!((&told["deviations"], &told["isSampling"]), (&json!([4.5, null]), &json!(true)));
        assert_eq!(rounded(0.000_012_345_6).to_string(), "0.00001235");
    }
}
