//! The crate and the module of a function, from the path of its source file. With line tables alone, the debug information has
//! only the last part of an inlined function's name.

/// Whether the file is one of `core`, `alloc` or `std`.
pub(super) fn is_of_the_standard_library(file: &str) -> bool {
    file.contains("/rustc/") || file.starts_with("library/")
}

/// The path of the file's module, as in `hyper::proto::h1::dispatch`; none if the file is in no crate's `src`.
pub(super) fn module_of(file: &str) -> Option<String> {
    let (before, within) = file.strip_suffix(".rs")?.rsplit_once("src/")?;
    let crate_name = crate_of(before.trim_end_matches('/'));
    let is_root = |part: &&str| crate_name.is_some() && matches!(*part, "lib" | "main");
    let parts = within.split('/').filter(|part| !is_root(part) && *part != "mod");
    let all: Vec<&str> = crate_name.as_deref().into_iter().chain(parts).collect();
    Some(all.join("::"))
}

/// `hyper-1.12.0` is `hyper`; files in the workspace's own folder of crates are named after the workspace.
fn crate_of(before: &str) -> Option<String> {
    let (parent, folder) = before.rsplit_once('/').unwrap_or(("", before));
    let is_version = |at: &usize| folder[at + 1..].starts_with(|first: char| first.is_ascii_digit());
    let version_at = folder.match_indices('-').map(|(at, _)| at).find(is_version);
    let name = &folder[..version_at.unwrap_or(folder.len())];
    let is_ours = parent.rsplit('/').next() == Some("crates");
    let prefix = if is_ours && name != "ladoga" { "ladoga_" } else { "" };
    (!name.is_empty()).then(|| format!("{prefix}{}", name.replace('-', "_")))
}

/// A function's name without its type parameters: `poll<T, S>` is `poll`, `<A as B<C>>::f::<D>` is `<A as B>::f`. Functions
/// stay distinguishable by their full names.
pub(super) fn without_parameters(name: &str) -> String {
    if let Some(dropped) = name.strip_prefix(DROP).and_then(|rest| rest.strip_suffix('>')) {
        return format!("{DROP}{}>", without_parameters(dropped));
    }
    let mut short = String::with_capacity(name.len());
    let mut depth = 0_u32;
    let mut last = ' ';
    for letter in name.chars() {
        // `<T as Trait>` stands at the beginning of a path, parameters behind a name.
        if letter == '<' && (depth > 0 || is_name_part(last) || short.ends_with("::")) {
            depth += 1;
        } else if letter == '>' && depth > 0 && last != '-' {
            depth -= 1;
        } else if depth == 0 {
            short.push(letter);
        }
        last = letter;
    }
    short.replace("::::", "::").trim_end_matches("::").to_owned()
}

const DROP: &str = "core::ptr::drop_in_place::<";

fn is_name_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '}' | ')' | ']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_module() {
        let registry = "/x/registry/src/index-1/hyper-1.12.0/src/proto/h1/dispatch.rs";
        assert_eq!(module_of(registry).as_deref(), Some("hyper::proto::h1::dispatch"));
        let of = |file| module_of(file).expect("a module");
        assert_eq!(of("/rustc/598/library/core/src/ops/mod.rs"), "core::ops");
        assert_eq!(of("/x/ladoga/crates/node/src/server/link.rs"), "ladoga_node::server::link");
        assert_eq!(of("crates/storage/src/lib.rs"), "ladoga_storage");
        assert_eq!(of("crates/ladoga/src/main.rs"), "ladoga");
        assert_eq!(of("src/main.rs"), "main");
        assert_eq!(of("/x/quick-cache-ng-0.6.1-rc.1/src/sync.rs"), "quick_cache_ng::sync");
        assert_eq!((module_of("nptl/pthread_create.c"), module_of("x.rs")), (None, None));
        assert!(is_of_the_standard_library("/rustc/598/library/core/src/option.rs"));
        assert!(!is_of_the_standard_library(registry));
    }

    #[test]
    fn types_are_left_out_of_names() {
        for (name, short) in [
            ("poll<T, alloc::sync::Arc<S>>", "poll"),
            ("a::poll::<T>", "a::poll"),
            ("<a::Boxed<dyn Fn<(), Output = ()> + Send> as b::Fn<()>>::call", "<a::Boxed as b::Fn>::call"),
            ("a::flush::<impl a::Inner<T>>::one", "a::flush::one"),
            ("<fn(u8) -> Vec<u8> as F>::call", "<fn(u8) -> Vec as F>::call"),
            ("f<fn(u8) -> u8>", "f"),
            ("core::ptr::drop_in_place::<a::B<C>>", "core::ptr::drop_in_place::<a::B>"),
            ("<T>::new::{closure#0}<U>", "<T>::new::{closure#0}"),
            ("memcpy", "memcpy"),
        ] {
            assert_eq!(without_parameters(name), short, "{name}");
        }
    }
}
