/// Which of the contents that are found count: those that two looks in a row have found. What is still being written may be cut off behind
/// a line: a token without its last lines may do more, and a certificate may be without those between it and an authority.
pub(crate) struct Looks<C> {
    last: Result<C, String>,
    /// What counted last, whether it could be used or not.
    counted: Result<C, String>,
}

impl<C: Clone + Eq> Looks<C> {
    pub(crate) fn after(found: C) -> Looks<C> {
        Looks { last: Ok(found.clone()), counted: Ok(found) }
    }

    /// What counts from now on, if that is news; an error says why it could not be read. Who asks for a look says that all is complete.
    pub(crate) fn look(&mut self, found: Result<C, String>, is_asked: bool) -> Option<&Result<C, String>> {
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
#[path = "looks_tests.rs"]
mod tests;
