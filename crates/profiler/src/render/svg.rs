//! Flame graphs as pictures, by `inferno`.

use inferno::flamegraph::color::{BasicPalette, MultiPalette, Palette};
use inferno::flamegraph::{self, Options};

use super::{Folded, subtitle};
use crate::{Profile, ProfileError};

fn options(title: &str, unit: &str) -> Options<'static> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    unit.clone_into(&mut options.count_name);
    options.colors = Palette::Multi(MultiPalette::Rust);
    // The same function has the same colour in every picture.
    options.hash = true;
    options.deterministic = true;
    options
}

fn write(
    mut options: Options<'static>,
    lines: &[String],
    what: &'static str,
) -> Result<Vec<u8>, ProfileError> {
    let mut svg = Vec::new();
    let nothing = ["nothing was sampled 1".to_owned()];
    let lines = if lines.is_empty() { nothing.as_slice() } else { lines };
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| ProfileError::Render { what, reason: error.to_string() })?;
    Ok(svg)
}

pub(super) fn render(profile: &Profile) -> Result<Vec<u8>, ProfileError> {
    let mut options = options(profile.kind.title(), profile.kind.unit());
    options.subtitle = Some(subtitle(profile));
    let lines: Vec<String> = profile.folded().to_string().lines().map(str::to_owned).collect();
    write(options, &lines, "a flame graph")
}

/// The differential flame graph of two profiles of a kind: widths are those of `after`; red grew, blue shrank. Weights
/// are scaled to the same total, so that runs of different length compare.
pub fn difference_svg(
    title: &str,
    unit: &str,
    before: &Folded,
    after: &Folded,
) -> Result<Vec<u8>, ProfileError> {
    let mut options = options(title, unit);
    options.colors = Palette::Basic(BasicPalette::Hot);
    options.subtitle = Some("red: more than before; blue: less; width: after".to_owned());
    write(options, &before.scaled_to(after.total()).difference(after), "a differential flame graph")
}

impl Folded {
    fn scaled_to(&self, total: u64) -> Folded {
        let own = self.total().max(1) as f64;
        let mut scaled = Folded::default();
        for (stack, weight) in self.iter() {
            scaled.add(stack, (weight as f64 * total as f64 / own).round() as u64);
        }
        scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    fn text(svg: Result<Vec<u8>, ProfileError>) -> String {
        String::from_utf8(svg.expect("rendered")).expect("text")
    }

    #[test]
    fn functions_are_in_the_picture() {
        let profile = fixture::profile();
        let svg = text(render(&profile));
        assert!(svg.contains("<svg") && svg.contains("CPU time") && svg.contains("a note"));
        assert!(svg.contains("app::write (20,000,000 nanoseconds, 40.00%)"), "{svg}");
        assert_eq!(svg, text(render(&profile)));
    }

    #[test]
    fn an_empty_profile_is_a_picture_too() {
        let mut profile = fixture::profile();
        profile.samples.clear();
        assert!(text(render(&profile)).contains("nothing was sampled"));
    }

    #[test]
    fn a_difference_is_relative_to_the_same_total() {
        let before = Folded::parse("m;a 10\nm;b 10\n").expect("folded");
        let after = Folded::parse("m;a 100\nm;b 300\n").expect("folded");
        let svg = text(difference_svg("change", "ns", &before, &after));
        assert!(svg.contains("(300 ns, 75.00%; +25.00%)"), "{svg}");
    }
}
