//! From addresses to functions, in the process itself: its own mappings, their debug information, the kernel's table.

mod kernel;
mod maps;
mod names;
mod paths;

use std::collections::HashMap;

use crate::kind::Kind;
use crate::profile::{Frame, FrameKind, Profile, Sample, StackId, StackTable, Thread};
use crate::recorder::Recorder;
use names::Namer;

/// The functions by which a program enters its allocator: the frames below are the profiler's own.
const ALLOCATOR_ENTRIES: [&str; 2] = ["__rust_alloc", "__rust_realloc"];
/// The profiler's own frames at the leaf, inside which the sample was taken.
const OWN_CRATE: &str = "ladoga_profiler::";
const UNWINDER: &str = "_Unwind_Backtrace";

/// Fills the profile's threads, stacks and samples.
pub(crate) fn resolve(recorder: &Recorder, started_ns: u64, profile: &mut Profile) {
    let namer = Namer::of_this_process();
    let mut frames_of: HashMap<u64, Vec<Frame>> = HashMap::new();
    let mut threads = Threads { recorder, ids: HashMap::new(), list: Vec::new() };
    let mut stacks: HashMap<u32, StackId> = HashMap::new();
    let mut table = StackTable::default();
    for sample in &recorder.samples {
        let stack = *stacks.entry(sample.node).or_insert_with(|| {
            let frames = frames_of_node(recorder, sample.node, &namer, &mut frames_of);
            let own = own_frames(&frames, profile.kind);
            let is_told = |frame: &&Frame| !is_scaffolding(frame);
            let (leaf, callers) = frames[own..].split_at(usize::from(own < frames.len()));
            let told = leaf.iter().chain(callers.iter().filter(is_told)).rev();
            told.fold(StackTable::EMPTY, |stack, frame| table.push(stack, frame))
        });
        profile.samples.push(Sample {
            thread: threads.index_of(sample.thread),
            stack,
            at_ns: sample.at_ns.saturating_sub(started_ns),
            weight: sample.weight,
            count: sample.count,
        });
    }
    profile.samples.sort_by_key(|sample| sample.at_ns);
    profile.stacks = table;
    profile.threads = threads.list;
    profile.notes.extend(namer.into_notes());
}

/// Leaf first.
fn frames_of_node(
    recorder: &Recorder,
    node: u32,
    namer: &Namer,
    frames_of: &mut HashMap<u64, Vec<Frame>>,
) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = node;
    while let Some((parent, address)) = at.checked_sub(1).map(|at| recorder.nodes[at as usize]) {
        frames.extend_from_slice(frames_of.entry(address).or_insert_with(|| namer.frames(address)));
        at = parent;
    }
    frames
}

/// How many frames at the leaf are the profiler's own.
fn own_frames(frames: &[Frame], kind: Kind) -> usize {
    // In whatever module the compiler puts them.
    let name = |frame: &Frame| frame.function.rsplit("::").next().unwrap_or_default().to_owned();
    let is_entry = |frame: &Frame| ALLOCATOR_ENTRIES.iter().any(|entry| name(frame).starts_with(entry));
    let entry = frames.iter().position(is_entry);
    match (kind, entry) {
        (Kind::Alloc, Some(entry)) => entry + 1,
        _ => frames
            .iter()
            .take_while(|frame| frame.function.contains(OWN_CRATE) || &*frame.function == UNWINDER)
            .count(),
    }
}

/// Combinators of the standard library that were inlined between other functions tell nothing, and outnumber all other frames.
fn is_scaffolding(frame: &Frame) -> bool {
    frame.kind == FrameKind::Inlined && frame.file.as_deref().is_some_and(paths::is_of_the_standard_library)
}

struct Threads<'a> {
    recorder: &'a Recorder,
    ids: HashMap<u32, u32>,
    list: Vec<Thread>,
}

impl Threads<'_> {
    fn index_of(&mut self, id: u32) -> u32 {
        *self.ids.entry(id).or_insert_with(|| {
            let known = self.recorder.thread_names.get(&id);
            let name = known.cloned().unwrap_or_else(|| format!("thread {id}"));
            self.list.push(Thread { id, name });
            self.list.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        names.iter().map(|name| Frame { kind: FrameKind::User, ..Frame::note(name) }).collect()
    }

    #[test]
    fn what_is_below_the_allocator_is_left_out() {
        let own = "ladoga_profiler::memory::count";
        for entry in ["__rustc::__rust_alloc", "app::__rust_alloc_zeroed", "__rust_realloc"] {
            assert_eq!(
                own_frames(&frames(&[own, "app::alloc", entry, "app::main"]), Kind::Alloc),
                3,
                "{entry}"
            );
            assert_eq!(own_frames(&frames(&["mi_malloc", entry, "app::main"]), Kind::Cpu), 0, "{entry}");
        }
        assert_eq!(own_frames(&frames(&[UNWINDER, own, "app::main", own]), Kind::Alloc), 2);
    }
}
