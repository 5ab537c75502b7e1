//! Stacks as one tree of names under the roles of their threads, as the pages' scripts read it: which thread of a pool got
//! which work is chance.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::Profile;
use crate::profile::{StackId, role};

pub(super) struct NameTree {
    names: Vec<String>,
    name_ids: HashMap<String, u32>,
    parents: Vec<i64>,
    node_names: Vec<u32>,
    children: HashMap<(i64, u32), u32>,
    leaves: HashMap<(u32, StackId), u32>,
}

impl NameTree {
    pub(super) fn new() -> Self {
        NameTree {
            names: Vec::new(),
            name_ids: HashMap::new(),
            parents: Vec::new(),
            node_names: Vec::new(),
            children: HashMap::new(),
            leaves: HashMap::new(),
        }
    }

    /// The node of a thread's stack. Lines of one function are one node.
    pub(super) fn leaf(&mut self, profile: &Profile, thread: u32, stack: StackId) -> u32 {
        if let Some(known) = self.leaves.get(&(thread, stack)) {
            return *known;
        }
        let mut labels: Vec<String> = profile.stacks.frames(stack).map(crate::Frame::label).collect();
        labels.push(role(&profile.threads[thread as usize].name).to_owned());
        let leaf =
            labels.into_iter().rev().fold(-1, |parent, label| i64::from(self.child(parent, label))) as u32;
        self.leaves.insert((thread, stack), leaf);
        leaf
    }

    fn child(&mut self, parent: i64, label: String) -> u32 {
        let next_name = self.names.len() as u32;
        let names = &mut self.names;
        let name = *self.name_ids.entry(label).or_insert_with_key(|label| {
            names.push(label.clone());
            next_name
        });
        *self.children.entry((parent, name)).or_insert_with(|| {
            self.parents.push(parent);
            self.node_names.push(name);
            self.parents.len() as u32 - 1
        })
    }

    /// A parent always comes before its children; -1 is the root.
    pub(super) fn to_json(&self) -> Value {
        json!({ "names": self.names, "parent": self.parents, "name": self.node_names })
    }

    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }
}

/// JSON that is safe inside of a `<script>`: `<` could end it.
pub(crate) fn script_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Text that is safe inside of an element.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
