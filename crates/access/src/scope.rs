use std::fmt;

/// Something that a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Read values by key.
    Read,
    /// Write values by key.
    Write,
    /// Delete by key.
    Delete,
    /// Read or count the keys of a range.
    Range,
    /// Follow changes.
    Changes,
    /// See what the node and its cluster count and report.
    Metrics,
    /// Take profiles.
    Profile,
    /// Have the node do what only operators should.
    Admin,
}

impl Scope {
    /// All that there are.
    pub const ALL: [Scope; 8] = [
        Scope::Read,
        Scope::Write,
        Scope::Delete,
        Scope::Range,
        Scope::Changes,
        Scope::Metrics,
        Scope::Profile,
        Scope::Admin,
    ];

    /// What it is called.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Delete => "delete",
            Scope::Range => "range",
            Scope::Changes => "changes",
            Scope::Metrics => "metrics",
            Scope::Profile => "profile",
            Scope::Admin => "admin",
        }
    }

    /// The one of this name.
    pub fn parse(word: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.word() == word)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// None of them.
    pub const NONE: Scopes = Scopes(0);

    /// These.
    pub const fn of(scopes: &[Scope]) -> Scopes {
        let (mut bits, mut at) = (0, 0);
        while at < scopes.len() {
            bits |= scopes[at].bit();
            at += 1;
        }
        Scopes(bits)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, others: Scopes) -> Scopes {
        Scopes(self.0 | others.0)
    }

    /// Whether this is one of them.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// One that is needed and not among them.
    pub(crate) fn first_missing(self, needed: Scopes) -> Option<Scope> {
        if needed.0 & !self.0 == 0 {
            return None;
        }
        needed.iter().find(|scope| !self.contains(*scope))
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    /// Reads a list such as `read,write`, or `all`. The error is the word that is none.
    pub fn parse(text: &str) -> Result<Scopes, String> {
        if text == "all" {
            return Ok(Scopes::of(&Scope::ALL));
        }
        let mut scopes = Scopes::NONE;
        for word in text.split(',').map(str::trim) {
            let scope = Scope::parse(word).ok_or_else(|| word.to_owned())?;
            scopes = scopes.and(Scopes::of(&[scope]));
        }
        Ok(scopes)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Scope::word).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_a_list_of_words() {
        let some = Scopes::parse("write, read").expect("two scopes");
        assert_eq!(some, Scopes::of(&[Scope::Read, Scope::Write]));
        assert_eq!(some.to_string(), "read,write");
        assert_eq!(Scopes::parse("all").expect("all").iter().count(), Scope::ALL.len());
        for wrong in ["", "read,", "Read", "read write", "all,read"] {
            assert!(Scopes::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let some = Scopes::of(&[Scope::Read]);
        assert_eq!(some.first_missing(Scopes::of(&[Scope::Read])), None);
        assert_eq!(some.first_missing(Scopes::NONE), None);
        assert_eq!(some.first_missing(Scopes::of(&[Scope::Read, Scope::Admin])), Some(Scope::Admin));
    }
}
