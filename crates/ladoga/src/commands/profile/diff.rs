use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use ladoga_lab::is_same_file;
use ladoga_profiler::{Basis, Difference, Format, Recorded};

use super::super::output;
use super::Part;
use crate::arguments::DiffArguments;
use crate::commands::Failure;

/// The largest page of a profile that is read: four hours of samples are a tenth of it.
const PAGE_BYTES_MAX: u64 = 512 << 20;
/// More lines would tell no more.
const CHANGES_MAX: usize = 20;

/// Prints how two profiles of a kind differ, and draws the difference if that is wanted.
pub(super) fn diff(arguments: &DiffArguments) -> Result<(), Failure> {
    let paths = [&arguments.before, &arguments.after];
    if let Some(path) = &arguments.output {
        if Format::of_path(path).ok() != Some(Format::Html) {
            let reason = format!("-o is {}, expected a name that ends with .html", path.display());
            return Err(Failure::Usage(reason));
        }
        if paths.iter().any(|input| is_same_file(input, path)) {
            let reason = format!("-o is {}, a profile that is compared: choose another name", path.display());
            return Err(Failure::Usage(reason));
        }
        Part::check(path)?; // Before the work, not after it.
    }
    let [before, after] = [read(paths[0])?, read(paths[1])?];
    if before.kind != after.kind {
        let [one, other] = paths.map(|path| path.display());
        let reason = format!(
            "{one} has a profile of kind {} and {other} one of kind {}: give two of a kind",
            before.kind, after.kind
        );
        return Err(Failure::Usage(reason));
    }
    if before.is_heat_map != after.is_heat_map {
        let form = |page: &Recorded| if page.is_heat_map { "a heat map" } else { "a flame graph" };
        let [one, other] = paths.map(|path| path.display());
        let reason =
            format!("{one} is {} and {other} is {}: give two of a kind", form(&before), form(&after));
        return Err(Failure::Usage(reason));
    }
    let difference = Difference::of_recorded(&before, &after);
    print(&difference, &mut output())?;
    if let Some(path) = &arguments.output {
        let names = paths.map(|path| path.display().to_string());
        let mut part = Part::create(path)?;
        let (names, origins) = (names.each_ref().map(String::as_str), [&*before.origin, &*after.origin]);
        part.write(difference.page(before.kind, names, origins).as_bytes())?;
        part.finish()?;
        writeln!(output(), "{}: their differential flame graph", path.display())?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a profile is no part of a store; its disk seam is not for it")]
fn read(path: &Path) -> Result<Recorded, Failure> {
    let mut page = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PAGE_BYTES_MAX + 1).read_to_end(&mut page))
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    if page.len() as u64 > PAGE_BYTES_MAX {
        let reason = format!(
            "{} is no profile to compare: it has more than {} MiB",
            path.display(),
            PAGE_BYTES_MAX >> 20
        );
        return Err(Failure::Usage(reason));
    }
    Recorded::of_page(&String::from_utf8_lossy(&page))
        .map_err(|error| Failure::Usage(format!("{} is no profile to compare: {error}", path.display())))
}

fn print(difference: &Difference, out: &mut impl Write) -> io::Result<()> {
    if let Basis::TooFewSamples { samples: [before, after], needed } = difference.basis() {
        return writeln!(
            out,
            "too few samples to compare: {before} and {after}, and each profile needs {needed}. Take them for longer, or while the \
             node has more to do"
        );
    }
    let changes = difference.changes();
    match changes.len() {
        0 => writeln!(out, "no frame differs by more than noise")?,
        1 => writeln!(out, "1 frame differs by more than noise:")?,
        count => writeln!(out, "{count} frames differ by more than noise:")?,
    }
    for changed in changes.iter().take(CHANGES_MAX) {
        writeln!(out, "  {changed}")?;
    }
    if changes.len() > CHANGES_MAX {
        writeln!(out, "  ... and {} more", changes.len() - CHANGES_MAX)?;
    }
    writeln!(out, "{}", difference.basis())
}
