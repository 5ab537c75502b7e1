use std::fmt;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// 2xx
    Success,
    /// Any other status: 404 is a read that found nothing, 503 was refused early.
    Status(u16),
    /// No answer within the timeout; its latency is how long it was waited for.
    TimedOut,
    /// The connection broke, or what came was no HTTP; its latency is how long it had been waited for.
    Broken,
    /// Due, and never sent; its latency is how long it had waited for its connection.
    Unsent,
}

/// Errors as they are told apart over time: a row a second has no room for every status.
pub(crate) const ERROR_KINDS: [&str; 3] = ["4xx", "5xx", "no answer"];
pub(crate) const NO_ANSWER: usize = 2;

/// Of [`ERROR_KINDS`]; none for what is no error.
pub(crate) const fn error_kind(status: u16) -> Option<usize> {
    match status {
        ..=399 => None,
        400..=499 => Some(0),
        500.. => Some(1),
    }
}

impl Class {
    pub(crate) const NOT_FOUND: Self = Self::Status(404);

    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            other => Self::Status(other),
        }
    }

    /// The class of this name; what no program of ours has written is an error.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "2xx" => Self::Success,
            "timeout" => Self::TimedOut,
            "unsent" => Self::Unsent,
            other => other.parse().map_or(Self::Broken, Self::of_status),
        }
    }

    /// Whether an answer came, whatever it says.
    pub(crate) const fn is_answer(self) -> bool {
        matches!(self, Self::Success | Self::Status(_))
    }

    /// Whether the time until its end is a latency. That of a connection that broke says nothing about answers.
    pub(crate) const fn has_latency(self) -> bool {
        !matches!(self, Self::Broken)
    }

    /// Whether it is an error. A miss is one unless it was asked for: it is no read of data. A redirection is none, as
    /// for wrk.
    pub(crate) const fn is_failure(self, misses_are_good: bool) -> bool {
        match self {
            Self::Success => false,
            Self::Status(404) => !misses_are_good,
            Self::Status(status) => status >= 400,
            Self::TimedOut | Self::Broken | Self::Unsent => true,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.pad("2xx"),
            Self::Status(status) => f.pad(&status.to_string()),
            Self::TimedOut => f.pad("timeout"),
            Self::Broken => f.pad("broken"),
            Self::Unsent => f.pad("unsent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_of_a_kind() {
        let kinds = [200, 304, 404, 503].map(|status| error_kind(status).map(|kind| ERROR_KINDS[kind]));
        assert_eq!(kinds, [None, None, Some("4xx"), Some("5xx")]);
        assert_eq!(ERROR_KINDS[NO_ANSWER], "no answer");
    }

    #[test]
    fn answers_are_told_apart() {
        let names = [200, 201, 301, 404, 507].map(|status| Class::of_status(status).to_string());
        assert_eq!(names, ["2xx", "2xx", "301", "404", "507"]);
        for class in [
            Class::Success,
            Class::Status(301),
            Class::NOT_FOUND,
            Class::TimedOut,
            Class::Broken,
            Class::Unsent,
        ] {
            assert_eq!(Class::named(&class.to_string()), class);
        }
        let failures = [200, 304, 404, 507].map(|status| Class::of_status(status).is_failure(false));
        assert_eq!(failures, [false, false, true, true]);
        assert!(Class::TimedOut.has_latency() && !Class::Broken.has_latency());
        assert!(!Class::NOT_FOUND.is_failure(true) && Class::TimedOut.is_failure(true));
    }
}
