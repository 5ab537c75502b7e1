//! The directories that the hints for each node are in: `hints/NAME`, by the xxh3 of the node's URL.
//!
//! Once they were `hints/NODE`, by the place in the list of nodes. After a change of the list, another node has that place.

use std::io;
use std::path::Path;

use ladoga_env::Disk;

use super::log;

/// What the directory with the hints for a node is called.
pub(super) fn name_of(name_hash: u64) -> String {
    format!("{name_hash:016x}")
}

/// Leaves only hints for nodes with these names, and brings those that were kept by place to where they are looked for, if
/// the places are those of this list. Done again, it changes nothing.
///
/// Hints for a node that has left the list go: should it come back, the writes in them may be older than deletions that
/// nobody knows of any more.
pub(crate) fn follow_names(
    disk: &dyn Disk,
    hints: &Path,
    names: &[u64],
    is_by_place: bool,
) -> io::Result<()> {
    for found in list(disk, hints)? {
        if names.iter().any(|&name| name_of(name) == found) {
            continue;
        }
        let place = found.parse().ok().filter(|_| is_by_place);
        match place.and_then(|place: usize| names.get(place)) {
            Some(&name) => move_all(disk, &hints.join(found), &hints.join(name_of(name)))?,
            None => remove_files(disk, &hints.join(found))?,
        }
    }
    Ok(())
}

/// Removes all hints.
pub(crate) fn remove_all(disk: &dyn Disk, hints: &Path) -> io::Result<()> {
    list(disk, hints)?.into_iter().try_for_each(|found| remove_files(disk, &hints.join(found)))
}

/// What is wrong with the hints in a directory, one line each; changes nothing.
pub(crate) fn check(disk: &dyn Disk, hints: &Path) -> Vec<String> {
    let failed = |error: io::Error| vec![format!("the hints in {} cannot be read: {error}", hints.display())];
    let names = match list(disk, hints) {
        Ok(names) => names,
        Err(error) => return failed(error),
    };
    let damaged = |name: String| match log::damaged(disk, &hints.join(&name)) {
        Ok(segments) => segments.iter().map(|segment| line(&hints.join(&name).join(segment))).collect(),
        Err(error) => failed(error),
    };
    names.into_iter().flat_map(damaged).collect()
}

fn line(segment: &Path) -> String {
    format!(
        "{} is damaged: it does not begin as a segment of hints. Repair brings the writes in it to their node; remove the file",
        segment.display()
    )
}

fn move_all(disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
    disk.create_dir_all(to)?;
    for name in list(disk, from)? {
        disk.rename(&from.join(&name), &to.join(&name))?;
    }
    disk.sync_dir(to)?;
    disk.sync_dir(from)
}

fn remove_files(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let names = list(disk, dir)?;
    for name in &names {
        disk.remove(&dir.join(name))?;
    }
    if names.is_empty() { Ok(()) } else { disk.sync_dir(dir) }
}

fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

#[cfg(test)]
mod tests {
    use ladoga_env::OpenMode;

    use super::*;

    #[test]
    fn a_segment_that_does_not_begin_as_one_is_told() {
        let (env, _disk, _clock) = ladoga_env::sim::env(1);
        let hints = Path::new("/hints");
        assert!(check(&*env.disk, hints).is_empty(), "there are none");
        let dir = hints.join(name_of(7));
        let mut log = log::HintLog::open(&env.disk, &dir, |_| {}).expect("a log");
        log.append(1, b"a record").expect("a hint");
        drop(log);
        assert!(check(&*env.disk, hints).is_empty());
        let path = dir.join("000000000001.hints");
        let file = env.disk.open(&path, OpenMode::ReadWrite).expect("the segment");
        file.write_all_at(b"X", 3).expect("a flipped byte");
        let found = check(&*env.disk, hints);
        assert!(found.len() == 1 && found[0].contains("000000000001.hints is damaged"), "{found:?}");
        assert_eq!(file.len().expect("a length"), 44, "nothing is changed");
    }

    /// A disk with hints for the node that is called so.
    fn disk_with(dirs: &[&str]) -> std::sync::Arc<dyn Disk> {
        let (env, _disk, _clock) = ladoga_env::sim::env(1);
        for dir in dirs {
            let dir = Path::new("/hints").join(dir);
            env.disk.create_dir_all(&dir).expect("a directory");
            env.disk.open(&dir.join("1.hints"), OpenMode::CreateNew).expect("a segment");
        }
        env.disk
    }

    /// Which of these have hints.
    fn have_hints<'d>(disk: &dyn Disk, dirs: &[&'d str]) -> Vec<&'d str> {
        let has = |dir: &&str| !list(disk, &Path::new("/hints").join(dir)).expect("names").is_empty();
        dirs.iter().copied().filter(has).collect()
    }

    const ONE: &str = "0000000000000046";
    const OTHER: &str = "0000000000000047";
    const ALL: [&str; 4] = [ONE, OTHER, "0", "1"];

    #[test]
    fn hints_stay_with_the_name_of_their_node_or_go_with_it() {
        let disk = disk_with(&[ONE, OTHER]);
        follow_names(&*disk, Path::new("/hints"), &[0x47, 0x48], false).expect("a change");
        assert_eq!(have_hints(&*disk, &ALL), [OTHER]);
        follow_names(&*disk, Path::new("/nothing"), &[0x47], false).expect("no hints");
    }

    #[test]
    fn hints_that_were_kept_by_place_are_those_of_the_node_that_has_it_or_nobodys() {
        let disk = disk_with(&["0", "1"]);
        follow_names(&*disk, Path::new("/hints"), &[0x46, 0x47], true).expect("a change");
        assert_eq!(have_hints(&*disk, &ALL), [ONE, OTHER]);
        let disk = disk_with(&["0", "1"]);
        follow_names(&*disk, Path::new("/hints"), &[0x46, 0x47], false).expect("a change");
        assert!(have_hints(&*disk, &ALL).is_empty());
    }
}
