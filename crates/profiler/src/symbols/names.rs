//! The functions of one address: the one whose code it is, and those that were inlined there.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::Loader;

use super::kernel::{KERNEL_FROM, KernelSymbols};
use super::maps::{self, Module};
use super::paths;
use crate::profile::{Frame, FrameKind};
use crate::sys::files;

/// A path by which the running executable can be read even after it was replaced or deleted.
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// `e_type` of an executable that is not relocated, at byte 16 of an ELF file.
const ELF_TYPE_AT: usize = 16;
const ELF_TYPE_FIXED: u8 = 2;

pub(super) struct Namer {
    modules: Vec<LoadedModule>,
    kernel: OnceCell<KernelSymbols>,
    notes: RefCell<BTreeSet<String>>,
}

struct LoadedModule {
    module: Module,
    /// Loaded when the first address in it is looked up.
    loader: OnceCell<Option<Loaded>>,
    is_own: bool,
}

struct Loaded {
    loader: Loader,
    base: u64,
}

impl Namer {
    pub(super) fn of_this_process() -> Self {
        let own = own_code_address();
        let modules = maps::modules(&files::memory_maps());
        let own_path: Option<PathBuf> =
            modules.iter().find(|module| (module.start..module.end).contains(&own)).map(|m| m.path.clone());
        let load = |module: Module| LoadedModule {
            is_own: own_path.as_ref() == Some(&module.path),
            module,
            loader: OnceCell::new(),
        };
        Namer {
            modules: modules.into_iter().map(load).collect(),
            kernel: OnceCell::new(),
            notes: RefCell::default(),
        }
    }

    pub(super) fn into_notes(self) -> impl Iterator<Item = String> {
        self.notes.into_inner().into_iter()
    }

    /// Innermost first; at least one.
    pub(super) fn frames(&self, address: u64) -> Vec<Frame> {
        if address >= KERNEL_FROM {
            return vec![self.kernel_frame(address)];
        }
        let after = self.modules.partition_point(|loaded| loaded.module.start <= address);
        let module = self.modules[..after].last().filter(|loaded| address < loaded.module.end);
        match module {
            Some(module) => module.frames(address, &self.notes),
            None => vec![plain("[unknown]")],
        }
    }

    fn kernel_frame(&self, address: u64) -> Frame {
        let symbols = self.kernel.get_or_init(|| KernelSymbols::parse(&files::kernel_symbols()));
        match symbols.name(address) {
            Some(name) => Frame { kind: FrameKind::Kernel, ..plain(name) },
            None => {
                if symbols.is_empty() {
                    self.notes.borrow_mut().insert("the kernel hides its symbols (kptr_restrict)".to_owned());
                }
                Frame { kind: FrameKind::Kernel, ..plain("[kernel]") }
            }
        }
    }
}

impl LoadedModule {
    fn frames(&self, address: u64, notes: &RefCell<BTreeSet<String>>) -> Vec<Frame> {
        let loaded = self.loader.get_or_init(|| self.load(notes));
        let frames = loaded.as_ref().map(|loaded| loaded.frames(address - loaded.base)).unwrap_or_default();
        if frames.is_empty() {
            // Without the offset: in graphs all unnamed code of a library is one frame.
            return vec![plain(&format!("[{}]", file_name(&self.module.path)))];
        }
        frames
    }

    fn load(&self, notes: &RefCell<BTreeSet<String>>) -> Option<Loaded> {
        let path = if self.is_own { Path::new(OWN_EXECUTABLE) } else { &self.module.path };
        if !path.is_absolute() {
            return None;
        }
        let fixed = files::head_of(path, 64).get(ELF_TYPE_AT) == Some(&ELF_TYPE_FIXED);
        let base = if fixed { 0 } else { self.module.base };
        match Loader::new(path) {
            Ok(loader) => Some(Loaded { loader, base }),
            Err(error) => {
                let name = file_name(&self.module.path);
                notes.borrow_mut().insert(format!("no symbols of {name}: {error}"));
                None
            }
        }
    }
}

impl Loaded {
    fn frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Ok(mut found) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = found.next() {
                let name =
                    frame.function.as_ref().and_then(|function| function.demangle().ok().map(Into::into));
                let location = frame.location;
                frames.push((
                    name,
                    location.as_ref().and_then(|at| at.file).map(Arc::from),
                    location.and_then(|at| at.line).unwrap_or(0),
                ));
            }
        }
        // The symbol table names the outermost function with its whole path; with line tables alone, debug information
        // has the last part of it only.
        if let Some(symbol) = self.loader.find_symbol(address) {
            let name = demangle(symbol);
            match frames.last_mut() {
                Some(outermost) => outermost.0 = Some(name),
                None => frames.push((Some(name), None, 0)),
            }
        }
        let outermost = frames.len().saturating_sub(1);
        let frame = |(depth, (name, file, line)): (usize, (Option<String>, Option<Arc<str>>, _))| Frame {
            function: name.map_or_else(|| "[unknown]".into(), |name| full_name(&name, file.as_deref())),
            file,
            line,
            kind: if depth == outermost { FrameKind::User } else { FrameKind::Inlined },
        };
        frames.into_iter().enumerate().map(frame).collect()
    }
}

/// With its module, which an inlined function's name does not have, and without the types that it was made for.
fn full_name(name: &str, file: Option<&str>) -> Arc<str> {
    let short = paths::without_parameters(name);
    match file.and_then(paths::module_of).filter(|_| !short.contains("::")) {
        Some(module) => format!("{module}::{short}").into(),
        None => short.into(),
    }
}

/// Without the hash that the compiler adds.
fn demangle(symbol: &str) -> String {
    match rustc_demangle::try_demangle(symbol) {
        Ok(name) => format!("{name:#}"),
        Err(_) => symbol.split('@').next().unwrap_or(symbol).to_owned(),
    }
}

fn own_code_address() -> u64 {
    let function: fn(&str) -> String = demangle;
    function as usize as u64
}

fn plain(name: &str) -> Frame {
    Frame { function: name.into(), file: None, line: 0, kind: FrameKind::User }
}

fn file_name(path: &Path) -> String {
    let text = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    text.trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_has_a_name_a_file_and_a_line() {
        let frames = Namer::of_this_process().frames(own_code_address() + 1);
        let last = frames.last().expect("one frame");
        assert!(last.function.contains("names::demangle"), "{frames:?}");
        assert!(
            last.line > 0 && last.file.as_ref().is_some_and(|file| file.ends_with("names.rs")),
            "{last:?}"
        );
    }

    #[test]
    fn nothing_is_there_and_that_is_said() {
        assert_eq!(&*Namer::of_this_process().frames(4096)[0].function, "[unknown]");
    }

    #[test]
    fn hashes_and_symbol_versions_are_left_out() {
        assert_eq!(demangle("_ZN3foo3barE"), "foo::bar");
        assert_eq!(demangle("memcpy@@GLIBC_2.14"), "memcpy");
    }
}
