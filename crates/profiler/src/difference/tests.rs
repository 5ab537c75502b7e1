use serde_json::{Value, json};

use super::{Basis, Difference, NamedStacks, Recorded};

const FUNCTIONS: usize = 60;
const CELLS: u64 = 500;

/// xorshift64*: the same tests each time.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a program does: functions of very different weights below three callers, on two threads of a pool that share
/// the work by chance, round by round.
struct Program {
    /// Added to the time of function 7, as a part of everything.
    planted: f64,
    /// By how much the weight of a function differs from round to round.
    spread: f64,
    /// What a sample weighs: one value, or any up to ten times as much.
    is_even: bool,
    samples: usize,
}

const STEADY: Program = Program { planted: 0.0, spread: 0.15, is_even: true, samples: 2_000 };

impl Program {
    fn round(&self, random: &mut Random) -> Value {
        let mut weights: Vec<f64> = (0..FUNCTIONS)
            .map(|function| (1.0 + self.spread * (random.unit() * 2.0 - 1.0)) / (function + 1) as f64)
            .collect();
        let all: f64 = weights.iter().sum();
        weights[7] += self.planted * all;
        let all: f64 = weights.iter().sum();
        let first_thread = random.unit();
        let mut rows = Vec::new();
        for sample in 0..self.samples as u64 {
            let mut at = random.unit() * all;
            let function = weights.iter().position(|weight| {
                at -= weight;
                at < 0.0
            });
            let thread = usize::from(random.unit() > first_thread);
            let leaf = 2 + 3 * 2 + thread * FUNCTIONS + function.unwrap_or(0);
            let weight = if self.is_even { 1_000 } else { 1_000 + (random.unit() * 9_000.0) as u64 };
            let cell = |sample: u64| sample * CELLS / self.samples as u64;
            let step = cell(sample) - cell(sample.saturating_sub(1));
            rows.extend([step, thread as u64, leaf as u64, weight]);
        }
        json!({ "kind": "cpu", "unit": "nanoseconds", "cells": CELLS, "cellMs": 20, "tree": tree(), "samples": rows })
    }

    fn rounds(&self, count: usize, random: &mut Random) -> Vec<NamedStacks> {
        (0..count).map(|_| NamedStacks::of_samples(&self.round(random)).unwrap()).collect()
    }
}

/// Two threads, three callers below each, every function below one of the callers of each thread.
fn tree() -> Value {
    let mut names = vec!["loop-0".to_owned(), "loop-1".to_owned()];
    names.extend((0..3).map(|caller| format!("caller{caller}")));
    names.extend((0..FUNCTIONS).map(|function| format!("f{function}")));
    let (mut parents, mut node_names) = (vec![-1, -1], vec![0, 1]);
    for thread in 0..2 {
        for caller in 0..3 {
            parents.push(thread);
            node_names.push(2 + caller);
        }
    }
    for thread in 0..2 {
        for function in 0..FUNCTIONS {
            parents.push(2 + thread * 3 + (function % 3) as i64);
            node_names.push(5 + function);
        }
    }
    json!({ "names": names, "parent": parents, "name": node_names })
}

fn names(difference: &Difference) -> Vec<String> {
    difference.changes().into_iter().map(|changed| changed.name).collect()
}

#[test]
fn the_same_program_has_no_colour() {
    for (case, program) in
        [STEADY, Program { is_even: false, ..STEADY }, Program { spread: 0.5, samples: 500, ..STEADY }]
            .iter()
            .enumerate()
    {
        let mut random = Random(0x5eed + case as u64);
        let told = (0..50).filter(|_| {
            let [before, after] = [10, 10].map(|rounds| program.rounds(rounds, &mut random));
            let difference = Difference::of_rounds(&before, &after);
            assert_eq!(difference.basis(), &Basis::Rounds([10, 10]));
            let (coloured, frames) = difference.coloured();
            assert!(frames > FUNCTIONS / 2 && (coloured > 0) != difference.changes().is_empty());
            coloured > 0
        });
        let told = told.count();
        assert!(told <= 3, "{told} of 50 comparisons of the same have a colour in case {case}");
    }
}

#[test]
fn a_function_that_takes_more_has_a_colour_and_its_name_is_told() {
    for (case, even) in [true, false].into_iter().enumerate() {
        let mut random = Random(7 + case as u64);
        for _ in 0..20 {
            let slower = Program { planted: 0.05, is_even: even, ..STEADY };
            let before = Program { is_even: even, ..STEADY }.rounds(10, &mut random);
            let difference = Difference::of_rounds(&before, &slower.rounds(10, &mut random));
            let changes = difference.changes();
            let planted = changes.iter().find(|changed| changed.name == "f7").expect("it is found");
            assert!((0.03..0.07).contains(&(planted.after - planted.before)), "{planted:?}");
            assert!(!names(&difference).contains(&"caller1".to_owned()), "its caller is no news");
            let grown = changes.iter().filter(|changed| changed.after > changed.before).count();
            assert_eq!(grown, 1, "{changes:?}");
        }
    }
}

#[test]
fn which_thread_of_a_pool_did_the_work_is_no_difference() {
    let mut random = Random(3);
    let [before, after] = [10, 10].map(|rounds| STEADY.rounds(rounds, &mut random));
    let json = Difference::of_rounds(&before, &after).to_json();
    let names: Vec<&str> =
        json["tree"]["names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.contains(&"loop") && !names.iter().any(|name| name.starts_with("loop-")), "{names:?}");
    let nodes = json["tree"]["parent"].as_array().unwrap().len();
    for list in ["before", "after"] {
        assert_eq!(json[list].as_array().unwrap().len(), nodes, "{list}");
    }
}

#[test]
fn few_rounds_tell_nothing() {
    let mut random = Random(4);
    let before = STEADY.rounds(4, &mut random);
    let after = Program { planted: 0.5, ..STEADY }.rounds(10, &mut random);
    let difference = Difference::of_rounds(&before, &after);
    assert_eq!(
        difference.basis().to_string().split(": ").last(),
        Some("4 and 10 rounds, 5 needed on each side.")
    );
    assert_eq!(names(&difference), [""; 0]);
    assert_eq!(Difference::of_rounds(&[], &[]).changes(), []);
}

#[test]
fn what_drifts_by_itself_is_no_change() {
    let mut random = Random(5);
    let drifting = |rounds: usize, random: &mut Random| -> Vec<NamedStacks> {
        let planted = |round: usize| Program { planted: 0.02 * round as f64, ..STEADY };
        (0..rounds).map(|round| NamedStacks::of_samples(&planted(round).round(random)).unwrap()).collect()
    };
    let before = drifting(8, &mut random);
    let after = Program { planted: 0.10, ..STEADY }.rounds(8, &mut random);
    assert!(!names(&Difference::of_rounds(&before, &after)).contains(&"f7".to_owned()));
}

fn page_of(data: &Value) -> String {
    format!("<script id=\"data\" type=\"application/json\">{data}</script>")
}

/// What a flame graph's page has instead of samples.
fn flat(data: &Value) -> Value {
    let nodes = data["tree"]["parent"].as_array().unwrap().len();
    let (mut values, mut squares) = (vec![0_u64; nodes], vec![0.0; nodes]);
    for row in data["samples"].as_array().unwrap().chunks_exact(4) {
        let (leaf, weight) = (row[2].as_u64().unwrap() as usize, row[3].as_u64().unwrap());
        values[leaf] += weight;
        squares[leaf] += (weight as f64).powi(2);
    }
    json!({ "kind": "cpu", "tree": data["tree"], "values": values, "squares": squares })
}

#[test]
fn two_files_tell_by_their_own_samples() {
    let slower = Program { planted: 0.05, samples: 10_000, ..STEADY };
    let steady = Program { samples: 10_000, spread: 0.0, ..STEADY };
    let mut random = Random(6);
    for _ in 0..5 {
        let rounds = [&steady, &steady, &slower].map(|program| program.round(&mut random));
        for (is_flat, basis) in [(false, Basis::Slices([10, 10])), (true, Basis::Sampling)] {
            let read = |data: &Value| {
                let page = if is_flat { page_of(&flat(data)) } else { page_of(data) };
                Recorded::of_page(&page).unwrap()
            };
            let [one, same, other] = rounds.each_ref().map(read);
            let difference = Difference::of_recorded(&one, &same);
            assert_eq!((difference.basis(), names(&difference)), (&basis, vec![]));
            let found = names(&Difference::of_recorded(&same, &other));
            assert_eq!(found.first().map(String::as_str), Some("f7"), "{found:?}");
        }
    }
}

#[test]
fn few_samples_tell_nothing() {
    let read = |samples: &[u64]| {
        let rows: Vec<u64> = samples.iter().flat_map(|weight| [0, 0, 1, *weight]).collect();
        let mut data = Program { samples: 1, ..STEADY }.round(&mut Random(8));
        data["samples"] = json!(rows);
        Recorded::of_page(&page_of(&data)).unwrap()
    };
    let (none, one, enough) = (read(&[]), read(&[7]), read(&[7; 20]));
    for (before, after, counts) in [(&none, &one, [0, 1]), (&one, &enough, [1, 20]), (&none, &none, [0, 0])] {
        let difference = Difference::of_recorded(before, after);
        assert_eq!(difference.basis(), &Basis::TooFewSamples { samples: counts, needed: 20 });
        assert_eq!(names(&difference), [""; 0]);
    }
    assert_eq!(Difference::of_recorded(&enough, &enough).basis(), &Basis::Sampling);
}
