use super::*;
use crate::http::Method;
use crate::stats::{Class, RunOutcome};

fn step(rate: u64, reasons: &[&str], lateness_ns: u64, cpu_share: f64) -> Step {
    let mut outcome = RunOutcome::new(Some(rate as f64));
    outcome.latencies.at(Class::Success, Method::Get).corrected.record(1_000_000).unwrap();
    outcome.lateness.record(lateness_ns).unwrap();
    outcome.cpu_shares = vec![cpu_share];
    Step::new(rate, &outcome, reasons.iter().map(|reason| (*reason).to_owned()).collect())
}

/// Its latency was that of an answer in no time.
#[test]
fn a_row_without_answers_has_no_latency() {
    let mut outcome = RunOutcome::new(Some(9.0));
    let row = |outcome: &RunOutcome| Step::new(9, outcome, Vec::new()).row();
    let dashes = [" ".repeat(10), "-".to_owned()].concat().repeat(4);
    assert_eq!(row(&outcome), format!("         9        0.00{dashes}"));
    assert!(Step::new(9, &outcome, Vec::new()).is_dead);
    outcome.latencies.at(Class::Broken, Method::Get).corrected.record(1_000).unwrap();
    assert!(row(&outcome).ends_with(&dashes), "what broke has no latency: {}", row(&outcome));
    assert!(!Step::new(9, &outcome, Vec::new()).is_dead);
}

/// The knee of the generator was told as that of the server.
#[test]
fn a_generator_that_was_the_limit_is_named() {
    let slo = Slo::parse("p99<5ms").unwrap();
    let search = Search { held: Some(1_000), broke: Some(1_050) };
    let fine = [step(1_000, &[], 1_000, 0.5), step(1_050, &["p99<5ms: found 9ms"], 1_000, 0.5)];
    assert_eq!(caveat(search, &fine), None);
    let late = [step(1_000, &[], 5_000_000, 0.5), step(1_050, &["the rate was not kept"], 5_000_000, 0.99)];
    assert_eq!(late[0].verdict(), "holds (the generator was late)");
    assert_eq!(
        late[1].verdict(),
        "the rate was not kept (the generator had no CPU left, the generator was late)"
    );
    let text = caveat(search, &late).unwrap();
    let wanted = "The server may hold more: at 1050 requests/sec, the generator was the limit: a thread of it used 99 %";
    assert!(text.starts_with(wanted) && text.contains("; and the generator was late: "), "{text}");
    let data = json_of("http://a", &slo, (search, End::Found), &late);
    assert_eq!(data["generator"]["limits"], json!(["cpu", "late"]));
    assert_eq!(data["curve"][0]["generator"]["limits"], json!(["late"]));
    assert_eq!(json_of("http://a", &slo, (search, End::Found), &fine)["generator"]["limits"], json!([]));
}

/// What was in flight when a run ended counted as not kept: a server whose answers take a tenth of a second had a knee of 10 requests/sec.
#[test]
fn answers_that_take_long_do_not_lower_the_knee() {
    let slo = Slo::parse("p99<500ms").unwrap();
    let mut outcome = RunOutcome::new(Some(500.0));
    (outcome.elapsed_ns, outcome.complete, outcome.unanswered) = (2_000_000_000, 950, 50);
    let latencies = outcome.latencies.at(Class::Success, Method::Get);
    latencies.corrected.record_n(100_000_000, 950).unwrap();
    latencies.uncorrected.record_n(100_000_000, 950).unwrap();
    outcome.left.waited_for_turns(0..50, |turn| (50 - turn) * 2_000_000);
    assert_eq!(reasons(&slo, &outcome, false), [""; 0]);
    (outcome.complete, outcome.unanswered) = (500, 500);
    assert_eq!(reasons(&slo, &outcome, false), ["the rate was not kept"]);
}

/// What held before the end was told as the knee.
#[test]
fn a_search_that_is_cut_short_has_no_knee() {
    let slo = Slo::parse("p99<5ms").unwrap();
    let search = Search { held: Some(1_000), broke: None };
    let told = conclusion(&slo, search, End::Interrupted);
    let wanted = "The search was interrupted before the knee was found: 1000 requests/sec hold p99<5ms, and it is not known whether more do.";
    assert_eq!(told, wanted);
    let told = conclusion(&slo, Search::default(), End::Interrupted);
    assert!(told.ends_with(": no rate was tried to its end."), "{told}");
    let dead = Search { broke: Some(2_000), ..search };
    let told = conclusion(&slo, dead, End::Unanswered(2_000));
    assert!(told.starts_with("No request was answered at 2000 requests/sec, which ended"), "{told}");
    let told = conclusion(&slo, Search { held: None, ..dead }, End::Unanswered(2_000));
    assert!(told.ends_with(": no rate that was tried holds p99<5ms."), "{told}");
    for (end, knee) in [
        (End::Found, json!([1_000, false, true])),
        (End::Interrupted, json!([null, true, false])),
        (End::Unanswered(2_000), json!([null, false, false])),
    ] {
        let data = json_of("http://a", &slo, (dead, end), &[]);
        assert_eq!(json!([data["knee"], data["interrupted"], data["complete"]]), knee, "{end:?}");
    }
}

#[test]
fn a_knee_of_misses_says_so() {
    let (mut found, mut missed) = (step(1_000, &[], 1_000, 0.5), step(2_000, &[], 1_000, 0.5));
    let workload = Asked { is_workload: true, ..Asked::default() };
    assert_eq!(misses(&[], workload), None);
    (found.misses_share, missed.misses_share) = (0.0, 1.0);
    let told = misses(&[found, missed], workload).unwrap();
    let wanted = "At 2000 requests/sec, 100 % of the answers were 404: those requests read nothing; --fill writes all keys first.";
    assert_eq!(told, wanted);
}

fn knee_of(capacity: u64) -> (Option<u64>, usize) {
    let (mut search, mut steps) = (Search::default(), 0);
    while let Some(rate) = search.next() {
        search.learn(rate, rate <= capacity);
        steps += 1;
        assert!(steps < 64, "the search ends");
    }
    (search.held, steps)
}

#[test]
fn the_knee_is_found_within_its_precision() {
    for capacity in [3, 10, 999, 1000, 1001, 34_567, 1_000_000, 77_000_000] {
        let (held, steps) = knee_of(capacity);
        let held = held.unwrap();
        assert!(held <= capacity && held as f64 >= capacity as f64 * 0.94 - 1.0, "{held} of {capacity}");
        assert!(steps < 40, "{steps}");
    }
    assert_eq!(knee_of(0).0, None);
    assert_eq!(knee_of(u64::MAX).0, Some(RATE_MAX));
}
