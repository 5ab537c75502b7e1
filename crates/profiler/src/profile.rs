//! What a session leaves: samples whose stacks are shared.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::kind::Kind;
use crate::program::Program;

/// A finished profile.
#[derive(Debug, Clone)]
pub struct Profile {
    /// What was measured.
    pub kind: Kind,
    /// The process that it is of.
    pub program: Program,
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How long it ran.
    pub duration_ns: u64,
    /// The weight between two samples: nanoseconds of CPU or bytes; 1 if every event is a sample.
    pub period: u64,
    /// The threads that were seen.
    pub threads: Vec<Thread>,
    /// All stacks.
    pub stacks: StackTable,
    /// In the order of their time.
    pub samples: Vec<Sample>,
    /// Samples that found no room.
    pub dropped: u64,
    /// Notes for the reader: how it was taken, and what is missing.
    pub notes: Vec<String>,
}

/// One thread of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number.
    pub id: u32,
    /// Its name, or its number if it ended before its name was read.
    pub name: String,
}

/// What threads of a pool have in common: their name without the number behind it. One that ended before its name was
/// known is called by its number alone.
pub(crate) fn role(thread: &str) -> &str {
    let name = thread.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let name = name.trim_end_matches(['-', '_', '#', '/', ':', ' ']);
    if name.is_empty() { "(threads without a name)" } else { name }
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Index into [`Profile::threads`].
    pub thread: u32,
    /// Its stack.
    pub stack: StackId,
    /// Nanoseconds since the profile began. Of a wait: when it ended.
    pub at_ns: u64,
    /// Its weight, in [`Kind::unit`].
    pub weight: u64,
    /// The number of events.
    pub count: u64,
}

/// A stack of a [`StackTable`]: its leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(crate) u32);

/// One function of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function, demangled.
    pub function: Arc<str>,
    /// Its source file, if the debug information has it.
    pub file: Option<Arc<str>>,
    /// The line in it, or 0.
    pub line: u32,
    /// The kind of its frame.
    pub kind: FrameKind,
}

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// A function with a frame of its own.
    User,
    /// Inlined into its caller.
    Inlined,
    /// The kernel.
    Kernel,
    /// Not a function, but a note of the profiler about the stack.
    Note,
}

impl Frame {
    /// A remark in place of a function.
    pub(crate) fn note(text: &str) -> Self {
        Frame { function: text.into(), file: None, line: 0, kind: FrameKind::Note }
    }

    /// The name in graphs: as the function's, with `_[k]` and `_[i]` as the flame graph tools mark them.
    pub fn label(&self) -> String {
        let suffix = match self.kind {
            FrameKind::Kernel => "_[k]",
            FrameKind::Inlined => "_[i]",
            FrameKind::User | FrameKind::Note => "",
        };
        format!("{}{suffix}", self.function)
    }
}

/// Stacks as a tree from the root, so that what they share is kept once.
#[derive(Debug, Clone, Default)]
pub struct StackTable {
    nodes: Vec<Node>,
    children: HashMap<Node, u32>,
    frames: Vec<Frame>,
    frame_ids: HashMap<Frame, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    /// Index + 1 of the caller's node; 0 is the root.
    parent: u32,
    frame: u32,
}

impl StackTable {
    /// The stack of no frames.
    pub const EMPTY: StackId = StackId(0);

    /// The stack that calls `frame` at the end of `caller`.
    pub fn push(&mut self, caller: StackId, frame: &Frame) -> StackId {
        let frame = match self.frame_ids.get(frame) {
            Some(id) => *id,
            None => {
                let id = self.frames.len() as u32;
                self.frames.push(frame.clone());
                self.frame_ids.insert(frame.clone(), id);
                id
            }
        };
        let node = Node { parent: caller.0, frame };
        let nodes = &mut self.nodes;
        let id = self.children.entry(node).or_insert_with(|| {
            nodes.push(node);
            nodes.len() as u32
        });
        StackId(*id)
    }

    /// The stack's frames, leaf first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = &Frame> {
        let node = |id: u32| id.checked_sub(1).map(|at| self.nodes[at as usize]);
        std::iter::successors(node(stack.0), move |last| node(last.parent))
            .map(|node| &self.frames[node.frame as usize])
    }

    /// How many nodes the tree has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no stack.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl Profile {
    /// The sum of all weights.
    pub fn total_weight(&self) -> u64 {
        self.samples.iter().map(|sample| sample.weight).sum()
    }

    /// The weight of samples whose stack has a function with `part` in its name.
    pub fn weight_of(&self, part: &str) -> u64 {
        let has =
            |sample: &&Sample| self.stacks.frames(sample.stack).any(|frame| frame.function.contains(part));
        self.samples.iter().filter(has).map(|sample| sample.weight).sum()
    }

    /// The part between two moments since the start, with the same threads and stacks.
    #[must_use]
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Profile {
        let mut part = self.clone();
        part.samples.retain(|sample| (from_ns..to_ns).contains(&sample.at_ns));
        part.samples.iter_mut().for_each(|sample| sample.at_ns -= from_ns);
        part.started_unix_ns += from_ns;
        part.duration_ns = to_ns.min(self.duration_ns).saturating_sub(from_ns);
        part
    }

    /// A profile ends a moment later than it was asked to, which would be a second of its own in a heat map. What was sampled
    /// in that moment counts at the end: a wait is recorded when it is over, so it cannot be left out.
    #[must_use]
    pub(crate) fn ending_after(mut self, duration: Duration) -> Profile {
        let end_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.duration_ns = self.duration_ns.min(end_ns);
        self.samples.iter_mut().for_each(|sample| sample.at_ns = sample.at_ns.min(end_ns.saturating_sub(1)));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_pool_have_one_role() {
        for (thread, wanted) in [
            ("event-loop-0", "event-loop"),
            ("event-loop-12", "event-loop"),
            ("io_3", "io"),
            ("committer", "committer"),
            ("http2", "http"),
            ("4711", "(threads without a name)"),
        ] {
            assert_eq!(role(thread), wanted);
            assert_eq!(role(wanted), wanted, "of a role it is the same");
        }
    }

    #[test]
    fn a_profile_is_as_long_as_it_was_asked_to_be() {
        let mut late = crate::render::fixture::profile();
        late.duration_ns = 2_003_000_000;
        late.samples.last_mut().expect("a sample").at_ns = 2_001_000_000;
        let weight = late.total_weight();
        let profile = late.ending_after(Duration::from_secs(2));
        let last = profile.samples.last().expect("a sample");
        assert_eq!((profile.duration_ns, last.at_ns), (2_000_000_000, 1_999_999_999));
        assert_eq!(profile.total_weight(), weight, "nothing is lost");
        let page = String::from_utf8(profile.render(crate::Format::Heatmap).expect("a page")).expect("text");
        assert!(page.contains("\"cells\":100,"), "a hundred cells of 20 ms, and none after them");
    }

    #[test]
    fn stacks_share_what_they_have_in_common() {
        let mut table = StackTable::default();
        let main = table.push(StackTable::EMPTY, &Frame::note("main"));
        let a = table.push(main, &Frame::note("a"));
        let b = table.push(main, &Frame::note("b"));
        assert_eq!(table.push(main, &Frame::note("a")), a);
        assert_ne!(a, b);
        assert_eq!(table.len(), 3);
        let names: Vec<&str> = table.frames(b).map(|frame| &*frame.function).collect();
        assert_eq!(names, ["b", "main"]);
        assert_eq!(table.frames(StackTable::EMPTY).count(), 0);
    }
}
