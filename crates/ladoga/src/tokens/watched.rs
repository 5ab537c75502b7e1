use std::path::PathBuf;
use std::sync::Arc;

use ladoga_node::Guard;

use super::store::{parse_tokens, read_tokens};
use crate::logging::LIFE;
use crate::reload::Reload;

/// The file of tokens.
pub(super) struct WatchedTokens {
    path: PathBuf,
    guard: Arc<Guard>,
    /// What was found last.
    last: Result<Vec<u8>, String>,
}

impl WatchedTokens {
    /// Of this file, in which this was found.
    pub(super) fn new(path: PathBuf, content: Vec<u8>, guard: Arc<Guard>) -> WatchedTokens {
        WatchedTokens { path, guard, last: Ok(content) }
    }
}

impl Reload for WatchedTokens {
    fn look(&mut self, is_asked: bool) {
        let found = read_tokens(&self.path);
        if found == self.last && !is_asked {
            return;
        }
        self.last = found;
        let parsed = self.last.as_ref().map_err(Clone::clone);
        match parsed.and_then(|content| parse_tokens(&self.path, content)) {
            Ok(file) => {
                let count = file.tokens.len();
                self.guard.replace(file);
                tracing::info!(target: LIFE, "read {} anew: {count} tokens count", self.path.display());
            }
            Err(problem) => {
                tracing::error!("the tokens stay as they were: {problem}");
                self.guard.keep(problem);
            }
        }
    }
}
