use std::collections::BTreeSet;

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look, Repetition};

use crate::support::Random;

/// How often something is repeated that may be repeated without end.
const MORE_MAX: u32 = 3;
/// How many characters of a range are used.
const CHARACTERS_MAX: u64 = 90;

/// A regular expression of a schema, which is for the whole of a text.
pub(crate) struct Pattern(Hir);

impl Pattern {
    pub(crate) fn of(text: &str) -> Pattern {
        assert!(text.starts_with('^') && text.ends_with('$'), "{text} is not for the whole of a text");
        Pattern(regex_syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")))
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        ends(&self.0, text, 0).contains(&text.len())
    }

    /// A text that it matches.
    pub(crate) fn text(&self, random: &mut Random) -> String {
        let mut text = String::new();
        write(&self.0, random, &mut text);
        assert!(self.matches(&text), "{text:?} was made by {:?}", self.0);
        text
    }
}

/// Where a match that begins here may end.
fn ends(hir: &Hir, text: &str, start: usize) -> BTreeSet<usize> {
    let only = |end: Option<usize>| -> BTreeSet<usize> { end.into_iter().collect() };
    match hir.kind() {
        HirKind::Empty => only(Some(start)),
        HirKind::Literal(literal) => {
            let is_there = text.as_bytes()[start..].starts_with(&literal.0);
            only(is_there.then_some(start + literal.0.len()))
        }
        HirKind::Class(class) => {
            let next = text[start..].chars().next().filter(|next| has(unicode(class), *next));
            only(next.map(|next| start + next.len_utf8()))
        }
        HirKind::Look(Look::Start) => only((start == 0).then_some(start)),
        HirKind::Look(Look::End) => only((start == text.len()).then_some(start)),
        HirKind::Look(look) => panic!("{look:?} is in no pattern"),
        HirKind::Repetition(repetition) => repeated(repetition, text, start),
        HirKind::Capture(capture) => ends(&capture.sub, text, start),
        HirKind::Concat(parts) => {
            let behind = |starts: BTreeSet<usize>, part: &Hir| behind_each(part, text, &starts);
            parts.iter().fold(only(Some(start)), behind)
        }
        HirKind::Alternation(parts) => parts.iter().flat_map(|part| ends(part, text, start)).collect(),
    }
}

fn behind_each(hir: &Hir, text: &str, starts: &BTreeSet<usize>) -> BTreeSet<usize> {
    starts.iter().flat_map(|&start| ends(hir, text, start)).collect()
}

fn repeated(repetition: &Repetition, text: &str, start: usize) -> BTreeSet<usize> {
    let (mut found, mut current, mut count) = (BTreeSet::new(), BTreeSet::from([start]), 0);
    while !current.is_empty() {
        if count >= repetition.min {
            current = current.difference(&found).copied().collect();
            found.extend(&current);
        }
        if Some(count) == repetition.max {
            break;
        }
        current = behind_each(&repetition.sub, text, &current);
        count += 1;
    }
    found
}

fn unicode(class: &Class) -> &ClassUnicode {
    match class {
        Class::Unicode(class) => class,
        Class::Bytes(class) => panic!("{class:?} is no class of characters"),
    }
}

fn has(class: &ClassUnicode, character: char) -> bool {
    class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&character))
}

fn write(hir: &Hir, random: &mut Random, out: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(str::from_utf8(&literal.0).expect("text")),
        HirKind::Class(class) => {
            let ranges = unicode(class).ranges();
            let range = ranges[random.below(ranges.len() as u64) as usize];
            let count = (u64::from(range.end()) - u64::from(range.start()) + 1).min(CHARACTERS_MAX);
            let number = u64::from(range.start()) + random.below(count);
            out.push(char::from_u32(number as u32).expect("a character between two others"));
        }
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            let max = max.unwrap_or(u32::MAX).min(min + MORE_MAX);
            let count = min + random.below(u64::from(max - min) + 1) as u32;
            (0..count).for_each(|_| write(sub, random, out));
        }
        HirKind::Capture(capture) => write(&capture.sub, random, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, random, out)),
        HirKind::Alternation(parts) => {
            write(&parts[random.below(parts.len() as u64) as usize], random, out);
        }
    }
}

#[test]
fn a_pattern_tells_texts_apart() {
    for (pattern, matching, others) in [
        ("^[0-9]+/[0-9]+$", &["1/2", "10/999"][..], &["", "/", "1/", "1/2/3", "1/2\n", " 1/2"][..]),
        ("^([0-9]+(ms|s|m|h|d)|none)$", &["1ms", "60s", "none"], &["1", "none1", "1ss", "ms", "1w"]),
        ("^(0|-?[1-9][0-9]*)?$", &["", "0", "-5", "10"], &["-", "-0", "01", "1\n"]),
        ("^([^\\n]+\\n)+$", &["a\n", "a b\nc\u{e9}\n"], &["", "\n", "a", "a\n\n", "a\nb"]),
        (
            "^([A-Z]{4})*([A-Z]{2}==|[A-Z]{3}=)?$",
            &["", "ABCD", "ABCDAB==", "ABC="],
            &["A", "AB=", "=", "ABCDA"],
        ),
    ] {
        let parsed = Pattern::of(pattern);
        for text in matching {
            assert!(parsed.matches(text), "{pattern} does not match {text:?}");
        }
        for text in others {
            assert!(!parsed.matches(text), "{pattern} matches {text:?}");
        }
        // What it makes it matches.
        let mut random = Random::new(7);
        let made: BTreeSet<String> = (0..100).map(|_| parsed.text(&mut random)).collect();
        assert!(made.len() > 3, "{pattern} makes {made:?}");
    }
}
