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
    looks: Looks,
}

impl WatchedTokens {
    /// Of this file, in which this was found.
    pub(super) fn new(path: PathBuf, content: Vec<u8>, guard: Arc<Guard>) -> WatchedTokens {
        WatchedTokens { path, guard, looks: Looks::after(Ok(content)) }
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

/// What was found in the file, or why it could not be read.
type Found = Result<Vec<u8>, String>;

/// Which of the contents that are found counts: one that two looks in a row have found. What is still being written may be cut off behind
/// a line, and a token without its last lines may do more.
struct Looks {
    last: Found,
    /// The last one that counted, whether it could be used or not.
    counted: Found,
}

impl Looks {
    fn after(found: Found) -> Looks {
        Looks { last: found.clone(), counted: found }
    }

    /// What counts from now on, if that is news. Who asks for a look says that the file is complete.
    fn look(&mut self, found: Found, is_asked: bool) -> Option<&Found> {
        let is_settled = self.last == found;
        self.last = found;
        let is_news = is_settled && self.last != self.counted;
        if !is_asked && !is_news {
            return None;
        }
        self.counted = self.last.clone();
        Some(&self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_being_written_does_not_count() {
        let found = |content: &str| Ok(content.into());
        let mut looks = Looks::after(found("before"));
        for unfinished in ["before", "", "li", "line\n", "before", "before"] {
            assert_eq!(looks.look(found(unfinished), false), None, "{unfinished:?}");
        }
        assert_eq!(looks.look(found("line\nline\n"), false), None);
        assert_eq!(looks.look(found("line\nline\n"), false), Some(&found("line\nline\n")));
        assert_eq!(looks.look(found("line\nline\n"), false), None, "that is no news");
        // The same of a file that is gone.
        let gone = || Err("no such file".to_owned());
        assert_eq!(looks.look(gone(), false), None);
        assert_eq!(looks.look(gone(), false), Some(&gone()));
    }

    #[test]
    fn who_asks_is_not_kept_waiting() {
        let found = || Ok(b"line\n".to_vec());
        let mut looks = Looks::after(Ok(Vec::new()));
        assert_eq!(looks.look(found(), true), Some(&found()));
        assert_eq!(looks.look(found(), false), None);
        assert_eq!(looks.look(found(), true), Some(&found()), "also if it is as it was");
    }
}
