//! What Redis's own suite says about its tests, and which tests its units have.

use std::fmt;

/// A test, by the unit in which it stands and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) unit: String,
    pub(crate) name: String,
}

impl Test {
    pub(crate) fn new(unit: &str, name: &str) -> Test {
        Test { unit: unit.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} | {}", self.unit, self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// For one of its tags.
    PassedOver,
}

/// What the suite has said.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// In their order; two tests may have one name.
    pub(crate) outcomes: Vec<(Test, Outcome)>,
    finished: Vec<String>,
    has_end: bool,
}

impl Report {
    pub(crate) fn parse(text: &str) -> Report {
        let mut report = Report::default();
        let mut unit = "";
        for line in text.lines() {
            if line.trim() == "The End" {
                // Behind it, everything is told once more.
                report.has_end = true;
                break;
            }
            if let Some(name) = line.strip_prefix("Testing ") {
                unit = name;
            } else if let Some((head, rest)) = line.split_once(" done]: ").filter(|_| line.starts_with('[')) {
                debug_assert!(head.contains('/'));
                report.finished.extend(rest.split(' ').next().map(str::to_owned));
            } else if let Some((name, outcome)) = told(line) {
                report.outcomes.push((Test::new(unit, name), outcome));
            }
        }
        report
    }

    /// Whether each of these units, and the whole, came to its end.
    pub(crate) fn is_complete(&self, units: &[&str]) -> bool {
        self.has_end && self.finished == units
    }
}

/// A test and what became of it; none if a line tells something else, or passes over a whole block.
fn told(line: &str) -> Option<(&str, Outcome)> {
    let (kind, rest) = line.strip_prefix('[')?.split_once("]: ")?;
    match kind {
        "ok" => Some((rest.rsplit_once(" (")?.0, Outcome::Passed)),
        "err" => Some((rest.rsplit_once(" in tests/").map_or(rest, |(name, _)| name), Outcome::Failed)),
        "ignore" => {
            let (name, _) =
                rest.rsplit_once(": Tag: ").or_else(|| rest.rsplit_once(": Not supported on "))?;
            Some((name, Outcome::PassedOver))
        }
        _ => None,
    }
}

/// The name of a test as it stands in a unit, where it may have variables: `MULTI with $cmd`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    is_quoted: bool,
}

impl Name {
    pub(crate) fn has_variables(&self) -> bool {
        self.is_quoted && self.text.contains('$')
    }

    /// Whether it is this test, whatever its variables are.
    pub(crate) fn fits(&self, name: &str) -> bool {
        if !self.has_variables() {
            return self.text == name;
        }
        let mut pieces = self.text.split('$');
        let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
        for piece in pieces {
            let literal = piece.trim_start_matches(|c: char| c.is_alphanumeric() || "_{}:".contains(c));
            match rest.find(literal) {
                Some(_) if literal.is_empty() => rest = "",
                Some(at) => rest = &rest[at + literal.len()..],
                None => return false,
            }
        }
        rest.is_empty()
    }
}

/// The tests of a unit, by its source.
pub(crate) fn tests_in(source: &str) -> Vec<Name> {
    let begin =
        |line: &'_ str| line.trim_start().strip_prefix("test ").map(str::trim_start).map(str::to_owned);
    source.lines().filter_map(begin).map(|rest| name_in(&rest)).collect()
}

fn name_in(rest: &str) -> Name {
    let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    if let Some((text, _)) = quoted {
        return Name { text: text.to_owned(), is_quoted: true };
    }
    let mut depth = 0;
    let end = rest.char_indices().find(|(_, letter)| {
        depth += i32::from(*letter == '{') - i32::from(*letter == '}');
        depth == 0
    });
    let Some((end, '}')) = end else { panic!("expected a test with its name: {rest}") };
    Name { text: rest[1..end].to_owned(), is_quoted: false }
}

#[test]
fn what_the_suite_says_is_read() {
    let text = "[ready]: 1\nTesting unit/a\n[ok]: one (two) (3 ms)\n[err]: bad in tests/unit/a.tcl\nwhy\n\
                [ignore]: left: out: Tag: needs:debug denied\n[ignore]: Not supported on external server\n\
                [1/1 done]: unit/a (0 seconds)\n\n   The End\n\n[ok]: again (1 ms)\n";
    let report = Report::parse(text);
    let outcomes: Vec<_> =
        report.outcomes.iter().map(|(test, outcome)| (test.name.as_str(), *outcome)).collect();
    let expected =
        [("one (two)", Outcome::Passed), ("bad", Outcome::Failed), ("left: out", Outcome::PassedOver)];
    assert_eq!(outcomes, expected);
    assert!(report.is_complete(&["unit/a"]) && !report.is_complete(&["unit/a", "unit/b"]));
    assert!(!Report::parse("[1/1 done]: unit/a (0 seconds)\n").is_complete(&["unit/a"]), "no end");
}

#[test]
fn the_tests_of_a_unit_are_found() {
    let names = tests_in("    test {a {b} $c} {\n r test x\n test \"with $enc and ${more}!\" {\n");
    assert_eq!(
        names.iter().map(|name| (name.text.as_str(), name.has_variables())).collect::<Vec<_>>(),
        [("a {b} $c", false), ("with $enc and ${more}!", true)]
    );
    assert!(names[1].fits("with x and y z!") && !names[1].fits("with x and y") && !names[1].fits("a"));
    assert!(names[0].fits("a {b} $c"));
}
