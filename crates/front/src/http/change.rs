use ladoga_model::Quote;
use ladoga_service::parse_number;

use super::lifetime::Lifetime;
use super::query::parameters;
use super::target::TargetError;

/// What is to be done to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntityChange {
    /// This is added to a number.
    Increment(i64),
    /// It is to live so long from now on.
    Expire(Lifetime),
}

/// What a `POST` is to do to what is there, by its query.
pub(crate) fn change(query: &[u8]) -> Result<EntityChange, TargetError> {
    let [by, life] = parameters(query, ["increment", "ttl"])?;
    match (by, life) {
        (None, None) => Err(TargetError::NothingToDo),
        (Some(_), Some(_)) => Err(TargetError::TwoThingsToDo),
        (Some(by), None) => match parse_number(&by) {
            Some(by) => Ok(EntityChange::Increment(by)),
            None => Err(TargetError::Increment { found: Quote::of(&by) }),
        },
        (None, Some(life)) => Lifetime::parse(&life).map(EntityChange::Expire).map_err(TargetError::Life),
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::Ttl;

    use super::*;

    #[test]
    fn a_change_is_a_number_or_a_time_to_live() {
        let of = |query: &str| change(query.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(of("id=k&increment=1"), Ok(EntityChange::Increment(1)));
        assert_eq!(of("increment=-9223372036854775808&id=k"), Ok(EntityChange::Increment(i64::MIN)));
        assert_eq!(of("id=k&increment=%2d5"), Ok(EntityChange::Increment(-5)));
        let minute = Ttl::of_ms(60_000).expect("in bounds");
        assert_eq!(of("id=k&ttl=1m"), Ok(EntityChange::Expire(Lifetime::Limited(minute))));
        assert_eq!(of("ttl=n%6fne&id=k"), Ok(EntityChange::Expire(Lifetime::Unlimited)));
        for query in ["id=k&ttl=", "id=k&ttl=5", "id=k&ttl=None", "id=k&ttl=0s"] {
            let is_told = |error: String| error.starts_with("ttl is ") && error.ends_with("36500d, or none");
            assert!(of(query).is_err_and(is_told), "{query}");
        }
        assert!(of("id=k&ttl=1m&ttl=1m").is_err() && of("id=k&ttl=1m&increment=1").is_err());
        for query in [
            "id=k&increment=",
            "id=k&increment=+1",
            "id=k&increment=1.5",
            "id=k&increment=9223372036854775808",
        ] {
            assert!(of(query).is_err_and(|error| error.contains("64-bit integer")), "{query}");
        }
        assert!(of("id=k").is_err() && of("id=k&increment=1&increment=1").is_err());
    }
}
