use std::time::Duration;

use ladoga_model::Quote;
use ladoga_profiler::{
    ALLOC_INTERVAL_BYTES_MAX, ALLOC_INTERVAL_BYTES_MIN, FREQUENCY_HZ_MAX, FREQUENCY_HZ_MIN, Format, Kind,
    Options,
};

use super::query::{QueryError, parameters};

/// How long a profile may take: four hours. Its memory is bounded by the number of its samples, not by its length.
const SECONDS_MAX: u32 = 14_400;
const SECONDS_DEFAULT: u32 = 30;
const PREFIX: &str = "/debug/profile/";

/// The kind of profile that a path asks for, if it is a profile's path.
pub(super) fn profiled_kind(path: &[u8]) -> Option<Kind> {
    str::from_utf8(path.strip_prefix(PREFIX.as_bytes())?).ok()?.parse().ok()
}

/// Which profile a request is about.
#[derive(Debug, Clone)]
pub(crate) struct ProfileTarget {
    /// What is measured.
    pub(crate) kind: Kind,
    /// For how long.
    pub(crate) duration: Duration,
    /// How it is written.
    pub(crate) format: Format,
    /// How it is taken.
    pub(crate) options: Options,
}

/// Why a request does not say which profile it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProfileTargetError {
    /// The query is malformed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A number is none, or out of its bounds.
    #[error("{name} is {found}, expected a whole number from {min} to {max}")]
    Number {
        /// Of which parameter.
        name: &'static str,
        /// What is there instead.
        found: Quote,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// A format that is none.
    #[error("format is {found}, expected one of {}", Format::ALL.map(Format::name).join(", "))]
    Format {
        /// What is there instead.
        found: Quote,
    },
    /// A parameter of another kind of profile.
    #[error("{name} is given for a profile of kind {kind}; it is valid for {of} only")]
    OfAnotherKind {
        /// Which parameter.
        name: &'static str,
        /// Which kind was asked for.
        kind: Kind,
        /// To which it belongs.
        of: Kind,
    },
}

impl ProfileTarget {
    /// Reads a path, which is one of a profile, and a query.
    pub(crate) fn parse(path: &[u8], query: &[u8]) -> Result<ProfileTarget, ProfileTargetError> {
        let kind = profiled_kind(path).expect("the route says that it is one");
        let names = ["seconds", "format", "hz", "alloc_interval"];
        let [seconds, format, hz, interval] = parameters(query, names)?;
        let seconds = number("seconds", seconds.as_deref(), 1, SECONDS_MAX)?.unwrap_or(SECONDS_DEFAULT);
        let hz = number("hz", hz.as_deref(), FREQUENCY_HZ_MIN, FREQUENCY_HZ_MAX)?;
        let (least, most) = (ALLOC_INTERVAL_BYTES_MIN as u32, ALLOC_INTERVAL_BYTES_MAX as u32);
        let interval = number("alloc_interval", interval.as_deref(), least, most)?;
        for (name, of, is_given) in
            [("hz", Kind::Cpu, hz.is_some()), ("alloc_interval", Kind::Alloc, interval.is_some())]
        {
            if is_given && kind != of {
                return Err(ProfileTargetError::OfAnotherKind { name, kind, of });
            }
        }
        let defaults = Options::default();
        Ok(ProfileTarget {
            kind,
            duration: Duration::from_secs(u64::from(seconds)),
            format: format.map_or(Ok(Format::Html), |format| format_of(&format))?,
            options: Options {
                frequency_hz: hz.unwrap_or(defaults.frequency_hz),
                alloc_interval_bytes: interval.map_or(defaults.alloc_interval_bytes, u64::from),
                ..defaults
            },
        })
    }
}

fn number(
    name: &'static str,
    text: Option<&[u8]>,
    min: u32,
    max: u32,
) -> Result<Option<u32>, ProfileTargetError> {
    let Some(text) = text else { return Ok(None) };
    let digits = str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| (min..=max).contains(number));
    number.map(Some).ok_or_else(|| ProfileTargetError::Number { name, found: Quote::of(text), min, max })
}

fn format_of(text: &[u8]) -> Result<Format, ProfileTargetError> {
    let format = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    format.ok_or_else(|| ProfileTargetError::Format { found: Quote::of(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &str) -> Result<ProfileTarget, String> {
        let target = format!("/debug/profile/{target}");
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        ProfileTarget::parse(path.as_bytes(), query.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let target = parse("lock").expect("a profile");
        assert_eq!((target.kind, target.duration.as_secs(), target.format), (Kind::Lock, 30, Format::Html));
        assert_eq!(target.options.frequency_hz, Options::default().frequency_hz);
    }

    #[test]
    fn everything_can_be_said() {
        let target = parse("cpu?seconds=14400&format=%70prof&hz=99").expect("a profile");
        assert_eq!(
            (target.kind, target.duration.as_secs(), target.format),
            (Kind::Cpu, 14_400, Format::Pprof)
        );
        assert_eq!(target.options.frequency_hz, 99);
        let options = parse("alloc?alloc_interval=4096").expect("a profile").options;
        assert_eq!(options.alloc_interval_bytes, 4096);
        assert_eq!(parse("alloc?format=heatmap").expect("a profile").format, Format::Heatmap);
    }

    #[test]
    fn says_what_is_wrong_with_a_parameter() {
        for seconds in ["0", "14401", "-1", "+1", "1.5", "", "30s", "99999999999", "%ff"] {
            let error = parse(&format!("cpu?seconds={seconds}")).expect_err(seconds);
            assert!(error.ends_with("expected a whole number from 1 to 14400"), "{error}");
        }
        for hz in ["98", "1001"] {
            assert!(parse(&format!("cpu?hz={hz}")).expect_err(hz).contains("from 99 to 1000"));
        }
        assert!(parse("alloc?hz=99").expect_err("no time").contains("cpu only"));
        assert!(parse("cpu?alloc_interval=4096").expect_err("no memory").contains("alloc only"));
        for interval in ["1023", "1073741825", "4KiB"] {
            let error = parse(&format!("alloc?alloc_interval={interval}")).expect_err(interval);
            assert!(error.ends_with("from 1024 to 1073741824"), "{error}");
        }
        let error = parse("cpu?format=png").expect_err("no such format");
        assert_eq!(error, "format is 'png', expected one of heatmap, svg, html, folded, pprof");
        assert!(parse("cpu?seconds=1&seconds=1").expect_err("twice").contains("more than once"));
        assert!(parse("cpu?seconds=%zz").is_err());
    }
}
