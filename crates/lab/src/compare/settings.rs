//! What else is different between two sides, and what disturbed them: a change may be theirs. Pure.

use crate::page::date;
use crate::record::{Machine, Report, Run, Subject};

/// One side in a line: what it is called, when and on what it was measured, and by which command.
pub(super) fn source(name: &str, report: &Report) -> String {
    let Machine { cores, cpu, kernel, version, .. } = &report.machine;
    let date = date(report.started_unix_s);
    let head = format!("{name}: {} · {date} · {cores} × {cpu}, {kernel} · ladoga {version}", report.title);
    let subjects = report.subjects.iter().map(described);
    std::iter::once(head).chain(subjects).chain([report.command.clone()]).collect::<Vec<_>>().join(" · ")
}

pub(super) fn described(subject: &Subject) -> String {
    let build = subject.build.as_ref().map(|build| format!(", build {build}"));
    format!("{}: {}{}", subject.name, subject.what, build.unwrap_or_default())
}

/// What differs besides the figures.
pub(super) fn differences(before: &Report, after: &Report) -> Vec<String> {
    let (one, other) = (&before.machine, &after.machine);
    let mut found = Differences::default();
    found.note("the CPU", &one.cpu, &other.cpu);
    found.note("the number of cores", &one.cores.to_string(), &other.cores.to_string());
    found.note("the memory", &format!("{:?} B", one.memory_bytes), &format!("{:?} B", other.memory_bytes));
    found.note("the kernel", &one.kernel, &other.kernel);
    found.note("the system", &one.system, &other.system);
    found.note("the version of the lab", &one.version, &other.version);
    for subject in &before.subjects {
        if let Some(same) = after.subjects.iter().find(|other| other.name == subject.name) {
            found.note(&format!("the server `{}`", subject.name), &described(subject), &described(same));
        }
    }
    for run in before.runs.iter().filter(|run| run.round == 1) {
        let is_same =
            |other: &&Run| other.round == 1 && other.stage == run.stage && other.subject == run.subject;
        if let Some(same) = after.runs.iter().find(is_same) {
            found.note(&format!("the work of {}", run.stage), &work(run), &work(same));
        }
    }
    found.0
}

/// Flags that say where something is written or read, and not what is done.
const FILES: [&str; 4] = ["--html", "--json", "--hdr", "--token-file"];

/// The line of a run without the address and the names of files, wherever they stand: a person may have typed it.
fn work(run: &Run) -> String {
    let (mut kept, mut is_file) = (Vec::new(), false);
    for word in words(&run.command) {
        if std::mem::take(&mut is_file) {
            continue;
        }
        let (flag, value) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        if FILES.contains(&flag) {
            is_file = value.is_none();
        } else if !["http://", "https://"]
            .iter()
            .any(|scheme| word.trim_start_matches('\'').starts_with(scheme))
        {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// As a shell divides them, still quoted.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let is_end = move |c: char| {
        is_quoted ^= c == '\'';
        c == ' ' && !is_quoted
    };
    line.split(is_end).filter(|word| !word.is_empty())
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn note(&mut self, what: &str, before: &str, after: &str) {
        if before != after {
            self.0.push(format!("Different: {what}. Before: {before}. After: {after}."));
        }
    }
}

/// Rounds in which the machine had other things to do.
pub(super) fn disturbed<'a>(side: &str, runs: impl Iterator<Item = &'a Run>, cores: usize) -> Option<String> {
    let (mut all, mut disturbed, mut most, mut steal) = (0, 0, 0.0_f64, 0.0_f64);
    for run in runs {
        all += 1;
        if run.disturbance.is_notable(cores) {
            disturbed += 1;
            most = most.max(run.disturbance.other_cores.unwrap_or_default());
            steal = steal.max(run.disturbance.steal_share.unwrap_or_default());
        }
    }
    // What rounds to nothing did not disturb it.
    let others = (most >= 0.05).then(|| format!("other processes used up to {most:.1} of {cores} cores"));
    let host =
        (steal >= 0.005).then(|| format!("its host gave up to {:.0} % of its time to others", steal * 100.0));
    let by: Vec<String> = others.into_iter().chain(host).collect();
    (disturbed > 0).then(|| {
        format!("The machine was disturbed in {disturbed} of {all} runs {side}: {}.", by.join(", and "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::record::Disturbance;

    #[test]
    fn what_is_different_is_named() {
        let (before, mut after) = (fixture::report(), fixture::report());
        assert_eq!(differences(&before, &after), [""; 0]);
        after.machine.cores = 4;
        after.subjects[0].what.push_str(" --fsync never");
        after.runs[0].command = after.runs[0].command.replace("put", "put --distribution zipfian");
        let found = differences(&before, &after);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("Before: 2. After: 4."), "{found:?}");
        assert!(found[1].contains("--fsync never") && found[2].contains("zipfian"), "{found:?}");
        after.runs[0].command = before.runs[0].command.replace("8080", "9090");
        assert_eq!(differences(&before, &after).len(), 2, "an address is no setting");
    }

    /// The last word of a line is the address only in lines that nobody typed.
    #[test]
    fn another_rate_is_another_work_wherever_it_stands() {
        let of = |command: &str| {
            let mut report = fixture::report();
            report.runs[0].command = command.to_owned();
            report
        };
        let line = "ladoga bench -t1 -c1 'http://a:1/x?y z' --html one.html -R 1000";
        let found = differences(&of(line), &of(&line.replace("1000", "2000")));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("Before: ladoga bench -t1 -c1 -R 1000. After"), "{found:?}");
        let moved = "ladoga bench -t1 -c1 https://b --html='my other.html' --json 'a b' -R 1000";
        assert_eq!(differences(&of(line), &of(moved)), [""; 0], "addresses and files are no settings");
    }

    #[test]
    fn other_work_of_the_machine_is_named() {
        let mut report = fixture::report();
        assert_eq!(disturbed("before", report.runs.iter(), 2), None);
        report.runs[1].disturbance = Disturbance { other_cores: Some(0.5), steal_share: Some(0.001) };
        let words = disturbed("before", report.runs.iter(), 2).unwrap();
        assert!(words.contains("1 of 2 runs before") && words.ends_with("0.5 of 2 cores."), "{words}");
        report.runs[1].disturbance = Disturbance { other_cores: Some(0.5), steal_share: Some(0.1) };
        let words = disturbed("before", report.runs.iter(), 2).unwrap();
        assert!(
            words.ends_with("0.5 of 2 cores, and its host gave up to 10 % of its time to others."),
            "{words}"
        );
    }
}
