//! The files that are mapped into the process's memory.

use std::path::{Path, PathBuf};

/// A file that is mapped as code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The address of the file's first byte: subtracted from an address, it gives the place in the file.
    pub(super) base: u64,
    pub(super) path: PathBuf,
}

/// The executable parts of `/proc/self/maps`, by address.
pub(super) fn modules(maps: &str) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    let mut first: Option<(PathBuf, u64)> = None;
    for line in maps.lines() {
        let Some((start, end, permissions, path)) = parse(line) else { continue };
        if first.as_ref().is_none_or(|(known, _)| known != path) {
            first = Some((path.to_owned(), start));
        }
        let base = first.as_ref().map_or(start, |(_, base)| *base);
        if permissions.contains('x') {
            found.push(Module { start, end, base, path: path.to_owned() });
        }
    }
    found
}

fn parse(line: &str) -> Option<(u64, u64, &str, &Path)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let path = fields.nth(3)?.trim_start();
    let named = !path.is_empty();
    named.then_some(())?;
    Some((
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
        permissions,
        Path::new(path),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_with_its_files_base() {
        let maps = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 12                         /usr/bin/a b
55d0c0001000-55d0c0005000 r-xp 00001000 08:01 12                         /usr/bin/a b
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";
        let found = modules(maps);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].base, 0x55d0_c000_0000);
        assert_eq!((found[0].start, found[0].path.as_path()), (0x55d0_c000_1000, Path::new("/usr/bin/a b")));
        assert_eq!(found[1].path, Path::new("[vdso]"));
    }
}
