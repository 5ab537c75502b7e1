//! Folded stacks: the text that flame graph tools exchange. `frame;frame;frame weight`, root first.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Profile, ProfileError};

/// Stacks as text with their weights.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    stacks: BTreeMap<String, u64>,
}

impl Folded {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let mut folded = Folded::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let (stack, weight) = line
                .rsplit_once(' ')
                .and_then(|(stack, weight)| Some((stack, weight.parse().ok()?)))
                .ok_or_else(|| ProfileError::BadFolded { line: index + 1, found: line.to_owned() })?;
            folded.add(stack, weight);
        }
        Ok(folded)
    }

    /// Stacks with their weights, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))
    }

    /// The sum of all weights.
    pub fn total(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    fn add(&mut self, stack: &str, weight: u64) {
        let sum = self.stacks.entry(stack.to_owned()).or_insert(0);
        *sum = sum.saturating_add(weight);
    }
}

impl fmt::Display for Folded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(stack, weight)| writeln!(formatter, "{stack} {weight}"))
    }
}

/// What separates must not be inside.
fn part(text: &str) -> String {
    text.replace(';', ":").replace(['\n', '\r'], " ")
}

/// Each stack under what `name` makes of its thread's name.
pub(super) fn of_profile(profile: &Profile, name: fn(&str) -> &str) -> Folded {
    let mut by_leaf = BTreeMap::new();
    for sample in &profile.samples {
        *by_leaf.entry((sample.thread, sample.stack)).or_insert(0) += sample.weight;
    }
    let mut folded = Folded::default();
    for ((thread, stack), weight) in by_leaf {
        let mut parts: Vec<String> = profile.stacks.frames(stack).map(|frame| part(&frame.label())).collect();
        parts.push(part(name(&profile.threads[thread as usize].name)));
        parts.reverse();
        folded.add(&parts.join(";"), weight);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn stacks_are_lines() {
        let text = fixture::profile().folded().to_string();
        assert_eq!(
            text,
            "main;app::main;app::parse<u8>_[i] 20000000\n\
             main;app::main;app::write 10000000\n\
             main;app::main;app::write;ksys_write_[k] 10000000\n\
             work:er </script>;app::main;app::write;ksys_write_[k] 10000000\n"
        );
        assert_eq!(Folded::parse(&text).expect("own text").to_string(), text);
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = Folded::parse("a;b 1\nc\n").expect_err("no weight").to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
