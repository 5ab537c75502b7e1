//! Flame graphs as pictures, by `inferno`.

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options};

use super::tree::escape;
use super::{BETWEEN_PARTS, folded, subtitle};
use crate::profile::role;
use crate::{Profile, ProfileError};

/// A line of the subtitle. In a browser the picture is as wide as the window, so this fits one of 800 pixels.
const LINE_CHARS_MAX: usize = 105;
const LINE_HEIGHT: usize = 16;
/// Stands in the picture until the lines of the subtitle take its place.
const SUBTITLE: &str = "{subtitle}";

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
    options.subtitle = Some(SUBTITLE.to_owned());
    let lines: Vec<String> =
        folded::of_profile(profile, role).to_string().lines().map(str::to_owned).collect();
    let svg = write(options, &lines, "a flame graph")?;
    Ok(with_subtitle(&String::from_utf8_lossy(&svg), &wrapped(&subtitle(profile))).into_bytes())
}

/// The parts of a subtitle in lines that the picture has room for. A part is divided only if it is longer than a line.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split(BETWEEN_PARTS) {
        if !added(&mut lines, BETWEEN_PARTS, part) {
            lines.push(String::new());
            for word in part.split(' ') {
                if !added(&mut lines, " ", word) {
                    lines.push(word.to_owned());
                }
            }
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Adds to the last line, if there is room.
fn added(lines: &mut [String], between: &str, more: &str) -> bool {
    let Some(line) = lines.last_mut() else { return false };
    let between = if line.is_empty() { "" } else { between };
    let has_room = line.chars().count() + between.chars().count() + more.chars().count() <= LINE_CHARS_MAX;
    if has_room {
        line.push_str(between);
        line.push_str(more);
    }
    has_room
}

/// Puts the lines below the title. `inferno` leaves room for one, so all that is below them moves down.
fn with_subtitle(svg: &str, lines: &[String]) -> String {
    let down = lines.len().saturating_sub(1) * LINE_HEIGHT;
    let line = |(number, text): (usize, &String)| {
        let y = if number == 0 { 0 } else { LINE_HEIGHT };
        format!("<tspan x=\"50%\" dy=\"{y}\">{}</tspan>", escape(text))
    };
    let text: String = lines.iter().enumerate().map(line).collect();
    let (head, body) = svg.split_once("<svg id=\"frames\"").unwrap_or((svg, ""));
    let mut head = moved(head, "<svg version=", "height=\"", down);
    head = moved(&head, "viewBox=\"0 0 ", " ", down);
    for (element, length) in
        [("<rect x=\"0\"", "height=\""), ("<text id=\"details\"", " y=\""), ("<text id=\"matched\"", " y=\"")]
    {
        head = moved(&head, element, length, down);
    }
    format!("{}<svg id=\"frames\" y=\"{down}\"{body}", head.replacen(SUBTITLE, &text, 1))
}

/// Adds to the number that follows `before`, the first one after `from`.
fn moved(svg: &str, from: &str, before: &str, by: usize) -> String {
    let place = svg
        .find(from)
        .and_then(|at| Some(at + from.len() + svg[at + from.len()..].find(before)? + before.len()));
    let Some(start) = place else { return svg.to_owned() };
    let end = svg[start..].find(|c: char| !c.is_ascii_digit()).map_or(svg.len(), |length| start + length);
    let number: usize = svg[start..end].parse().unwrap_or_default();
    format!("{}{}{}", &svg[..start], number + by, &svg[end..])
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
    fn a_long_subtitle_has_lines_and_all_below_it_moves_down() {
        let numbers = |svg: &str| -> Vec<usize> {
            let after = |element: &str, name: &str| {
                let rest = svg.split_once(element).expect(element).1.split_once(name).expect(name).1;
                rest.split(|c: char| !c.is_ascii_digit())
                    .next()
                    .and_then(|digits| digits.parse().ok())
                    .expect("a number")
            };
            vec![
                after("<svg version", " height=\""),
                after("viewBox=\"0 0 ", " "),
                after("<rect x=\"0\" y=\"0\"", " height=\""),
                after("id=\"details\"", " y=\""),
                after("id=\"matched\"", " y=\""),
                after("<svg id=\"frames\"", " y=\""),
            ]
        };
        let mut profile = fixture::profile();
        let long = format!("a & b: {}", ["word"; 60].join(" "));
        let short = numbers(&text(render(&profile)));
        profile.notes.push(long);
        let svg = text(render(&profile));
        let lines: Vec<&str> = svg.split("<tspan x=\"50%\" dy=").skip(1).collect();
        assert!(lines.len() > 3 && svg.contains("a &amp; b: word"), "{svg}");
        for line in &lines {
            let line = line.split(['<', '>']).nth(1).expect("a text");
            assert!(line.chars().count() <= LINE_CHARS_MAX + "amp;".len(), "{line}");
        }
        let moved = (lines.len() - wrapped(&subtitle(&fixture::profile())).len()) * LINE_HEIGHT;
        let wanted: Vec<usize> = short.iter().map(|number| number + moved).collect();
        assert_eq!(numbers(&svg), wanted);
        assert!(!svg.contains(SUBTITLE), "{svg}");
    }

    #[test]
    fn an_empty_profile_is_a_picture_too() {
        let mut profile = fixture::profile();
        profile.samples.clear();
        assert!(text(render(&profile)).contains("nothing was sampled"));
    }
}
