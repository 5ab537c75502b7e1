//! Conditional writes beside reads and plain writes, and what goes wrong beside them.

use ladoga_model::Replicas;

use super::scenario::{Ask, Faults, Scenario};
use super::{I, R, W, assert_linearizable, scenario};

#[test]
fn try_out() {
    let Ok(spec) = std::env::var("EXPLORE") else { return };
    let one = |ask: char| match ask {
        'R' => R,
        'I' => I,
        'D' => Ask::Delete,
        'w' => W(10),
        'x' => W(20),
        'y' => W(30),
        'c' => Ask::CompareAndSet(None, 50),
        'd' => Ask::CompareAndSet(Some(10), 60),
        'e' => Ask::CompareAndSet(Some(20), 70),
        _ => panic!("{ask}"),
    };
    let mut parts = spec.split(' ');
    let processes: Vec<Vec<Ask>> =
        parts.next().expect("asks").split('/').map(|asks| asks.chars().map(one).collect()).collect();
    let clocks: Vec<u64> =
        parts.next().expect("clocks").split(',').map(|c| c.parse().expect("number")).collect();
    let asks: Vec<&[Ask]> = processes.iter().map(Vec::as_slice).collect();
    let mut faults = Faults::default();
    let mut scenario = scenario(&asks, &clocks, faults);
    for part in parts {
        let (name, value) = part.split_once('=').expect("name=value");
        let value: usize = value.parse().expect("number");
        match name {
            "lost_answers" => faults.lost_answers = value,
            "late" => faults.late_commits = value,
            "deadlines" => faults.deadlines = value,
            "crashes" => faults.crashes = value,
            "take" => faults.take_overs = value,
            "restarts" => faults.restarts = value,
            "disks" => faults.lost_disks = value,
            "attempts" => scenario.attempts = value,
            "hints" => scenario.hints = value > 0,
            "from" => scenario.replicas = Replicas::majority_of(value as u32),
            "bug" => scenario.bug = Some(super::planted_tests::BUGS[value]),
            _ => panic!("{name}"),
        }
    }
    assert_linearizable(&spec, [Scenario { faults, ..scenario }]);
}
