/// When an acknowledged write is on disk. Each promises more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// When the system likes; a crash of the process alone loses nothing.
    Never,
    /// Within a second; a crash of the process alone loses nothing.
    EverySecond,
    /// Before the answer.
    Always,
}

impl Durability {
    /// All of them, from the weakest to the strongest.
    pub const ALL: [Durability; 3] = [Durability::Never, Durability::EverySecond, Durability::Always];

    /// The words for them, as an error lists them.
    pub const WORDS: &'static str = "always, everysec or never";

    /// Reads the word for one.
    pub fn parse(text: &[u8]) -> Option<Durability> {
        match text {
            b"always" => Some(Durability::Always),
            b"everysec" => Some(Durability::EverySecond),
            b"never" => Some(Durability::Never),
            _ => None,
        }
    }

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Durability::Always => "always",
            Durability::EverySecond => "everysec",
            Durability::Never => "never",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_word_and_promises_more_than_the_one_before() {
        for durability in Durability::ALL {
            assert_eq!(Durability::parse(durability.word().as_bytes()), Some(durability));
            assert!(Durability::WORDS.contains(durability.word()));
        }
        assert!(Durability::ALL.is_sorted_by(|weaker, stronger| weaker < stronger));
        for text in ["", "Always", "ALWAYS", "always ", " never", "everysecond", "no", "1", "\0"] {
            assert_eq!(Durability::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
