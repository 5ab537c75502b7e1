use std::path::PathBuf;
use std::sync::Arc;

use ladoga_node::Guard;

use super::store::{parse_tokens, read_tokens};
use crate::logging::LIFE;
use crate::reload::{Looks, Reload};

/// The file of tokens.
pub(super) struct WatchedTokens {
    path: PathBuf,
    guard: Arc<Guard>,
    looks: Looks<Vec<u8>>,
}

impl WatchedTokens {
    /// Of this file, in which this was found.
    pub(super) fn new(path: PathBuf, content: Vec<u8>, guard: Arc<Guard>) -> WatchedTokens {
        WatchedTokens { path, guard, looks: Looks::after(content) }
    }
}

impl Reload for WatchedTokens {
    fn look(&mut self, is_asked: bool) {
        let Some(content) = self.looks.look(read_tokens(&self.path), is_asked) else { return };
        let content = content.as_ref().map_err(Clone::clone);
        match content.and_then(|content| parse_tokens(&self.path, content)) {
            Ok(file) => {
                let tokens = match file.tokens.len() {
                    1 => "1 token counts".to_owned(),
                    count => format!("{count} tokens count"),
                };
                self.guard.replace(file);
                tracing::info!(target: LIFE, "read {} anew: {tokens}", self.path.display());
            }
            Err(problem) => {
                tracing::error!("the tokens stay as they were: {problem}");
                self.guard.keep(problem);
            }
        }
    }
}
