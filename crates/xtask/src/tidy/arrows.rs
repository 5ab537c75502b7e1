//! Arrows between crates: who may name whom. The table is the architecture; a crate that it does not know fails.

use super::manifest::{self, Dependency, Kind};
use super::{Finding, TextFile};

struct CrateRule {
    /// Its folder in `crates/`.
    folder: &'static str,
    package: &'static str,
    /// The folders of the crates that it may depend on.
    may_use: &'static [&'static str],
}

/// From the bottom of the architecture upwards: a crate names only crates above it.
const CRATES: [CrateRule; 26] = [
    CrateRule { folder: "model", package: "ladoga-model", may_use: &[] },
    CrateRule { folder: "access", package: "ladoga-access", may_use: &["model"] },
    CrateRule { folder: "env", package: "ladoga-env", may_use: &["model"] },
    CrateRule { folder: "tls", package: "ladoga-tls", may_use: &["env"] },
    CrateRule { folder: "storage", package: "ladoga-storage", may_use: &["env", "model"] },
    CrateRule { folder: "backup", package: "ladoga-backup", may_use: &["model", "env", "storage"] },
    CrateRule { folder: "s3", package: "ladoga-s3", may_use: &["env", "tls"] },
    // Development only: tests of pure machines use it, and the simulation.
    CrateRule { folder: "history", package: "ladoga-history", may_use: &[] },
    CrateRule { folder: "cluster", package: "ladoga-cluster", may_use: &["model"] },
    CrateRule { folder: "service", package: "ladoga-service", may_use: &["model"] },
    // Below the stores, so that they can start supervised threads.
    CrateRule { folder: "runtime", package: "ladoga-runtime", may_use: &["env", "model"] },
    CrateRule { folder: "http1", package: "ladoga-http1", may_use: &[] },
    CrateRule { folder: "resp", package: "ladoga-resp", may_use: &[] },
    CrateRule {
        folder: "local",
        package: "ladoga-local",
        may_use: &["model", "env", "storage", "backup", "service", "runtime"],
    },
    CrateRule {
        folder: "replica",
        package: "ladoga-replica",
        may_use: &["model", "access", "env", "tls", "cluster", "service", "runtime", "local", "http1"],
    },
    CrateRule { folder: "cassandra", package: "ladoga-cassandra", may_use: &["model", "service"] },
    // Its tests make spans, and what they are made with.
    CrateRule { folder: "otel", package: "ladoga-otel", may_use: &["tls", "env", "model", "runtime"] },
    CrateRule { folder: "profiler", package: "ladoga-profiler", may_use: &[] },
    CrateRule { folder: "server", package: "ladoga-server", may_use: &["env", "runtime"] },
    CrateRule {
        folder: "front",
        package: "ladoga-front",
        may_use: &[
            "model", "access", "env", "tls", "service", "runtime", "server", "http1", "resp", "profiler",
        ],
    },
    // Assembly only. Its tests look at what peers say to each other.
    CrateRule {
        folder: "node",
        package: "ladoga-node",
        may_use: &[
            "model",
            "access",
            "env",
            "tls",
            "storage",
            "cluster",
            "service",
            "runtime",
            "local",
            "replica",
            "cassandra",
            "server",
            "front",
            "http1",
        ],
    },
    CrateRule { folder: "lab", package: "ladoga-lab", may_use: &["http1", "profiler", "tls"] },
    // `ladoga check` verifies a data directory without a node; a binary chooses its allocator, which allocation profiles
    // look into, and `ladoga profile` knows their formats.
    CrateRule {
        folder: "ladoga",
        package: "ladoga",
        may_use: &[
            "node", "lab", "otel", "http1", "profiler", "backup", "s3", "storage", "tls", "env", "access",
            "model",
        ],
    },
    CrateRule {
        folder: "sim",
        package: "ladoga-sim",
        may_use: &["replica", "local", "service", "runtime", "storage", "cluster", "env", "model", "history"],
    },
    // Development only: tests of the binary use it.
    CrateRule { folder: "cassandra-nodes", package: "ladoga-cassandra-nodes", may_use: &[] },
    CrateRule { folder: "xtask", package: "xtask", may_use: &[] },
];

/// Tests of any crate may use the simulated disk and clock, have a history checked, and start Cassandra.
const ALSO_IN_TESTS: [&str; 3] = ["env", "history", "cassandra-nodes"];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let aliases: Vec<Dependency> = files
        .iter()
        .filter(|file| file.path == "Cargo.toml")
        .flat_map(|file| manifest::scan(&file.text).dependencies)
        .filter(|dependency| dependency.kind == Kind::Workspace)
        .collect();
    files
        .iter()
        .filter_map(|file| Some((file, crate_folder(&file.path)?)))
        .flat_map(|(file, folder)| check_crate(file, folder, &aliases))
        .collect()
}

fn crate_folder(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

fn check_crate(file: &TextFile, folder: &str, aliases: &[Dependency]) -> Vec<Finding> {
    let Some(known) = CRATES.iter().find(|known| known.folder == folder) else {
        let message =
            format!("crate `{folder}` is not in the table of crates/xtask/src/tidy/arrows.rs: add it there");
        return vec![Finding::error(file, 1, message)];
    };
    let manifest = manifest::scan(&file.text);
    let mut findings = Vec::new();
    if manifest.package_name.as_deref() != Some(known.package) {
        findings.push(Finding::error(
            file,
            1,
            format!("the package of this folder is named `{}`", known.package),
        ));
    }
    for dependency in &manifest.dependencies {
        let package = package_behind(dependency, aliases);
        let Some(used) = CRATES.iter().find(|other| other.package == package) else { continue };
        if !may_use(known, used, dependency.kind) {
            let message = format!(
                "`{folder}` may not use `{}`, only {:?}: move what is needed to a crate that both may use",
                used.folder, known.may_use
            );
            findings.push(Finding::error(file, dependency.line, message));
        }
    }
    findings
}

fn may_use(user: &CrateRule, used: &CrateRule, kind: Kind) -> bool {
    user.may_use.contains(&used.folder) || (kind == Kind::Development && ALSO_IN_TESTS.contains(&used.folder))
}

/// The package's own name: renamed here, renamed for the whole workspace, or not at all.
fn package_behind<'a>(dependency: &'a Dependency, aliases: &'a [Dependency]) -> &'a str {
    let for_workspace = || aliases.iter().find(|alias| alias.alias == dependency.alias)?.package.as_deref();
    dependency.package.as_deref().or_else(for_workspace).unwrap_or(&dependency.alias)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest_of(folder: &str, package: &str, rest: &str) -> TextFile {
        TextFile::fixture(
            &format!("crates/{folder}/Cargo.toml"),
            &format!("[package]\nname = \"{package}\"\n{rest}"),
        )
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (index, user) in CRATES.iter().enumerate() {
            for used in user.may_use {
                let position = CRATES.iter().position(|known| known.folder == *used);
                assert!(
                    position.is_some_and(|position| position < index),
                    "{} names {used}, which is not above it",
                    user.folder
                );
            }
        }
    }

    #[test]
    fn an_arrow_against_the_direction_is_found_at_its_line() {
        let file = manifest_of("storage", "ladoga-storage", "[dependencies]\nladoga-node.workspace = true\n");
        let findings = check(&[file]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 4);
        assert!(findings[0].message.starts_with("`storage` may not use `node`"), "{}", findings[0].message);
    }

    #[test]
    fn an_arrow_of_the_table_passes() {
        let rest =
            "[dependencies]\nladoga-env.workspace = true\nladoga-model.workspace = true\nbytes = \"1\"\n";
        assert_eq!(check(&[manifest_of("storage", "ladoga-storage", rest)]), []);
    }

    #[test]
    fn tests_may_use_the_environment_and_nothing_else() {
        let environment = "[dev-dependencies]\nladoga-env.workspace = true\n";
        assert_eq!(check(&[manifest_of("cluster", "ladoga-cluster", environment)]), []);
        let storage = "[dev-dependencies]\nladoga-storage.workspace = true\n";
        assert_eq!(check(&[manifest_of("cluster", "ladoga-cluster", storage)]).len(), 1);
        let not_in_tests = "[dependencies]\nladoga-env.workspace = true\n";
        assert_eq!(check(&[manifest_of("cluster", "ladoga-cluster", not_in_tests)]).len(), 1);
    }

    #[test]
    fn a_new_name_hides_no_arrow() {
        let here = "[dependencies]\nstore = { path = \"../storage\", package = \"ladoga-storage\" }\n";
        assert_eq!(check(&[manifest_of("model", "ladoga-model", here)]).len(), 1);
        let root =
            "[workspace.dependencies]\nstore = { path = \"crates/storage\", package = \"ladoga-storage\" }\n";
        let root = TextFile::fixture("Cargo.toml", root);
        let user = manifest_of("model", "ladoga-model", "[dependencies]\nstore.workspace = true\n");
        assert_eq!(check(&[root, user]).len(), 1);
    }

    #[test]
    fn an_unknown_crate_and_an_unexpected_name_are_found() {
        let unknown = check(&[manifest_of("gossip", "ladoga-gossip", "")]);
        assert!(
            unknown[0].message.starts_with("crate `gossip` is not in the table"),
            "{}",
            unknown[0].message
        );
        let misnamed = check(&[manifest_of("node", "node", "")]);
        assert!(misnamed[0].message.ends_with("named `ladoga-node`"), "{}", misnamed[0].message);
    }
}
