//! What every comparison is given.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::machine::Machine;
use crate::references::node::{Node, Settings, binary};
use crate::report::{Contest, Origin, Results};
use crate::scale::Scale;
use crate::scratch::{Scratch, drop_page_cache};
use crate::stop::{OrFail, Outcome};
use crate::versions::versions;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) scale: Scale,
    pub(crate) scratch: Scratch,
    pub(crate) results: Results,
    memory: Option<String>,
    threads: Option<usize>,
    only: Option<String>,
    store: Option<PathBuf>,
    binary: OnceCell<PathBuf>,
}

impl Context {
    /// Makes the directory of this run and prints what machine it is.
    pub(crate) fn new(arguments: &Arguments, smoke: bool) -> Outcome<Self> {
        let out = bench_folder().join("out");
        let scratch = Scratch::new(arguments.dir.as_deref().unwrap_or(&out.join("data")))?;
        let (machine, versions) = (Machine::here(scratch.path()), versions(&root_folder()));
        println!("Measured on: {machine}");
        if let Some(warning) = machine.warning() {
            println!("**{warning}**");
        }
        for (name, version) in &versions {
            println!("{name}: {version}");
        }
        let file = if smoke { out.join("smoke.jsonl") } else { results_file() };
        if smoke && file.exists() {
            // Nobody asks for an older one.
            std::fs::remove_file(&file).or_fail(|| format!("cannot remove {}", file.display()))?;
        }
        let origin = Origin { machine, versions, is_smoke: smoke, flags: arguments.flags() };
        Ok(Self {
            scale: Scale::of(arguments, smoke),
            scratch,
            results: Results::new(file, origin),
            memory: arguments.memory.clone(),
            threads: arguments.threads,
            only: arguments.only.clone(),
            store: arguments.store.clone(),
            binary: OnceCell::new(),
        })
    }

    /// Starts a node on a folder; `memory` is this comparison's budget unless the command line has another.
    pub(crate) fn start_node(&self, folder: &Path, fsync: &'static str, memory: &str) -> Outcome<Node> {
        Node::start(&self.settings(folder, fsync, memory)?)
    }

    /// As for [`Context::start_node`].
    pub(crate) fn settings<'a>(
        &'a self,
        folder: &'a Path,
        fsync: &'static str,
        memory: &str,
    ) -> Outcome<Settings<'a>> {
        let memory = self.memory.clone().unwrap_or_else(|| memory.to_owned());
        let (binary, threads) = (self.binary()?, self.threads);
        Ok(Settings { binary, folder, fsync, memory, threads, address: None, resp: None, cluster: &[] })
    }

    /// Whether a part of a comparison is to be run.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only.as_str()))
    }

    /// A store that stays from one run to the next.
    pub(crate) fn kept_store(&self) -> Option<&Path> {
        self.store.as_deref()
    }

    /// Empties the page cache, and notes if that was not done. It slows the whole machine down for a while, so the
    /// smoke leaves it.
    pub(crate) fn drop_page_cache(&self, contest: &mut Contest) {
        if self.scale.smoke || !drop_page_cache() {
            contest.note("the page cache was not dropped (that takes root): what is called cold is warm, on both sides");
        }
    }

    /// The binary that is measured.
    pub(crate) fn binary(&self) -> Outcome<&Path> {
        if let Some(path) = self.binary.get() {
            return Ok(path);
        }
        let path = binary(&root_folder())?;
        Ok(self.binary.get_or_init(|| path))
    }
}

/// Names another file for them: turns take over what their processes found, and nothing else is to read what one that was
/// interrupted left.
pub(crate) const RESULTS_VARIABLE: &str = "LADOGA_BENCH_RESULTS";

/// Where finished comparisons are appended.
pub(crate) fn results_file() -> PathBuf {
    results_file_of(std::env::var_os(RESULTS_VARIABLE))
}

pub(crate) fn results_file_of(named: Option<OsString>) -> PathBuf {
    named.map_or_else(|| bench_folder().join("out/results.jsonl"), PathBuf::from)
}

/// Where this package is. Cargo sets the variable when it runs us; the compiled-in one serves a binary started by hand.
pub(crate) fn bench_folder() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// The root of the checkout.
pub(crate) fn root_folder() -> PathBuf {
    bench_folder().parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
