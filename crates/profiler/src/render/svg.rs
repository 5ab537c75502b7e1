//! Flame graphs as pictures, by `inferno`.

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options};

use super::{folded, subtitle};
use crate::profile::role;
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
    let lines: Vec<String> =
        folded::of_profile(profile, role).to_string().lines().map(str::to_owned).collect();
    write(options, &lines, "a flame graph")
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
}
