//! What people look at: one function per format.

mod folded;
mod heatmap;
mod html;
mod pprof;
mod svg;
mod tree;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

pub use folded::Folded;
pub use html::{FLAME_SCRIPT, FLAME_STYLE};
pub(crate) use html::{facts, page as flame_page};
pub(crate) use tree::script_json;

use crate::{Kind, Profile, ProfileError};

/// How a profile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Flame graph as a picture with search and zoom.
    Svg,
    /// Flame graph as a page.
    Html,
    /// One line per stack: `frame;frame;frame weight`.
    Folded,
    /// What `pprof` reads: gzipped protocol buffers.
    Pprof,
    /// Heat map over the time, with flame graphs of ranges and their differences.
    Heatmap,
}

impl Format {
    /// All formats; an ending that ends with another format's comes before it.
    pub const ALL: [Format; 5] = [Format::Heatmap, Format::Svg, Format::Html, Format::Folded, Format::Pprof];

    /// The name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Html => "html",
            Format::Folded => "folded",
            Format::Pprof => "pprof",
            Format::Heatmap => "heatmap",
        }
    }

    /// The file ending that asks for it.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Svg => ".svg",
            Format::Html => ".html",
            Format::Folded => ".folded",
            Format::Pprof => ".pb.gz",
            Format::Heatmap => ".heatmap.html",
        }
    }

    /// For the HTTP header.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Svg => "image/svg+xml",
            Format::Html | Format::Heatmap => "text/html; charset=utf-8",
            Format::Folded => "text/plain; charset=utf-8",
            Format::Pprof => "application/octet-stream",
        }
    }

    /// By the ending of a file's name.
    pub fn of_path(path: &Path) -> Result<Self, ProfileError> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        Format::ALL
            .into_iter()
            .find(|format| name.ends_with(format.ending()))
            .ok_or_else(|| unknown(&path.to_string_lossy(), Format::ending))
    }
}

fn unknown(found: &str, name: fn(Format) -> &'static str) -> ProfileError {
    ProfileError::UnknownFormat { found: found.to_owned(), expected: Format::ALL.map(name).join(", ") }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = ProfileError;

    /// A name (`heatmap`) or an ending without its first dot (`heatmap.html`).
    fn from_str(text: &str) -> Result<Self, ProfileError> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == text || &format.ending()[1..] == text)
            .ok_or_else(|| unknown(text, Format::name))
    }
}

impl Profile {
    /// Writes the profile in a format.
    pub fn render(&self, format: Format) -> Result<Vec<u8>, ProfileError> {
        match format {
            Format::Svg => svg::render(self),
            Format::Html => Ok(html::render(self).into_bytes()),
            Format::Folded => Ok(self.folded().to_string().into_bytes()),
            Format::Pprof => pprof::render(self),
            Format::Heatmap => Ok(heatmap::render(self).into_bytes()),
        }
    }

    /// The profile as text stacks, each under its thread's name.
    pub fn folded(&self) -> Folded {
        folded::of_profile(self, |thread| thread)
    }
}

/// The distance between two samples.
fn interval(profile: &Profile) -> String {
    match profile.kind {
        Kind::Cpu => format!("one every {:.2} ms on the processor", profile.period as f64 / 1e6),
        Kind::Alloc => format!("one every {} KiB on average", profile.period.div_ceil(1024)),
        Kind::Lock => "every wait".to_owned(),
    }
}

/// Between the parts of a subtitle.
const BETWEEN_PARTS: &str = " · ";

/// One line under a graph's title.
fn subtitle(profile: &Profile) -> String {
    let threads = profile.threads.len();
    let seconds = profile.duration_ns as f64 / 1e9;
    let samples = profile.samples.len();
    let plural = if threads == 1 { "" } else { "s" };
    let mut parts: Vec<String> =
        profile.kind.warning(samples).map(|warning| format!("Beware: {warning}")).into_iter().collect();
    parts.push(format!("{seconds:.1} s, {samples} samples, {}, {threads} thread{plural}", interval(profile)));
    if profile.dropped > 0 {
        parts.push(format!("{} samples lost", profile.dropped));
    }
    parts.extend(profile.notes.iter().cloned());
    parts.join(BETWEEN_PARTS)
}

#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thin_profile_says_so() {
        let mut profile = fixture::profile();
        let head = subtitle(&profile);
        assert!(head.starts_with("Beware: only 5 samples: "), "{head}");
        assert!(head.contains("2.0 s, 5 samples, one every 2.00 ms on the processor, 2 threads"), "{head}");
        profile.samples = profile.samples.iter().copied().cycle().take(1_000).collect();
        profile.kind = Kind::Alloc;
        profile.period = 512 << 10;
        let head = subtitle(&profile);
        assert!(head.starts_with("2.0 s, 1000 samples, one every 512 KiB on average"), "{head}");
    }

    #[test]
    fn formats_by_name_and_by_ending() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().expect("name"), format);
            assert_eq!(format.ending()[1..].parse::<Format>().expect("ending"), format);
            let path = format!("a.b/out{}", format.ending());
            assert_eq!(Format::of_path(Path::new(&path)).expect("path"), format);
        }
        let error = Format::of_path(Path::new("out.png")).expect_err("no such format").to_string();
        assert!(error.contains("out.png") && error.contains(".heatmap.html"), "{error}");
        assert!("".parse::<Format>().is_err());
    }
}
