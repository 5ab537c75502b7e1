/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// 2xx
    Success = 0,
    /// 404: a read that found nothing, which is not a read of data.
    NotFound = 1,
    /// 503: refused early.
    Unavailable = 2,
    /// Any other status.
    Other = 3,
    /// No answer within the timeout; its latency is how long it was waited for.
    TimedOut = 4,
    /// The connection broke, or what came was no HTTP; its latency is how long it had been waited for.
    Broken = 5,
}

impl Class {
    pub(crate) const ALL: [Self; 6] =
        [Self::Success, Self::NotFound, Self::Unavailable, Self::Other, Self::TimedOut, Self::Broken];

    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            404 => Self::NotFound,
            503 => Self::Unavailable,
            _ => Self::Other,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::NotFound => "404",
            Self::Unavailable => "503",
            Self::Other => "other",
            Self::TimedOut => "timeout",
            Self::Broken => "broken",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class::{self, NotFound, Other, Success, Unavailable};

    #[test]
    fn answers_are_told_apart() {
        let classes = [200, 201, 301, 404, 400, 503, 504].map(Class::of_status);
        assert_eq!(classes, [Success, Success, Other, NotFound, Other, Unavailable, Other]);
    }
}
