//! What can be told of a data directory before it is opened.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

use ladoga_env::Env;
use ladoga_node::peers::{MembershipError, MembershipFile};
use ladoga_storage::LOST_AND_FOUND;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::Failure;
use crate::settings::Settings;

/// How the names begin that a node gives to what it makes in its directory.
const OWN: [&str; 13] = [
    "CURRENT",
    "LOCK",
    "RESTORING",
    "blobs",
    "changes",
    "checkpoints",
    "fences",
    "hints",
    "manifest-",
    "nodes",
    "replica-state",
    "tables",
    "wal",
];
/// So many things of others are named.
const NAMED_MAX: usize = 3;

/// That the data directory is one, if it is there, and is of this cluster.
pub(super) fn check(env: &Env, settings: &Settings) -> Result<(), Failure> {
    names_in(env, settings)?;
    let nodes = settings.membership.as_ref().map(|membership| &membership.nodes);
    MembershipFile::check(&*env.disk, &settings.data, nodes).map(drop).map_err(|error| {
        if let MembershipError::Io { .. } | MembershipError::Damaged { .. } = error {
            return cannot_open(settings, &error);
        }
        let given =
            settings.cluster.as_deref().map_or_else(|| "not set".to_owned(), |text| format!("'{text}'"));
        Failure::Usage(settings.with_urls(&format!("--cluster is {given}, expected {error}")))
    })
}

/// A warning if this user could not write there, as far as that can be told without making anything. It is no error: who checks the
/// settings of a node need not be the user by whom it is run.
pub(super) fn objection_to_access(settings: &Settings) -> Option<String> {
    let data = &settings.data;
    for dir in data.ancestors() {
        let is_itself = dir == data;
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let needed = Access::WRITE_OK | Access::EXEC_OK;
        let needed = if is_itself { needed | Access::READ_OK } else { needed };
        match access(dir, needed) {
            Ok(()) => return None,
            // It would be made in the one above.
            Err(Errno::NOENT) => {}
            Err(error) if is_itself => {
                return Some(format!("this user cannot use the data directory {}: {error}", data.display()));
            }
            Err(error) => {
                let (data, dir) = (data.display(), dir.display());
                return Some(format!("this user cannot make the data directory {data} in {dir}: {error}"));
            }
        }
    }
    None
}

/// A warning if a new store is about to be made among things of others: the directory may not be the one that was meant.
pub(super) fn objection(env: &Env, settings: &Settings) -> Option<String> {
    let others = others(names_in(env, settings).ok()?, &named_in(settings))?;
    let dir = settings.data.display();
    Some(format!(
        "the data directory {dir} has no store yet, and has {others} in it, which no node made: if it is not the one that you mean, \
         stop this node, and give an empty one with --data"
    ))
}

fn names_in(env: &Env, settings: &Settings) -> Result<Vec<String>, Failure> {
    match env.disk.list(&settings.data) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|error| cannot_open(settings, &error)),
    }
}

/// What the settings themselves say that is in the data directory, as the file of tokens on the only volume of a container.
fn named_in(settings: &Settings) -> Vec<&Path> {
    let (access, tls) = (&settings.access, settings.tls.as_ref());
    let of_access = [&access.tokens, &access.peer_secret, &access.audit].into_iter().flatten();
    let of_tls = tls.into_iter().flat_map(|tls| {
        let authorities = [&tls.client_authority, &tls.peer_authority].into_iter().flatten();
        [&tls.certificate, &tls.key].into_iter().chain(authorities)
    });
    of_access.chain(of_tls).filter_map(|path| name_below(&settings.data, path)).collect()
}

/// What a path goes through in a directory.
fn name_below<'p>(dir: &Path, path: &'p Path) -> Option<&'p Path> {
    path.strip_prefix(dir).ok()?.components().next().map(|name| Path::new(name.as_os_str()))
}

/// What is in a directory without a store that no node made; hidden things are nobody's data.
fn others(names: Vec<String>, named: &[&Path]) -> Option<String> {
    if names.iter().any(|name| name == "CURRENT") {
        return None;
    }
    let is_other = |name: &String| {
        let is_own = name == LOST_AND_FOUND || OWN.iter().any(|own| name.starts_with(own));
        !name.starts_with('.') && !is_own && !named.contains(&Path::new(name))
    };
    let others: Vec<String> = names.into_iter().filter(is_other).collect();
    if others.is_empty() {
        return None;
    }
    let named = others.iter().take(NAMED_MAX).map(|name| name.escape_debug().to_string());
    let named = named.collect::<Vec<_>>().join(", ");
    Some(match others.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    })
}

pub(super) fn cannot_open(settings: &Settings, error: &dyn Display) -> Failure {
    Failure::Failed(format!("cannot open the data directory {}: {error}", settings.data.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_of_others_are_named_where_there_is_no_store_yet() {
        let others = |names: &[&str]| others(names.iter().map(|name| (*name).to_owned()).collect(), &[]);
        assert_eq!(others(&[]), None);
        assert_eq!(others(&[".snapshots", "lost+found"]), None);
        // What a first start leaves that was cut off.
        assert_eq!(others(&["LOCK", "manifest-000001", "CURRENT.new", "wal", "tables", "nodes.new"]), None);
        assert_eq!(others(&["photos", "LOCK"]).as_deref(), Some("photos"));
        assert_eq!(others(&["photos", "CURRENT"]), None);
        assert_eq!(others(&["a", "b\n", "c", "d", "e"]).as_deref(), Some("a, b\\n, c and 2 more"));
    }

    #[test]
    fn a_file_is_where_its_path_goes_through() {
        let below = |dir: &str, path: &'static str| name_below(Path::new(dir), Path::new(path));
        assert_eq!(below("/data/", "/data/tokens.toml"), Some(Path::new("tokens.toml")));
        assert_eq!(below("/data", "/data/secrets/tokens.toml"), Some(Path::new("secrets")));
        for path in ["/etc/tokens.toml", "/data", "tokens.toml", "/database/tokens.toml"] {
            assert_eq!(below("/data", path), None, "{path}");
        }
    }
}
