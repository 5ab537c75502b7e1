//! What the profiles of two sides differ by. Pure.

use ladoga_profiler::{Difference, Kind, NamedStacks};

use crate::page::{ComparedFlame, ComparedProfile};
use crate::record::{Profiled, Run};

/// Of every kind that one of the sides has.
pub(super) fn compare_profiles(before: &[&Run], after: &[&Run]) -> Vec<ComparedProfile> {
    let mut found: Vec<ComparedProfile> = Vec::new();
    for profile in before.iter().chain(after).flat_map(|run| &run.profiles) {
        if found.iter().any(|known| known.kind == profile.kind) {
            continue;
        }
        found.push(ComparedProfile {
            kind: profile.kind.clone(),
            question: profile.question(),
            flame: difference(before, after, &profile.kind),
        });
    }
    found
}

fn difference(before: &[&Run], after: &[&Run], kind: &str) -> Result<ComparedFlame, String> {
    let unit = kind.parse::<Kind>().map_err(|error| error.to_string())?.unit();
    let difference = Difference::of_rounds(&rounds(before, kind)?, &rounds(after, kind)?);
    let mut data = difference.to_json();
    data["unit"] = unit.into();
    Ok(ComparedFlame {
        data,
        basis: difference.basis().to_string(),
        changes: difference.changes(),
        coloured: difference.coloured(),
    })
}

/// The samples of every whole round; why there are none.
fn rounds(runs: &[&Run], kind: &str) -> Result<Vec<NamedStacks>, String> {
    let (mut rounds, mut reason) = (Vec::new(), "no profile of this kind".to_owned());
    for run in runs {
        if run.is_interrupted {
            "the run was interrupted".clone_into(&mut reason);
            continue;
        }
        for profile in run.profiles.iter().filter(|profile| profile.kind == kind) {
            match &profile.found {
                Profiled::Missing(missing) => reason.clone_from(missing),
                Profiled::Samples { data, .. } => match NamedStacks::of_samples(data) {
                    Some(round) if round.is_empty() => "no samples were taken".clone_into(&mut reason),
                    Some(round) => rounds.push(round),
                    None => "the samples in the report make no sense".clone_into(&mut reason),
                },
            }
        }
    }
    if rounds.is_empty() { Err(reason) } else { Ok(rounds) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::page::fixture;
    use crate::record::KindProfile;

    /// Rounds in which `main` calls `early` for so many of a hundred samples, and `late` for the others.
    fn runs(kind: &str, rounds: u64, early: u64) -> Vec<Run> {
        let run = fixture::report().runs.swap_remove(0);
        let round = |round: u64| {
            let early = early + round % 3;
            let rows: Vec<u64> =
                (0..100).flat_map(|at| [at % 2, 0, 2 + u64::from(at >= early), 1_000]).collect();
            let mut found = run.profiles[0].found.clone();
            if let Profiled::Samples { data, .. } = &mut found {
                data["samples"] = json!(rows);
                data["tree"]["names"][0] = json!(format!("loop-{}", round % 2));
            }
            Run { profiles: vec![KindProfile { kind: kind.to_owned(), found }], ..run.clone() }
        };
        (0..rounds).map(round).collect()
    }

    fn compared(kind: &str, rounds: u64, early: [u64; 2]) -> ComparedProfile {
        let [before, after] = early.map(|early| runs(kind, rounds, early));
        let [before, after] = [&before, &after].map(|side| side.iter().collect::<Vec<&Run>>());
        compare_profiles(&before, &after).swap_remove(0)
    }

    #[test]
    fn kinds_are_compared_alike() {
        for (kind, unit) in [("cpu", "nanoseconds"), ("alloc", "bytes"), ("lock", "nanoseconds")] {
            let flame = compared(kind, 10, [30, 30]).flame.unwrap();
            assert!(flame.changes.is_empty(), "{:?}", flame.changes);
            assert_eq!(flame.coloured, (0, 4));
            assert_eq!(flame.data["unit"], unit);
            let flame = compared(kind, 10, [30, 60]).flame.unwrap();
            let names: Vec<&str> = flame.changes.iter().map(|changed| changed.name.as_str()).collect();
            assert_eq!(names, ["early", "late"]);
            assert_eq!(flame.coloured, (2, 4));
            let told = &flame.data["noise"];
            assert!(told["deviations"].as_array().unwrap().iter().all(Value::is_f64), "{told}");
            assert_eq!(told["rounds"][1].as_array().unwrap().len(), 10);
        }
    }

    #[test]
    fn too_few_rounds_are_told() {
        let flame = compared("cpu", 2, [30, 60]).flame.unwrap();
        assert!(
            flame.changes.is_empty() && flame.basis.contains("2 and 2 rounds, 5 needed"),
            "{}",
            flame.basis
        );
    }

    #[test]
    fn a_kind_of_one_side_alone_is_told() {
        let [cpu, alloc] = ["cpu", "alloc"].map(|kind| runs(kind, 6, 30));
        let found = compare_profiles(&cpu.iter().collect::<Vec<_>>(), &alloc.iter().collect::<Vec<_>>());
        let reasons: Vec<_> =
            found.iter().map(|profile| profile.flame.as_ref().unwrap_err().as_str()).collect();
        assert_eq!(reasons, ["no profile of this kind"; 2]);
    }
}
